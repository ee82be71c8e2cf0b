"""Fitting laws to reward curves: closed forms, autocorrelated noise, honest intervals."""

from grpo_clinic.fitting.results import CurveFit, FittedNumber, LawFit, fit_curve
from grpo_clinic.fitting.shapes import SHAPES

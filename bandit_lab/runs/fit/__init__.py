"""Fitting laws to reward curves: closed forms, autocorrelated noise, honest intervals."""

from bandit_lab.runs.fit.results import CurveFit, FittedNumber, LawFit, fit_curve, fit_many
from bandit_lab.runs.fit.shapes import SHAPES

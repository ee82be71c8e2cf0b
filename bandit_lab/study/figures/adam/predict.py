"""Prediction of experiments/adam.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.adam.problem import dataset, steps
from bandit_lab.study.reproduce.experiment import Setting


def predict(setting: Setting) -> xarray.Dataset:
    """Closed forms at the noise of each group size."""
    even, weight, success = np.full(2, 0.5), setting.kl_weight, tuple(setting.rewards)

    def at(size):
        law = theory.GroupLaw("rloo", size)
        signal = theory.BinarySignal(law, success)
        policy = theory.settled_point(signal, even, weight).policy
        noise = theory.binary_covariance(law, signal.means, policy)
        return theory.stiffness_split(signal, policy, weight, "frozen"), noise

    thresholds: list[list[float]] = [[], []]
    for size in setting.sizes:
        split, noise = at(size)
        n, beta1 = setting.held.refresh_interval, setting.held.momentum
        moment = theory.noise_second_moment(noise)
        thresholds[0].append(theory.adaptive_threshold(split, moment, "refresh", n, beta1).kappa)
        thresholds[1].append(theory.exact("refresh", n, beta1).kappa / theory.largest_stiffness(split))
    split, noise = at(setting.group_size)
    held = theory.adaptive_threshold(split, theory.noise_second_moment(noise), "refresh", 1, 0.0).kappa

    def response(factor):
        moment = theory.self_consistent_moment(split, noise, factor * held, 1, beta1=0.0)
        assert moment is not None, "no second moment is consistent with its own fluctuation here"
        return 1 - factor * held * theory.precondition(split, moment).largest

    fine = np.geomspace(min(setting.factors), max(setting.factors), 25)
    factors = np.array(setting.factors)
    more = {
        "response_held": ("factor", 1 - 2 * factors, "1"),
        "response": ("factor", [response(x) for x in factors], "1"),
        "response_line": ("fine_factor", [response(x) for x in fine], "1"),
        "response_held_line": ("fine_factor", 1 - 2 * fine, "1"),
    }
    about = setting.curve
    options = (even, weight, about.learning_rate, about.steps, about.momentum, setting.beta2)
    laws = [theory.GroupLaw("rloo", size) for size in setting.curve_sizes]
    curves = [theory.adam_mean_curve(law, success, *options)[steps(setting)] for law in laws]
    return dataset(setting, thresholds, curves, more).assign_coords(fine_factor=fine)

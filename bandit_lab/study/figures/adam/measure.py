"""Measurement of experiments/adam.py."""

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner, Optimizer
from bandit_lab.simulate import run
from bandit_lab.study.figures.adam.problem import OPTIMIZERS, dataset, steps
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Multipliers, responses and means of the real update."""
    thresholds = lab.keep("thresholds", lambda: _thresholds(setting))
    responses = lab.keep("responses", lambda: _responses(setting))
    curves = lab.keep("curves", lambda: _curves(setting))
    more = {
        "response": ("factor", responses["response"].values, "1"),
        "response_error": ("factor", responses["error"].values, "1"),
        "reward_error": (("curve_size", "step"), curves["error"].values, "reward"),
    }
    return dataset(setting, thresholds["threshold"].values, curves["reward"].values, more)


def _learner(setting: Setting, optimizer: str, size: int) -> Learner:
    options = (("b2", setting.beta2),) if optimizer == "adam" else ()
    bandit = two_arm(tuple(setting.rewards))
    return Learner(bandit, ADVANTAGES["rloo"](), optimizer=Optimizer(optimizer, options), group_size=size)


def _thresholds(setting: Setting) -> xarray.Dataset:
    about = (setting.held.momentum, setting.held.refresh_interval, setting.kl_weight)
    rates = [
        [
            detectors.floquet_threshold(_learner(setting, o, g), "finite_group", *about).learning_rate
            for g in setting.sizes
        ]
        for o in OPTIMIZERS
    ]
    return xarray.Dataset({"threshold": (("optimizer", "group_size"), np.array(rates, float))})


def _responses(setting: Setting) -> xarray.Dataset:
    learner = _learner(setting, "adam", setting.group_size)
    held = detectors.floquet_threshold(learner, "finite_group", 0.0, 1, setting.kl_weight).learning_rate
    theta = detectors.find_fixed_point(learner, "finite_group", setting.kl_weight).rest
    along = setting.response.displacement * np.array([1.0, -1.0]) / np.sqrt(2)
    options = {"burn_in": setting.burn_in, "periods": 1, "seeds": setting.seeds, "seed": setting.seed}
    found = [
        detectors.mean_response(learner, Hyper(f * held, 0.0, 1, setting.kl_weight), theta, along, **options)
        for f in setting.factors
    ]
    values = {"response": [x.value[1] for x in found], "error": [x.error[1] for x in found]}
    return xarray.Dataset({name: ("factor", np.array(value)) for name, value in values.items()})


def _curves(setting: Setting) -> xarray.Dataset:
    about = setting.curve
    cells = Hyper(*(np.array([x]) for x in (about.learning_rate, about.momentum, 1, setting.kl_weight)))
    options = {"steps": about.steps, "seeds": setting.curve_seeds, "seed": setting.seed, "summary": False}
    runs = [
        run(_learner(setting, "adam", g), "sampled", cells, dtype=np.float64, **options) for g in setting.curve_sizes
    ]
    means = [one.reward_mean[0, steps(setting)] for one in runs]
    errors = [np.sqrt(one.reward_variance[0, steps(setting)] / setting.curve_seeds) for one in runs]
    return xarray.Dataset({"reward": (("g", "step"), means), "error": (("g", "step"), errors)})

"""Measurement of experiments/transfer.py."""

import numpy as np
import xarray

from bandit_lab.grpo import ADVANTAGES, Hyper, Learner
from bandit_lab.measure.displaced import stack_bandits
from bandit_lab.measure.observe import observe, success_of_prompts
from bandit_lab.study.figures.transfer.problem import REWARD, axes, problem
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The same, mean over seeds, with standard errors."""
    whole, coords = problem(setting), axes(setting)
    trained, judged = (
        stack_bandits([whole.only(part)]) for part in (slice(0, setting.contexts), slice(setting.contexts, None))
    )
    hyper = Hyper(np.array([setting.learning_rate]), 0.0, 1, 0.0)
    options = {"times": len(coords["time"]), "every": setting.every, "seeds": setting.seeds}
    means, errors = [], []
    for name in coords["advantage"]:
        for size in setting.groups:
            learner = Learner(trained, ADVANTAGES[name](), group_size=size, prompts=setting.contexts)
            seen = observe(learner, setting.dynamics, hyper, success_of_prompts, judged, **options)[0]
            means.append(seen.mean(0))
            errors.append(seen.std(0) / np.sqrt(max(len(seen) - 1, 1)))
    shape = [len(axis) for axis in coords.values()]
    values = {"held_out": np.reshape(means, shape), "held_out_error": np.reshape(errors, shape)}
    return xarray.Dataset({name: (tuple(coords), value, REWARD) for name, value in values.items()}, coords)

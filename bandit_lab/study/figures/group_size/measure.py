"""Measurement of experiments/group_size.py."""

from functools import partial

import numpy as np
import xarray

from bandit_lab.bandits import two_arm
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner
from bandit_lab.simulate import run
from bandit_lab.study.figures.group_size.problem import (
    CASES,
    RULES,
    dataset,
    failures,
    level_crossings,
    log_odds,
    times,
)


def measure(setting, lab):
    done = [lab.keep(f"G = {g}", partial(_measure, setting, g)) for g in setting.sizes]
    grid, steps = _cells(setting.curve.learning_rate), int(times(setting)[1][-1])
    infinite = [run(_starting(r, 2, setting), "mean_field", grid, steps=steps, dtype=np.float64) for r in RULES]
    whole = xarray.concat(done, "group_size")
    return dataset(
        setting,
        whole["reward"].transpose("rule", ...).values,
        [r.reward_mean[0, times(setting)[1]] for r in infinite],
        whole["factor"].values,
        whole["failure_at_level"].values,
        whole["variance"].transpose("case", "loop", ...).values,
        {
            "reward_error": (("rule", "group_size", "time"), whole["reward_error"].transpose("rule", ...), "reward"),
            "factor_error": (("group_size", "failure"), whole["factor_error"], "1"),
        },
    )


def _cells(learning_rate, momentum=0.0, interval=1, kl_weight=0.0):
    columns = np.broadcast_arrays(*np.atleast_1d(learning_rate, momentum, interval, kl_weight))
    return Hyper(*(np.array(column) for column in columns))


def _learner(rule, size, rewards, reference=(0.0, 0.0), gap=0.0):
    bandit = two_arm(rewards, reference_logits=reference, initial_logits=(gap / 2, -gap / 2))
    return Learner(bandit, advantage=ADVANTAGES[rule](), group_size=size)


def _starting(rule, size, setting):
    return _learner(rule, size, (1.0, 0.0), gap=log_odds(setting.curve.start))


def _measure(setting, size):
    """Everything at one group size."""
    shown, curve, about = times(setting)[1], setting.curve, setting.variance
    options = {"seed": setting.seed + size, "summary": False, "dtype": np.float64}
    grid, steps = _cells(curve.learning_rate), int(shown[-1])
    runs = [run(_starting(r, size, setting), "sampled", grid, steps=steps, seeds=curve.seeds, **options) for r in RULES]
    q, rate, seeds = failures(setting), setting.factor.learning_rate, setting.factor.seeds
    start = np.stack([-log_odds(q) / 2, log_odds(q) / 2], axis=-1)
    grid = _cells(np.full(len(q), rate))
    one = run(_learner("grpo", size, (1.0, 0.0)), "sampled", grid, steps=1, seeds=seeds, initial=start, **options)
    unit = 2 * rate * (q * (1 - q)) ** 1.5  # change of p in one update where c = 1
    factor = (one.reward_mean[:, 1] - one.reward_mean[:, 0]) / unit
    before, after = (round(x * about.relaxations / 4) * 4 for x in (about.burn_in, about.window))
    variances = []
    for case in CASES:
        there = _learner("grpo", size, tuple(about[case].rewards), tuple(about[case].reference))
        loops, steps = about.loops, before + after - 1
        grid = _cells(loops.learning_rate, loops.momentum, loops.refresh_interval, about[case].kl_weight)
        found = run(there, "sampled", grid, steps=steps, seeds=about.seeds, **options)
        variances.append(found.reward_variance[:, before:].mean(axis=1))
    return xarray.Dataset(
        {
            "reward": (("rule", "time"), [r.reward_mean[0, shown] for r in runs]),
            "reward_error": (("rule", "time"), [np.sqrt(r.reward_variance[0, shown] / curve.seeds) for r in runs]),
            "factor": ("failure", factor),
            "factor_error": ("failure", np.sqrt(one.reward_variance[:, 1] / seeds) / unit),
            "failure_at_level": ("level", level_crossings(q, factor, np.array(setting.factor.levels))),
            "variance": (("case", "loop"), variances),
        }
    )

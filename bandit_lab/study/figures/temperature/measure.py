"""Measurement of experiments/temperature.py."""

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner
from bandit_lab.simulate import run
from bandit_lab.study.figures.temperature.problem import REWARDS, dataset
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The threshold, then sampled runs at shares of it."""
    n, mu = np.array(setting.loops.refresh_interval), np.array(setting.loops.momentum)
    learner = Learner(two_arm(REWARDS), advantage=ADVANTAGES["dr_grpo"](), group_size=setting.group_size)
    found = lab.keep("threshold", lambda: _threshold(setting, learner, n, mu))
    threshold, theta = found["threshold"].values, found["theta"].values

    def runs(shares: list[float], reuse: bool) -> xarray.Dataset:
        trained = Learner(learner.bandit, advantage=learner.advantage, group_size=setting.group_size, batch_reuse=reuse)
        rates = np.outer(threshold, shares)
        cells = Hyper(*(np.repeat(x, len(shares)) for x in (threshold, mu, n, np.full(len(n), setting.kl_weight))))
        steps = setting.burn_in + setting.window
        seen = run(
            trained,
            "sampled",
            cells._replace(learning_rate=rates.ravel()),
            steps=steps,
            seeds=setting.seeds,
            seed=setting.seed + reuse,
            initial=theta,
            summary=False,
        ).reward_variance.reshape(len(n), len(shares), -1)[..., setting.burn_in : steps]
        points = np.stack([seen[i, :, ::interval].mean(axis=-1) for i, interval in enumerate(n)])
        return xarray.Dataset({"steps": (("loop", "s"), seen.mean(axis=-1)), "points": (("loop", "s"), points)})

    fresh = lab.keep("fresh", lambda: runs(setting.shares, False))
    reused = lab.keep("reused", lambda: runs(setting.reused_shares, True))
    same = [setting.shares.index(share) for share in setting.reused_shares]
    return dataset(setting, threshold, fresh["steps"].values, fresh["points"].values[:, same], reused["points"].values)


def _threshold(setting: Setting, learner: Learner, n: np.ndarray, mu: np.ndarray) -> xarray.Dataset:
    point = detectors.find_fixed_point(learner, "finite_group", setting.kl_weight)
    cells = Hyper(np.ones(len(n)), mu, n, np.full(len(n), setting.kl_weight))
    scan = np.geomspace(setting.scan.start, setting.scan.stop, setting.scan.num) * ((1 - mu) / n)[:, None]
    theta, direction = np.tile(point.rest, (len(n), 1)), detectors.generic_direction(point.basis)
    found = detectors.learning_rate_boundary(learner, "finite_group", cells, theta, direction, scan)
    return xarray.Dataset({"threshold": ("loop", found.value), "theta": ("logit", point.rest)})

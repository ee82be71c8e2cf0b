"""One good arm among others whose answers another law draws: what is simulated of it, for `mismatch`."""

from typing import Any

import numpy as np

from bandit_lab.bandits import k_arm
from bandit_lab.grpo import ADVANTAGES, CORRECTIONS, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Setting
from bandit_lab.measure.fixed_point import critical_kl_weight, find_fixed_point
from bandit_lab.simulation import run
from experiments.shared.mismatch_axes import bounds, number


def learner(advantage: str, sampler: Any, correction: str = "none", **more: Any) -> Learner:
    """One arm of reward 1; more: `others`, `size`, `bound`."""
    bandit = k_arm((1.0, *(0.0,) * more.get("others", 1)), kind="fixed")
    weigh = CORRECTIONS.build(correction, bounds(correction, more.get("bound", 1.0)))
    size = more.get("size") or 64
    return Learner(bandit, ADVANTAGES[advantage](), group_size=size, sampler=sampler, correction=weigh)


def gaps(policies: Any) -> np.ndarray:
    """Log-odds [...] of the first arm of policies [..., K]."""
    policies = np.asarray(policies, float)
    with np.errstate(divide="ignore"):
        return np.log(policies[..., 0]) - np.log(policies[..., 1:].sum(axis=-1))


def measured_critical(setting: Setting, *chosen: Any, **more: Any) -> float:
    """The critical weight of the exact mean update at G = infinity, NaN where there is none."""
    trained = learner(*chosen, **more)
    if find_fixed_point(trained, "mean_field", setting.no_more).exists:
        return float("nan")
    return number(critical_kl_weight(trained, "mean_field", setting.no_more, setting.kl_accuracy))


def ends(setting: Setting, trained: Learner, weights: Any, rate: float, steps: int) -> np.ndarray:
    """Log-odds [weights, seeds] at the end of sampled runs."""
    cells = Hyper(np.full(len(weights), rate), 0.0, 1, np.asarray(weights, float))
    runs = run(
        trained, "sampled", cells, steps=steps, seeds=setting.seeds, seed=setting.seed, summary=False, policies=True
    )
    assert runs.policies is not None
    return gaps(runs.policies[:, :, 0])


def held(setting: Setting, last: np.ndarray) -> np.ndarray:
    """Median over seeds [...], NaN where most runs are gone."""
    middle = np.median(last, axis=-1)
    return np.where(middle > setting.gone, np.nan, middle)

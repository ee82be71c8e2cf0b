"""Theory of `stabilisers`: the noise of an update from old answers, and where it feeds itself. See there."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from bandit_lab import theory
from bandit_lab.lab.reproduce.experiment import Setting
from experiments.shared.readings import effective_share

MEAN, NOISE = 0, 1
"""What ends the runs of a rule at an age."""


Weight = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(ratio, advantage) -> weight of an answer."""


def one(ratio: np.ndarray, advantage: np.ndarray) -> np.ndarray:
    return np.ones_like(ratio)


def whole(ratio: np.ndarray, advantage: np.ndarray) -> np.ndarray:
    return ratio


def ppo(ratio: np.ndarray, advantage: np.ndarray) -> np.ndarray:
    flat = ((advantage > 0) & (ratio > 1.2)) | ((advantage < 0) & (ratio < 0.8))
    return np.where(flat, 0, ratio)


def half_way(ratio: np.ndarray, advantage: np.ndarray) -> np.ndarray:
    return np.sqrt(ratio) * ppo(np.sqrt(ratio), advantage)


def capped(ratio: np.ndarray, advantage: np.ndarray) -> np.ndarray:
    return np.minimum(ratio, 1.28)


WEIGHTS: dict[str, Weight] = {
    "frozen": one, "uncorrected": one, "ratio": whole, "clipped": ppo, "decoupled": half_way, "cispo": capped,
}  # fmt: skip
"""`m2po` looks at a whole group: it has no such function, and no prediction."""


class Near(NamedTuple):
    """The fixed point of two arms: gap, stiffness of the gap at the current and at the acting policy."""

    gap: float
    fresh: float
    stale: float


def near(setting: Setting, rule: str) -> Near:
    signal = theory.BinarySignal(theory.GroupLaw("grpo", setting.group_size), tuple(setting.rewards))
    even = np.full(2, 0.5)
    point = theory.settled_point(signal, even, setting.kl_weight, even)
    kind = rule if rule in ("frozen", "uncorrected") else "ratio"
    fresh, stale = theory.stiffness_split(signal, point.policy, setting.kl_weight, kind).reduced()
    return Near(float(np.log(point.policy[0] / point.policy[1])), fresh.item(), stale.item())


def variance_of_update(setting: Setting, rule: str, gap: np.ndarray, old: np.ndarray) -> np.ndarray:
    """v: G times the variance of the gap's update, leading in 1/G, for policies of gaps `gap` and `old`.

    The influence of one answer on (1/G) sum A w S, A divided by the group's own std, is
    A w S - M - A E[w S] - M (A^2-1)/2 with M = E[A w S].
    """
    score, weight = old if rule == "frozen" else gap, WEIGHTS[rule]
    win, chance = setting.rewards, (expit(old), expit(-old))
    mean = chance[0] * win[0] + chance[1] * win[1]
    std = np.sqrt(mean * (1 - mean))
    slopes = (2 * expit(-score), -2 * expit(score))
    ratios = (expit(gap) / chance[0], expit(-gap) / chance[1])
    atoms = []
    for arm in (0, 1):
        for reward in (0.0, 1.0):
            share = chance[arm] * (win[arm] if reward else 1 - win[arm])
            advantage = (reward - mean) / std
            atoms.append((share, advantage, weight(ratios[arm], advantage) * slopes[arm]))
    drift = sum(share * advantage * force for share, advantage, force in atoms)
    pull = sum(share * force for share, _, force in atoms)
    return np.asarray(sum(
        share * (advantage * force - drift - advantage * pull - drift * (advantage**2 - 1) / 2) ** 2
        for share, advantage, force in atoms
    ))  # fmt: skip


def response(point: Near, rate: float, age: int) -> tuple[float, float]:
    """Variance of x and covariance of x and x_old of the linear loop, per unit of gradient variance."""
    z = np.exp(2j * np.pi * np.arange(2**12) / 2**12)
    power = np.abs(rate / (z - 1 + rate * (point.fresh + point.stale * z**-age))) ** 2
    return float(power.mean()), float((power * (z**age).real).mean())


NODES, SHARES = np.polynomial.hermite_e.hermegauss(40)
FAR_NODES = 12.0
"""Nats from the fixed point up to which the variance is averaged."""


def closure(setting: Setting, rule: str, point: Near, rate: float, age: int) -> tuple[float, float]:
    """(variance of the gap, mean effective share); NaN where the noise that it makes has no balance."""
    own, shared = response(point, rate, age)
    like = shared / own
    level = float(variance_of_update(setting, rule, *np.array([[point.gap]] * 2))[0])
    share = SHARES[:, None] * SHARES / SHARES.sum() ** 2
    for _ in range(100):
        width = np.sqrt(own * level / setting.group_size)
        if not width < FAR_NODES / NODES.max():
            return np.nan, np.nan
        gap = point.gap + width * NODES[:, None] + 0 * NODES
        old = point.gap + width * (like * NODES[:, None] + np.sqrt(max(1 - like**2, 0)) * NODES)
        before = level
        level = 0.5 * (level + float(np.sum(share * variance_of_update(setting, rule, gap, old))))
        if abs(level - before) <= 1e-6 * level:
            break
    return float(width**2), float(np.sum(share * effective_share(gap, old)))


def mean_threshold(point: Near, age: int) -> float:
    crossing = theory.first_unstable_learning_rate(theory.LinearLoop(point.fresh, point.stale, 0.0, "lag"), age)
    return np.inf if crossing.value is None else crossing.value


def largest_variance(setting: Setting) -> float:
    """At which a Gaussian of independent steps is farther than `far` once in a share `broken` of the runs."""
    once = -np.log(1 - setting.broken) / setting.steps
    return float((setting.far / norm.isf(once / 2)) ** 2)


def largest_rate(setting: Setting, rule: str, point: Near, age: int) -> tuple[float, int]:
    """(learning rate up to which runs hold, what ends them)."""
    mean, most = mean_threshold(point, age), largest_variance(setting)
    for rate in np.geomspace(0.1, 20, 107):
        if rate >= mean:
            return mean, MEAN
        if not closure(setting, rule, point, rate, age)[0] < most:
            return float(rate), NOISE
    return np.inf, NOISE

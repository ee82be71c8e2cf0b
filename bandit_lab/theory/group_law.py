"""Binary rewards in groups: by what factor the group estimator multiplies the policy gradient.

Derived here. In a group of G, k successes of probability J each, every member's advantage A depends on its own reward
and k only. Given its reward a member's action is drawn from pi(a) r_a / J or pi(a)(1 - r_a)/(1 - J), whose mean scores
are grad J / J and -grad J / (1 - J), hence the exact mean of the estimator (1/G) sum_i A_i score_i is h(J) grad J with

    h(J) = E_{k ~ Bin(G-1, J)} [D_k],   D_k = A(1, k + 1) - A(0, k),
    h'(J) = (G - 1) E_{k ~ Bin(G-2, J)} [D_{k+1} - D_k].

For the standardised advantage this equals E[s_k^2/(s_k + eps)]/(J(1-J)), s_k = sqrt(k(G-k))/G; c_G = h sqrt(J(1-J)) is
the finite-group factor of arXiv 2607.00152, 1 - 1/(8 G J(1-J)) + O(1/G^2), and tends to 1: h = 1/(sqrt(J(1-J)) + eps)
at G = infinity. Divided by a power a of the std alone it is E[s_k^(2-a), group not silent]/(J(1-J)) and, at
G = infinity, (J(1-J))^(-a/2). Mean-only: 1 - 1/G; leave-one-out and no baseline: 1; dropping silent groups divides by
1 - J^G - (1-J)^G. With importance ratios the same h appears, evaluated at the rollout policy: E[A_i | own reward] is a
matter of the others.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bandit_lab import _checks


class Rule(NamedTuple):
    """A = gain (r - baseline) / (std^power + eps) for rewards 1 and 0; with a power, 0 in a silent group.

    gain: from G. baseline: from the share of successes. divides: (power, eps, ddof). centred: whether A adds up to 0.
    drops: whether silent groups are drawn anew. least: smallest group.
    """

    gain: Callable[[int | None], float] = lambda size: 1.0
    baseline: Callable[[np.ndarray], np.ndarray] = lambda share: share
    divides: Callable[["GroupLaw"], tuple[float, float, int]] = lambda law: (0.0, 0.0, 0)
    centred: bool = True
    drops: bool = False
    least: int = 2


def _by_std(law: "GroupLaw") -> tuple[float, float, int]:
    return 1.0, law.eps, law.ddof


RULES: dict[str, Rule] = {
    "grpo": Rule(divides=_by_std),
    "dr_grpo": Rule(),
    "rloo": Rule(gain=lambda size: size / (size - 1) if size else 1.0),
    "dapo": Rule(divides=_by_std, drops=True),
    "median": Rule(baseline=lambda share: 0.5 + 0.5 * np.sign(2 * share - 1), centred=False),
    "sign": Rule(gain=lambda size: 2.0, baseline=lambda share: np.full_like(share, 0.5), centred=False, least=1),
    "none": Rule(baseline=np.zeros_like, centred=False, least=1),
    "tempered": Rule(divides=lambda law: (law.power, 0.0, 0)),
}
ADVANTAGES: tuple[str, ...] = tuple(RULES)
"""Rules with a closed form for binary rewards, under the names that they have where they are trained with."""


def binomial_weights(trials: int, success: ArrayLike, failure: ArrayLike | None = None) -> np.ndarray:
    """P(k successes) of n = `trials`, k = 0..n, shape [..., n + 1]; `failure` = 1 - success keeps its digits."""
    p = np.asarray(success, float)[..., None]
    q = 1 - p if failure is None else np.asarray(failure, float)[..., None]
    k, log_choose = _log_choose(trials)
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.where(k > 0, k * np.log(p), 0) + np.where(k < trials, (trials - k) * np.log(q), 0)
    return np.exp(log_choose + powers)


@lru_cache(maxsize=64)
def _log_choose(trials: int) -> tuple[np.ndarray, np.ndarray]:
    log_factorials = np.array([math.lgamma(n + 1) for n in range(trials + 1)])
    return np.arange(trials + 1), log_factorials[-1] - log_factorials - log_factorials[::-1]


def silent_rate(group_size: int, success: ArrayLike) -> np.ndarray:
    """Probability p^G + (1-p)^G that all members of a group have the same reward, shape of `success`."""
    p = np.asarray(success, float)
    return p**group_size + (1 - p) ** group_size


@dataclass(frozen=True)
class GroupLaw:
    """Advantage rule for binary rewards: the factor h(J) and its derivative.

    `advantage`: grpo (mean and std), dr_grpo (mean), rloo (leave-one-out mean), dapo (grpo, silent groups dropped),
    median, sign (2r - 1, no baseline), none (r), tempered (mean, and the std to a power). `group_size` None means
    infinity. grpo and dapo alone: `eps` is added to the std, `ddof` 0 or 1. tempered alone: `power` in [0, 2].
    Raises ValueError for an unknown advantage, group size < 2 (sign, none: < 1), eps < 0, another ddof or power.
    """

    advantage: str = "grpo"
    group_size: int | None = None
    eps: float = 0.0
    ddof: int = 0
    power: float = 0.5

    def __post_init__(self) -> None:
        _checks.choice("advantage", self.advantage, ADVANTAGES)
        _checks.non_negative("advantage.eps", self.eps)
        _checks.require(self.ddof in (0, 1), "advantage.ddof", "0 or 1", self.ddof)
        _checks.require(0 <= self.power <= 2, "advantage.power", "a number in [0, 2]", self.power)
        if self.group_size is not None:
            _checks.integer("group_size", self.group_size, self.rule.least)

    @property
    def rule(self) -> Rule:
        """Name of the advantage."""
        return RULES[self.advantage]

    @property
    def label(self) -> str:
        """The drift's name in tables: `G = infinity` or `G = 64`."""
        return "G = infinity" if self.group_size is None else f"G = {self.group_size}"

    @property
    def centred(self) -> bool:
        """True if the advantages of a group sum to zero, so that the stale gradient forgets the current policy."""
        return self.rule.centred

    @property
    def std_power(self) -> float:
        """The power of the std that divides: 0 for a rule that does not look at it."""
        return self.rule.divides(self)[0]

    @property
    def unbounded(self) -> bool:
        """True if h(J) diverges as J -> 1: only then may no interior fixed point exist."""
        power, eps, _ = self.rule.divides(self)
        return power > 0 and eps == 0 if self.group_size is None else self.rule.drops

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """Advantage of a success and of a failure in a group with k = 0..G successes, each [G + 1]; finite G only.

        Raises ValueError at G = infinity.
        """
        _checks.require(self.group_size is not None, "group_size", "a finite group", "infinity")
        size = int(self.group_size or 0)
        k = np.arange(size + 1)
        power, eps, ddof = self.rule.divides(self)
        silent = (k * (size - k) == 0) & (power > 0)
        divisor = np.where(silent, np.inf, (k * (size - k) / (size * (size - ddof))) ** (power / 2) + eps)
        gain, baseline = self.rule.gain(size) / divisor, self.rule.baseline(k / size)
        return gain * (1 - baseline), -gain * baseline

    def success_weights(self, success: ArrayLike, failure: ArrayLike | None = None) -> np.ndarray:
        """P(k successes) in a group that is used [..., G + 1]: k ~ Bin(G, J), not silent where those are dropped.

        Finite groups only. Raises ValueError at G = infinity.
        """
        _checks.require(self.group_size is not None, "group_size", "a finite group", "infinity")
        weight = binomial_weights(int(self.group_size or 0), success, failure)
        if not self.rule.drops:
            return weight
        weight[..., [0, -1]] = 0.0
        return weight / weight.sum(-1, keepdims=True)

    @cached_property
    def _differences(self) -> np.ndarray:
        up, down = self.table()
        return up[1:] - down[:-1]

    def factor(self, success: ArrayLike, failure: ArrayLike | None = None) -> np.ndarray:
        """h(J) such that the mean estimator is h(J) grad J; shape of `success`. Derived in this module."""
        p, q = _pair(success, failure)
        if self.group_size is None:
            return self._limit(p, q)[0]
        value = binomial_weights(self.group_size - 1, p, q) @ self._differences
        return value / self._alive(p, q)[0] if self.rule.drops else value

    def slope(self, success: ArrayLike, failure: ArrayLike | None = None) -> np.ndarray:
        """h'(J), shape of `success`."""
        p, q = _pair(success, failure)
        if self.group_size is None:
            return self._limit(p, q)[1]
        size, gaps = self.group_size, self._differences
        if size == 1:
            return np.zeros_like(p)
        value = (size - 1) * (binomial_weights(size - 2, p, q) @ np.diff(gaps))
        if not self.rule.drops:
            return value
        alive, alive_slope = self._alive(p, q)
        return value / alive - (binomial_weights(size - 1, p, q) @ gaps) * alive_slope / alive**2

    def mean_advantage(self, success: ArrayLike, failure: ArrayLike | None = None) -> np.ndarray:
        """Mean advantage of a member, zero for centred rules; shape of `success`."""
        p, q = _pair(success, failure)
        if self.centred:
            return np.zeros_like(p)
        if self.group_size is None:
            return self.rule.gain(None) * (p - self.rule.baseline(p))
        up, down = self.table()
        k = np.arange(self.group_size + 1)
        return binomial_weights(self.group_size, p, q) @ ((k * up + (self.group_size - k) * down) / self.group_size)

    def group_factor(self, success: ArrayLike) -> np.ndarray:
        """c_G(p) = h(p) sqrt(p(1-p)), 1 at G = infinity for the standardised advantage (arXiv 2607.00152)."""
        p, q = _pair(success, None)
        return self.factor(p, q) * np.sqrt(p * q)

    def _alive(self, p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probability 1 - p^G - q^G of a group that is not silent, and its derivative in p."""
        size = int(self.group_size or 0)
        inner = binomial_weights(size, p, q)[..., 1:-1].sum(-1)
        return inner, -size * (p ** (size - 1) - q ** (size - 1))

    def _limit(self, p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """h and h' at G = infinity, shape of p."""
        power, eps, _ = self.rule.divides(self)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.rule.gain(None) / ((p * q) ** (power / 2) + eps)
            slope = -(value**2) * (q - p) * power / 2 * (p * q) ** (power / 2 - 1) if power else np.zeros_like(p)
        return value, slope


def _pair(success: ArrayLike, failure: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    p = np.asarray(success, float)
    return p, 1 - p if failure is None else np.asarray(failure, float)

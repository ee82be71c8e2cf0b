"""What a group of G answers with 0/1 rewards can teach: silent groups, the share of the gradient, and G for a wish.

At success probability p a group is silent with probability p^G + (1 - p)^G. Over prompts of different difficulty its
mean is at least that of the mean p, because the function is convex in p (Jensen). If difficulties follow a Beta law
with mean p and concentration c (a = c p, b = c (1 - p)), the mean is exactly

    E[p^G + (1-p)^G] = B(a + G, b)/B(a, b) + B(a, b + G)/B(a, b),

falling in c from 1 (every prompt always or never solved) to the bound (all prompts alike), so that a share of silent
groups observed at one G gives c, and c the share at any other G. Derived here.
"""

import bisect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln

from bandit_lab import _checks
from bandit_lab.theory import GroupLaw, silent_rate

LARGEST = 4096
"""Group sizes beyond it are not offered."""
_LEAST, _MOST = 1e-4, 1e6
_ROUNDING = 1e-9


@dataclass(frozen=True)
class DifficultySpread:
    """Success probabilities over prompts: a Beta law with `mean` and `concentration` c (large: all prompts alike)."""

    mean: float
    concentration: float

    @property
    def std(self) -> float:
        """Standard deviation of the success probability over prompts."""
        return float(np.sqrt(self.mean * (1 - self.mean) / (self.concentration + 1)))

    def silent(self, group_size: int) -> float:
        """Mean share of silent groups of this size."""
        a, b = self.concentration * self.mean, self.concentration * (1 - self.mean)
        base = betaln(a, b)
        return float(np.exp(betaln(a + group_size, b) - base) + np.exp(betaln(a, b + group_size) - base))


def silent_share(success: float, group_size: int) -> float:
    """p^G + (1-p)^G: the share of silent groups if all prompts are alike, a lower bound on its mean otherwise.

    Raises ValueError for p outside [0, 1], G < 1.
    """
    return float(silent_rate(_checks.integer("group_size", group_size, 1), _success(success)))


def spread_from_silence(success: float, group_size: int, observed: float) -> DifficultySpread | None:
    """The spread over prompts that an observed share of silent groups tells; None where it tells none.

    That is where the share does not lie above the bound and below 1, or p is not strictly inside (0, 1).
    """
    mean = _success(success)
    if group_size < 2 or not 0 < mean < 1:
        return None
    low, high = DifficultySpread(mean, _MOST).silent(group_size), DifficultySpread(mean, _LEAST).silent(group_size)
    if not low < observed < high:
        return None
    found = brentq(
        lambda x: DifficultySpread(mean, float(np.exp(x))).silent(group_size) - observed, np.log(_LEAST), np.log(_MOST)
    )
    return DifficultySpread(mean, float(np.exp(found)))


def group_factor(rule: str, success: float, group_size: int) -> float | None:
    """Mean gradient at this G over that at G = infinity (c_G for grpo); None at p = 0 or 1, or where there is none.

    For std-normalised rules with the n - 1 form a constant factor sqrt((G-1)/G) comes on top.
    """
    p = _success(success)
    if group_size < 2 or not 0 < p < 1:
        return None
    infinite = GroupLaw("grpo" if rule == "dapo" else rule, None).factor(p)
    return float(GroupLaw(rule, group_size).factor(p) / infinite)


def group_for_signal(success: float, wanted: float, spread: DifficultySpread | None = None) -> int | None:
    """Smallest G with a share of at least `wanted` groups that are not silent; None beyond 4096 or at p = 0 or 1.

    Raises ValueError for a share outside (0, 1), p outside [0, 1].
    """
    _checks.require(0 < wanted < 1, "signal", "a number in (0, 1)", wanted)
    p = _success(success)
    return _smallest(lambda size: 1 - (spread.silent(size) if spread else silent_share(p, size)) >= wanted - _ROUNDING)


def group_for_factor(rule: str, success: float, wanted: float) -> int | None:
    """Smallest G whose mean gradient is at least `wanted` of that at G = infinity; None as above.

    Raises ValueError for a share outside (0, 1), p outside [0, 1].
    """
    _checks.require(0 < wanted < 1, "group_factor", "a number in (0, 1)", wanted)
    if not 0 < _success(success) < 1:
        return None
    if rule in ("rloo", "dapo"):  # exact at any G; silent groups are dropped
        return 2
    return _smallest(lambda size: (group_factor(rule, success, size) or 0.0) >= wanted - _ROUNDING)


def _smallest(good: Callable[[int], bool]) -> int | None:
    """The smallest group size that is good, as all larger ones are."""
    if not good(LARGEST):
        return None
    return 2 + bisect.bisect_left(range(2, LARGEST), True, key=good)


def _success(success: float) -> float:
    inside = 0 <= _checks.finite_number("success", success) <= 1
    _checks.require(inside, "success", "a probability in [0, 1]", success)
    return float(success)

"""Effect of the group size on the mean: where invariance holds, where it fails, with an error bar.

Derived here. Expanding E sqrt(x(1-x)) at x = k/G to fourth order in the moments of k, with s = p(1-p),

    c_G(p) = 1 - 1/(8 G s) - (7/(128 s^2) - 1/(8 s))/G^2 + O(G^-3),

so invariance of the mean fails when G s falls to order one. `group_shift` compares fixed point, stiffness and exact
threshold at a finite G with G = infinity; the second-order term of c_G is the stated error bar of its first order.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bandit_lab.theory.fixed_points import attracting_fixed_point
from bandit_lab.theory.group_law import GroupLaw
from bandit_lab.theory.stiffness import BinarySignal, largest_stiffness, stiffness_split


def factor_expansion(group_size: int, success: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First-order c_G(p) = 1 - 1/(8 G s) and its error bar, the second-order modulus; shape of `success`."""
    p = np.asarray(success, float)
    s = p * (1 - p)
    second = np.abs(7 / (128 * s**2) - 1 / (8 * s)) / group_size**2
    return 1 - 1 / (8 * group_size * s), second


class GroupShift(NamedTuple):
    """Relative shifts at G against G = infinity: expected reward, stiffness, and threshold learning rate at any N."""

    expected_reward: float
    stiffness: float
    threshold: float


def group_shift(
    success: tuple[float, ...], reference: np.ndarray, kl_weight: float, law: GroupLaw
) -> GroupShift | None:
    """Exact shifts caused by a finite group for `frozen`; None where either drift has no attracting fixed point.

    The threshold is inversely proportional to the stiffness at every refresh interval and momentum.
    """
    values = []
    for size in (None, law.group_size):
        signal = BinarySignal(replace(law, group_size=size), success)
        point = attracting_fixed_point(signal, reference, kl_weight)
        if point is None:
            return None
        values.append((point.expected_reward, largest_stiffness(stiffness_split(signal, point.policy, kl_weight))))
    (reward, stiffness), (moved, stiffened) = values
    return GroupShift(moved / reward - 1, stiffened / stiffness - 1, stiffness / stiffened - 1)

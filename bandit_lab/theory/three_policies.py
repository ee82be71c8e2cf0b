"""Three policies in one update: the one that acted, a proximal one that is refreshed by itself, and the current one.

Derived here. Decoupled PPO (arXiv 2110.00641) gives an answer k of the behaviour policy b the weight w u, w = q_k/b_k,
u = pi_k/q_k, q the proximal policy, until u leaves the clip. At the fixed point all three are equal and u = 1, so that
no clip counts near it. The mean update is then that of a weight pi/b, whatever q is: *the proximal policy has no share
of the stiffness*, and threshold, onset and multipliers are those of `ratio`.

A trainer that works out old probabilities anew, with the weights of q, and leaves w out has the mean update

    g = sum_k b_k (pi_k/q_k) h(b)(r_k - J_b)(e_k - pi) - beta grad KL.

At q = b it is that of `ratio`, which fixes the current share and the sum of the others. The derivative by q is
-h E[(r - J)(e - pi)(e - pi)^T] = -h D, D the Hessian of J. With s = F r (see `stiffness`):

    share        w in                w left out               w left out, log q = (1 - alpha) log b + alpha log pi
    current      beta F              beta F                   beta F + alpha h D
    proximal     0                   h D                      -
    behaviour    -s (grad h)^T       -h D - s (grad h)^T      -alpha h D - s (grad h)^T

The sum is the same for all. The interpolated policy (A-3PO: alpha = 1 - 1/age) splits the proximal share: alpha of it
counts as current, the rest as behaviour. Past the better arm's half D < 0: the behaviour's share is then stiffer with w
left out, and the proximal one pushes away from the snapshot. A penalty lambda KL(q || pi) would add lambda F to the
current share and -lambda F to the proximal one.

*Multipliers.* With a snapshot every M updates and a behaviour policy of any staleness model, the pattern of ages
repeats itself after lcm(M, period of the model) updates, and the map of that many is a matrix: `ThreePolicies.map`. One
stiffness each (c current, p proximal, b behaviour), no momentum, d blocks of M = n updates behind, y = (1 - eta c)^n:

    z^d (z - y + (1 - y) p/c) + (1 - y) b/c = 0.

d = 0: z = y - (1 - y)(p + b)/c, so that blocks of any length are stable iff p + b < c, once 0 <= y. d = 1 (Jury): a
pair crosses where (1 - y) b = c, that is at

    eta = [1 - (1 - c/b)^(1/n)]/c        (b > c; else no pair crosses while y >= 0),

whatever the proximal share is; and z = -1 where (1 - y)(p - b) = (1 + y) c.
"""

from dataclasses import dataclass, replace
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandit_lab import _checks
from bandit_lab.theory.block_map import LinearLoop, Matrix
from bandit_lab.theory.conventions import MODELS
from bandit_lab.theory.signal import Signal, reward_hessian
from bandit_lab.theory.stiffness import Split, stiffness_split


@dataclass(frozen=True)
class ThreePolicies(LinearLoop):
    """A `LinearLoop` with a third share: `proximal` [n, n], of a snapshot taken every `proximal_interval` updates.

    model: refresh, lag or pipeline. What is said of a loop by its map holds of this one (`multipliers`,
    `first_unstable_learning_rate`, `first_oscillating_learning_rate`); a period is `steps_per_map`. Raises ValueError
    as `LinearLoop`.
    """

    proximal: Any = 0.0
    proximal_interval: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        proximal = np.atleast_2d(np.asarray(self.proximal, float))
        _checks.require(proximal.shape == self.fresh.shape, "proximal", f"shape {self.fresh.shape}", proximal.shape)
        _checks.choice("staleness", self.model, MODELS)
        _checks.integer("proximal_interval", self.proximal_interval, 1)
        object.__setattr__(self, "proximal", proximal)

    @property
    def total(self) -> Matrix:
        """The three shares together [n, n]."""
        return self.fresh + self.proximal + self.stale

    def steps_per_map(self, refresh_interval: int) -> int:
        """Updates after which both ages repeat themselves."""
        return lcm(super().steps_per_map(refresh_interval), self.proximal_interval)

    def map(self, learning_rate: ArrayLike, refresh_interval: float) -> Matrix:
        """Map [..., k, k] of `steps_per_map` updates on (x, w) and the older positions that still act, [...] the rates.

        Carried out update by update on the unit vectors. Raises ValueError for a bad interval.
        """
        self.check_interval(refresh_interval)
        interval, n = int(refresh_interval), self.size
        kept = {"refresh": 0, "pipeline": 1, "lag": interval}[self.model]
        one, behaviour_force = self.step(learning_rate)
        proximal_force = replace(self, stale=self.proximal).step(learning_rate)[1]
        start = np.broadcast_to(np.eye((2 + kept) * n), (*one.shape[:-2], (2 + kept) * n, (2 + kept) * n))
        state = start[..., : 2 * n, :]
        stride = interval if self.model == "pipeline" else 1
        path = {-stride * (i + 1): start[..., (2 + i) * n : (3 + i) * n, :] for i in range(kept)}
        steps = self.steps_per_map(interval)
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(steps):
                path[t] = state[..., :n, :]
                block = t - t % max(interval, 1)
                acts = {"refresh": block, "lag": t - interval, "pipeline": block - interval}[self.model]
                snapshot = path[t - t % self.proximal_interval]
                state = one @ state + behaviour_force @ path[acts] + proximal_force @ snapshot
        return np.concatenate([state, *(path[steps - stride * (i + 1)] for i in range(kept))], axis=-2)


def proximal_shares(
    signal: Signal, policy: np.ndarray, kl_weight: float, weighted: bool = True, alpha: float | None = None
) -> tuple[Split, np.ndarray]:
    """(`Split` into current and behaviour share, proximal share [K, K]) at the fixed point `policy` [K], exact KL.

    weighted: whether w = q/b is a factor. alpha: of an interpolated proximal policy, which has no share of its own;
    None is a snapshot. Raises ValueError for alpha outside [0, 1].
    """
    split = stiffness_split(signal, policy, kl_weight, "ratio")
    policy = np.asarray(policy, float)
    share = signal.factor(policy) * reward_hessian(policy, signal.means) * (not weighted)
    if alpha is None:
        return Split(split.fresh, split.stale - share), share
    _checks.require(0 <= alpha <= 1, "alpha", "a number in [0, 1]", alpha)
    return Split(split.fresh + alpha * share, split.stale - alpha * share), 0 * share


def next_block_threshold(current: float, behaviour: float, updates: int) -> float | None:
    """Learning rate at which a pair crosses without momentum, answers of the block before: closed, see the module.

    current, behaviour: their shares of one stiffness, reward per logit^2; updates: n of a block, one snapshot of the
    proximal policy at its start. None if the behaviour's share is not the larger one.
    """
    _checks.integer("updates", updates, 1)
    if behaviour <= current:
        return None
    return float((1 - (1 - current / behaviour) ** (1 / updates)) / current)

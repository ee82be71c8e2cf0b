"""The linear map of one refresh block for any mix of fresh and stale stiffness, K arms, any momentum convention.

Derived here. Near a fixed point the mean gradient is -(H_fresh x_now + H_stale x_rollout). With w = eta v one step
with the rollout deviation y held fixed is (x, w) -> T (x, w) + U y, with E = eta * gain,

    heavy_ball, ema   w' = mu w - E (H_fresh x + H_stale y),   x' = x + w'
    nesterov          the same w',                             x' = x - E (H_fresh x + H_stale y) + mu w'.

Each staleness model then is a linear map of a state that is a Markov chain:

    refresh   block map on (x, w):            y = x at the block's start; T^N + (sum_j T^j) U [1 0]
    pipeline  block map on (x, w, x_prev):    y = x at the start of the block before
    lag       step map on (x_t, w_t, x_{t-1}, ..., x_{t-N}): y = x_{t-N}
    random    step map on (x_t, w_t, z_{t-1}): y = z_t = (1-q) sum_k q^k x_{t-k}, q = N/(N+1), the age-averaged drift
    ages      step map on (x_t, w_t, x_{t-1}, ..., x_{t-SN}): y = sum_a q(a) x_{t-aN}, the drift averaged over ages.

Logits carry a direction that never matters (all ones): matrices are to be reduced by `reduce_matrix` first. Checked
against step-by-step simulation and, for H_fresh = 0, against `thresholds`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandit_lab import _checks
from bandit_lab.theory.conventions import CONVENTIONS, MODELS, gain

Matrix = np.ndarray


def ones_complement(arms: int) -> Matrix:
    """Orthonormal basis [K, K-1] of the logit directions orthogonal to (1, ..., 1) (Helmert columns).

    Raises ValueError below two arms.
    """
    _checks.integer("arms", arms, 2)
    basis = np.zeros((arms, arms - 1))
    for j in range(1, arms):
        basis[:j, j - 1], basis[j, j - 1] = 1.0, -j
        basis[:, j - 1] /= np.sqrt(j * (j + 1.0))
    return basis


def reduce_matrix(matrix: ArrayLike) -> Matrix:
    """Q^T M Q [K-1, K-1] for a logit-space matrix M [K, K], Q = `ones_complement(K)`.

    Raises ValueError unless the matrix is square, K >= 2.
    """
    full = np.asarray(matrix, float)
    _checks.require(full.ndim == 2 and full.shape[0] == full.shape[1] >= 2, "matrix", "shape [K, K]", full.shape)
    basis = ones_complement(full.shape[0])
    return basis.T @ full @ basis


@dataclass(frozen=True)
class LinearLoop:
    """Linearised training loop: stiffness split and update rule, everything but learning rate and interval.

    `fresh`, `stale` [n, n] (scalars mean n = 1) in reward per logit^2; `momentum` in [0, 1); `model` one of refresh,
    lag, pipeline, random, ages; `convention` one of heavy_ball, ema, nesterov; `shares` [S + 1] of the ages 0, 1, ...,
    of `ages`, in refresh intervals. Raises ValueError for anything else.
    """

    fresh: Any
    stale: Any
    momentum: float = 0.0
    model: str = "refresh"
    convention: str = "heavy_ball"
    shares: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        fresh, stale = np.atleast_2d(np.asarray(self.fresh, float)), np.atleast_2d(np.asarray(self.stale, float))
        square = fresh.ndim == 2 and fresh.shape[0] == fresh.shape[1]
        _checks.require(square and fresh.shape == stale.shape, "stale", f"shape {fresh.shape}, square", stale.shape)
        _checks.require(bool(np.isfinite(fresh).all()), "fresh", "finite numbers", self.fresh)
        _checks.require(bool(np.isfinite(stale).all()), "stale", "finite numbers", self.stale)
        _checks.choice("staleness", self.model, (*MODELS, "random", "ages"))
        _checks.choice("convention", self.convention, CONVENTIONS)
        _checks.require(0 <= self.momentum < 1, "momentum", "a number in [0, 1)", self.momentum)
        object.__setattr__(self, "fresh", fresh)
        object.__setattr__(self, "stale", stale)

    @property
    def size(self) -> int:
        """Number of position coordinates n."""
        return self.fresh.shape[0]

    @property
    def total(self) -> Matrix:
        """H_fresh + H_stale [n, n], the stiffness of the on-policy drift."""
        return self.fresh + self.stale

    def steps_per_map(self, refresh_interval: int) -> int:
        """Updates that one application of `map` stands for: N for block maps, 1 for lag, random and ages."""
        return int(refresh_interval) if self.model in ("refresh", "pipeline") else 1

    def check_interval(self, refresh_interval: float) -> None:
        """Raises ValueError unless N is an integer >= 1 (`lag`: >= 0; `random`: a real mean age >= 0)."""
        low = 1 if self.model in ("refresh", "pipeline", "ages") else 0
        whole = self.model == "random" or refresh_interval == int(refresh_interval)
        kind = "a number" if self.model == "random" else "an integer"
        _checks.require(whole and refresh_interval >= low, "refresh_interval", f"{kind} >= {low}", refresh_interval)

    def step(self, learning_rate: ArrayLike) -> tuple[Matrix, Matrix]:
        """T [..., 2n, 2n] and U [..., 2n, n] of one step with y held fixed, batched over `learning_rate` [...]."""
        eta = np.asarray(learning_rate, float)[..., None, None]
        n, mu, eye = self.size, self.momentum, np.eye(self.size)
        force = -eta * gain(mu, self.convention)
        look = 1 + mu if self.convention == "nesterov" else 1.0
        carry = mu * (mu if self.convention == "nesterov" else 1.0)
        shape = (*force.shape[:-2], n, n)
        top = np.concatenate([eye + look * force * self.fresh, np.broadcast_to(carry * eye, shape)], axis=-1)
        bottom = np.concatenate([force * self.fresh, np.broadcast_to(mu * eye, shape)], axis=-1)
        stale = np.concatenate([look * force * self.stale, force * self.stale], axis=-2)
        return np.concatenate([top, bottom], axis=-2), stale

    def noise_input(self, learning_rate: float) -> Matrix:
        """Response [2n, n] of (x, w) to one unit of gradient noise: eta * gain * (1 or 1 + mu, 1)."""
        force = learning_rate * gain(self.momentum, self.convention)
        look = 1 + self.momentum if self.convention == "nesterov" else 1.0
        return np.concatenate([look * force * np.eye(self.size), force * np.eye(self.size)])

    def frozen_block(self, learning_rate: ArrayLike, steps: int) -> tuple[Matrix, Matrix]:
        """T^N [..., 2n, 2n] and (1 + T + ... + T^{N-1}) U [..., 2n, n]: a block with the rollout held fixed."""
        one, force = self.step(learning_rate)
        n = self.size
        eye = np.broadcast_to(np.eye(n), (*one.shape[:-2], n, n))
        zero = np.zeros((*one.shape[:-2], n, 2 * n))
        augmented = np.concatenate(
            [np.concatenate([one, force], axis=-1), np.concatenate([zero, eye], axis=-1)], axis=-2
        )
        with np.errstate(over="ignore", invalid="ignore"):
            power = np.linalg.matrix_power(augmented, int(steps))
        return power[..., : 2 * n, : 2 * n], power[..., : 2 * n, 2 * n :]

    def map(self, learning_rate: ArrayLike, refresh_interval: float) -> Matrix:
        """Map of one block (`refresh`, `pipeline`) or one step (the others), batched over `learning_rate` [...].

        Shapes [..., 2n, 2n] (refresh; age 0), [..., 3n, 3n] (pipeline, random), [..., (N+2)n, (N+2)n] (largest age N).
        Overflow beyond threshold gives non-finite entries, not an error. Raises ValueError for a bad interval.
        """
        self.check_interval(refresh_interval)
        if self.model == "random":
            return self._random(learning_rate, float(refresh_interval))
        interval = int(refresh_interval)
        if self.model == "lag":
            return self._aged(learning_rate, np.eye(interval + 1)[interval])
        if self.model == "ages":
            return self._aged(learning_rate, np.kron(self.shares, np.eye(interval)[0])[: 1 - interval or None])
        free, forced = self.frozen_block(learning_rate, interval)
        return assemble_block(free, forced, self.model)

    def _aged(self, learning_rate: ArrayLike, shares: np.ndarray) -> Matrix:
        """Ages of 0, 1, ... steps, averaged."""
        one, force = self.step(learning_rate)
        if len(shares) == 1:
            return assemble_block(one, force, "refresh")
        n, oldest = self.size, len(shares) - 1
        full = np.zeros((*one.shape[:-2], (oldest + 2) * n, (oldest + 2) * n))
        full[..., : 2 * n, : 2 * n] = one
        full[..., : 2 * n, :n] += shares[0] * force
        for k in range(1, oldest + 1):
            full[..., : 2 * n, (k + 1) * n : (k + 2) * n] = shares[k] * force
        full[..., 2 * n : 3 * n, :n] = np.eye(n)
        for k in range(1, oldest):
            full[..., (k + 2) * n : (k + 3) * n, (k + 1) * n : (k + 2) * n] = np.eye(n)
        return full

    def _random(self, learning_rate: ArrayLike, mean: float) -> Matrix:
        one, force = self.step(learning_rate)
        n, q = self.size, mean / (1 + mean)
        full = np.zeros((*one.shape[:-2], 3 * n, 3 * n))
        full[..., : 2 * n, : 2 * n] = one
        full[..., : 2 * n, :n] += (1 - q) * force
        full[..., : 2 * n, 2 * n :] = q * force
        full[..., 2 * n :, :n] = (1 - q) * np.eye(n)
        full[..., 2 * n :, 2 * n :] = q * np.eye(n)
        return full


def assemble_block(free: Matrix, forced: Matrix, model: str) -> Matrix:
    """The block map from T^N and the forced response: `refresh` [..., 2n, 2n] or `pipeline` [..., 3n, 3n]."""
    n = forced.shape[-1]
    if model == "refresh":
        full = free.copy()
        full[..., :n] += forced
        return full
    full = np.zeros((*free.shape[:-2], 3 * n, 3 * n))
    full[..., : 2 * n, : 2 * n] = free
    full[..., : 2 * n, 2 * n :] = forced
    full[..., 2 * n :, :n] = np.eye(n)
    return full

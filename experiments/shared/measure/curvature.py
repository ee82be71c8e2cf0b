"""Local curvature of the expected reward, and the spread of rewards that bounds it (after arXiv 2601.23135).

In a log-linear policy pi(k|x) ~ exp(theta . phi(x, k)) with score c = u.phi - E[u.phi] along a direction u,

    d^2/dt^2 J(theta + t u) = Cov(r, c^2),   hence   |u^T H u| <= sd(r) sd(c^2),

r being the mean reward of the drawn arm. The left side is measured by differentiating the expected reward twice; the
right side uses no second derivative. For any other policy the two differ by E[(r - J) u^T (d^2 log pi) u].
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.bandits import Bandit
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.measure.displaced import stack_bandits
from experiments.shared.measure.observe import observe, prompt_gradients


@dataclass(frozen=True)
class Curvature:
    """One direction at one policy, per context [X].

    second_derivative: u^T H u of the trained expected reward, by differentiation. covariance: Cov(r, c^2).
    reward_std: sd(r) over actions. square_std: sd(c^2). slope: u . grad J.
    """

    second_derivative: np.ndarray
    covariance: np.ndarray
    reward_std: np.ndarray
    square_std: np.ndarray
    slope: np.ndarray

    @property
    def bound(self) -> np.ndarray:
        """sd(r) sd(c^2) [X]: no curvature is larger."""
        return self.reward_std * self.square_std


@jax.jit
def _along(bandit: Bandit, theta: Array, direction: Array) -> tuple[Array, ...]:
    rewards = bandit.law.means

    def reward(t: Array) -> Array:
        return jnp.sum(jnp.exp(bandit.log_policy(theta + t * direction)) * rewards, axis=-1)

    zero = jnp.zeros((), theta.dtype)
    slope = jax.jacfwd(reward)
    log_policy, score = jax.jvp(bandit.log_policy, (theta,), (direction,))
    policy = jnp.exp(log_policy)
    mean = partial(jnp.sum, axis=-1)
    deviation = rewards - mean(policy * rewards)[..., None]
    square = score**2 - mean(policy * score**2)[..., None]
    return (
        jax.jacfwd(slope)(zero),
        mean(policy * deviation * square),
        jnp.sqrt(mean(policy * deviation**2)),
        jnp.sqrt(mean(policy * square**2)),
        slope(zero),
    )


def measure_curvature(bandit: Bandit, theta: np.ndarray, direction: np.ndarray) -> Curvature:
    """Curvature of the trained expected reward at parameters theta [D] along a direction [D] of any length."""
    return Curvature(*(np.asarray(part) for part in _along(bandit, jnp.asarray(theta), jnp.asarray(direction))))


def curvature_along_gradients(bandit: Bandit, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(success [X], second derivative [X] of each prompt's success along its own gradient, its bound [X]) at theta [D].

    Directions have unit length. Reported rewards have to be those trained on.
    """
    success, gradients = (np.asarray(part) for part in jax.jit(prompt_gradients)(bandit, theta))
    along = [measure_curvature(bandit, theta, each / np.linalg.norm(each)) for each in gradients]
    second, bound = ([getattr(one, name)[x] for x, one in enumerate(along)] for name in ("second_derivative", "bound"))
    return success, np.array(second), np.array(bound)


def curvature_during_training(
    bandit: Bandit, learning_rate: float, *, times: int, every: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`curvature_along_gradients` at steps 0, every, 2 every, ... of the mean update: three columns [times * X]."""
    learner = Learner(stack_bandits([bandit]))
    hyper = Hyper(np.array([learning_rate]), 0.0, 1, 0.0)
    thetas = observe(learner, "mean_field", hyper, lambda _, theta: theta, learner.bandit, times=times, every=every)
    parts = [curvature_along_gradients(bandit, theta) for theta in thetas[0, 0]]
    success, second, bound = (np.concatenate(column) for column in zip(*parts, strict=True))
    return success, second, bound

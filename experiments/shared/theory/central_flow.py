"""The central flow of noisy runs: mean and covariance of the parameters under the noise of groups, for any network.

Derived here. One update is x' = x + w', w' = mu w + eta (F(y) + noise): F(y) the mean update of groups drawn at the
policy y that acts, C(y) the covariance of the noise. Let m be the mean of a run and S its covariance. Were y normal,
E[(F - E[F]) (y - E[y])^T] = E[dF] S_yy, so that

    mean        w <- mu w + eta E[F(y)],       x <- x + w,
    covariance  S <- M S M^T + eta^2 E[C(y)],  M of the same update, its slope E[dF(y)],

closed by means over 2 r points, at sqrt(r) standard deviations along the axes of S_yy (a Gaussian closure by cubature,
Arasaratnam and Haykin 2009): E[F] = F + S_yy : d2F/2 + ..., bounded where S is large. Every staleness model is one
rule: where a block starts, x is written in front of the snapshots that are kept, and the oldest one acts. `refresh`
keeps 1, `pipeline` 2, `lag` N + 1 with blocks of one update. S is that of x, w and the snapshots together, in the r
stiffest directions of F: those that change the policy. Along the others policies stay equal, nothing restores, and
noise has no part there: S would diverge.

Where F is the gradient of a potential with Hessian -H, S : d2F/2 is -grad tr(H S)/2: the path drifts along equal
policies to places that are less stiff. Fresh gradients without momentum have, in one direction of stiffness l,
S = eta C/(l (2 - eta l)): small steps drift as under label noise (arXiv 2110.06914), and at the edge 2/l swings are
amplified as well. There the slope's mean counts, not the slope at the mean: swings change the slope that they feel.
Without noise, at the edge: arXiv 2410.24206. No number is fitted.

With binary rewards F = mean over prompts of h_G(J) grad J - beta grad KL (`group_law`). Given k successes the
successful answers are independent draws from pi_+ = pi q/J, the others from pi_- = pi (1 - q)/(1 - J). Advantages add
up to zero. With v = score^T (pi_+ - pi_-) and C+-, the covariance of one score under pi_+-, a group has

    E[g g^T] = (E_k[(k A+)^2] v v^T + E_k[k A+^2] C+ + E_k[(G - k) A-^2] C-)/G^2,    E[g] = E_k[k A+] v/G,

g without the KL term. Every group answers a prompt that is drawn evenly: C is the covariance over both.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import xlogy
from scipy.special import gammaln

from bandit_lab import _checks
from bandit_lab.theory.conventions import check_loop
from bandit_lab.theory.group_law import GroupLaw
from experiments.shared.theory.gradient_flow import Climb

RENEWED = 10
"""Blocks between two looks for the stiffest directions."""


class GroupUpdate(NamedTuple):
    """What climbs by groups of which size. log_ways: [G] and [G + 1] logarithms of G - 1 and of G over k.

    gaps: [G] D_k of `group_law`. up, down: [G + 1] advantages. groups: of one update.
    """

    climb: Climb
    log_ways: tuple[Array, Array]
    gaps: Array
    up: Array
    down: Array
    groups: Array


class NoisyPath(NamedTuple):
    """A closed path seen as means over stretches of updates, as the measurement sees them.

    mean: [T, D] parameters. spread: [T] root of the mean square of a run's distance from its mean, in parameters.
    """

    mean: np.ndarray
    spread: np.ndarray


def groups_of(climb: Climb, law: GroupLaw, prompts: int = 1) -> GroupUpdate:
    """The update by `prompts` groups, each of a prompt drawn evenly; all gradients at the policy that acts (`frozen`).

    Raises:
      ValueError: infinite groups, advantages that do not add up to zero, silent groups dropped, no group.
    """
    size = law.group_size
    _checks.require(size is not None, "group_size", "a finite group", "infinity")
    fits = law.centred and not law.rule.drops
    _checks.require(fits, "advantage", "one whose sum over a group is zero, no group dropped", law.advantage)
    last = int(size or 0)
    up, down = law.table()
    gaps, above, below = (jnp.asarray(one) for one in (up[1:] - down[:-1], up, down))
    number = jnp.asarray(float(_checks.integer("prompts", prompts, 1)))
    return GroupUpdate(climb, (_log_ways(last - 1), _log_ways(last)), gaps, above, below, number)


def _log_ways(trials: int) -> Array:
    """[n + 1] logarithms of n over k."""
    k = np.arange(trials + 1)
    return jnp.asarray(gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1))


def _chances(log_ways: Array, success: Array) -> Array:
    """P(k successes) [X, n + 1] at probabilities [X]."""
    k, p = jnp.arange(float(len(log_ways))), success[:, None]
    return jnp.exp(log_ways + xlogy(k, p) + xlogy(k[::-1], 1 - p))


def mean_update(groups: GroupUpdate, theta: Array) -> Array:
    """Expected ascent direction [D] of groups drawn, and differentiated, at parameters [D]."""
    climb = groups.climb
    log_policy, pull = jax.vjp(climb.log_policy, theta)
    policy = jnp.exp(log_policy)
    success = jnp.sum(policy * climb.success, axis=-1)
    factor = _chances(groups.log_ways[0], success) @ groups.gaps
    gap = factor[:, None] * (climb.success - success[:, None])
    ascent = policy * (gap - climb.kl_weight * (log_policy - climb.log_reference))
    return pull(ascent / len(policy))[0]


def update_covariance(groups: GroupUpdate, theta: Array, basis: Array) -> Array:
    """Covariance [r, r] of one update's ascent direction along the columns of `basis` [D, r], at parameters [D]."""
    climb = groups.climb
    log_policy, push = jax.linearize(climb.log_policy, theta)
    scores = jnp.moveaxis(jax.vmap(push)(basis.T), 0, -1)  # [X, K, r]
    policy = jnp.exp(log_policy)
    success = jnp.sum(policy * climb.success, axis=-1)
    chance, k = _chances(groups.log_ways[1], success) / len(policy), jnp.arange(float(len(groups.up)))
    pulls = k * groups.up  # minus those of the failures
    laws = policy * climb.success / success[:, None], policy * (1 - climb.success) / (1 - success)[:, None]
    means = [jnp.einsum("xk,xkr->xr", law, scores) for law in laws]
    apart = means[0] - means[1]
    drawn = (chance @ pulls) @ apart
    total = jnp.einsum("x,xr,xs->rs", chance @ pulls**2, apart, apart) - jnp.outer(drawn, drawn)
    for squares, law, mean in zip((k * groups.up**2, k[::-1] * groups.down**2), laws, means, strict=True):
        total += jnp.einsum("x,xk,xkr,xks->rs", chance @ squares, law, scores, scores)
        total -= jnp.einsum("x,xr,xs->rs", chance @ squares, mean, mean)
    return total / ((len(k) - 1) ** 2 * groups.groups)


def _stiffness(groups: GroupUpdate, theta: Array) -> tuple[Array, Array]:
    """Stiffnesses [D], ascending, and their directions [D, D]."""
    matrix = -jax.jacfwd(partial(mean_update, groups))(theta)
    values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
    return values, vectors


@jax.jit
def _largest(groups: GroupUpdate, places: Array) -> Array:
    return jax.lax.map(lambda theta: _stiffness(groups, theta)[0][-1], places)


def group_sharpness(groups: GroupUpdate, places: np.ndarray) -> np.ndarray:
    """Largest stiffness [T] of the mean update of finite groups at parameters [T, D], by a dense matrix."""
    return np.asarray(_largest(groups, jnp.asarray(places)))


def _averaged(groups: GroupUpdate, theta: Array, basis: Array, covariance: Array) -> tuple[Array, Array, Array]:
    """Means of F [D], of its slope and of C [r, r]: normal parameters about theta, covariance [r, r] along a basis.

    Over 2 r points at sqrt(r) standard deviations along the axes of S: exact for cubic functions.
    """
    values, vectors = jnp.linalg.eigh(covariance)
    far = (basis @ (vectors * jnp.sqrt(len(values) * jnp.maximum(values, 0)))).T  # [r, D]

    def at(x: Array) -> tuple[Array, Array, Array]:
        drift, tangent = jax.linearize(partial(mean_update, groups), x)
        return drift, basis.T @ jax.vmap(tangent)(basis.T).T, update_covariance(groups, x, basis)

    return jax.tree.map(partial(jnp.mean, axis=0), jax.vmap(at)(theta + jnp.concatenate([far, -far])))


@jax.jit
def _closed(
    groups: GroupUpdate,
    rate: Array,
    momentum: Array,
    stride: Array,
    past: Array,
    basis: Array,
    total: Array,
    every: Array,
) -> tuple[Array, Array]:
    """Means [T, D] and mean squared spreads [T] of stretches. past: [m, D] snapshots; total: zeros [T, D]."""
    start, length = past[0], len(past)
    shifted = np.array([0, 1, 0, *range(2, length + 1)])  # of (x, w, snapshots): x before the others
    count = basis.shape[1]

    def turned(theta: Array, basis: Array, spread: Array) -> tuple[Array, Array]:
        new = _stiffness(groups, theta)[1][:, -count:]
        turn = new.T @ basis
        return new, jnp.einsum("ai,piqj,bj->paqb", turn, spread, turn)

    def block(number: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        theta, velocity, past, basis, spread, total, square = carry
        basis, spread = jax.lax.cond(number % RENEWED == 0, turned, lambda _, *same: same, theta, basis, spread)
        past = jnp.concatenate([theta[None], past[:-1]])
        spread = spread[shifted][:, :, shifted]
        acts = past[-1]
        ascent, slope, noise = _averaged(groups, acts, basis, spread[-1, :, -1])

        def moved(rows: Array) -> Array:
            swing = momentum * rows[1] + rate * jnp.tensordot(slope, rows[-1], 1)
            return rows.at[1].set(swing).at[0].add(swing)

        def step(inside: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
            theta, velocity, spread, total, square = carry
            place = (number * stride + inside) // every
            total = total.at[place].add(theta / every)
            square = square.at[place].add((theta @ theta + jnp.trace(spread[0, :, 0])) / every)
            velocity = momentum * velocity + rate * ascent
            spread = jnp.transpose(moved(jnp.transpose(moved(spread), (2, 3, 0, 1))), (2, 3, 0, 1))
            return theta + velocity, velocity, spread.at[:2, :, :2].add(rate**2 * noise[None, :, None]), total, square

        theta, velocity, spread, total, square = jax.lax.fori_loop(
            0, stride, step, (theta, velocity, spread, total, square)
        )
        return theta, velocity, past, basis, spread, total, square

    nothing = jnp.zeros((length + 2, count, length + 2, count))
    carry = start, jnp.zeros_like(start), past, basis, nothing, total, jnp.zeros(len(total))
    *_, total, square = jax.lax.fori_loop(0, len(total) * every // stride, block, carry)
    return total, square - jnp.sum(total**2, axis=1)


def central_path(
    groups: GroupUpdate,
    model: str,
    refresh_interval: int,
    momentum: float,
    learning_rate: float,
    times: int,
    every: int,
    directions: int | None = None,
) -> NoisyPath:
    """`times` (T) means over `every` updates, whole blocks, of the closed path from a climb's start (heavy ball).

    Of a run: mean and spread of independent runs together, within a stretch and between them. Good where the noise is
    small: the reward surface is a cubic over the spread. Dense matrices: for some hundred parameters.

    Args:
      directions: r; default: those that can change the policy, prompts times (answers - 1), at most D.

    Raises:
      ValueError: an unknown staleness model, settings out of range, stretches that are not whole blocks.
    """
    check_loop(model, refresh_interval, momentum, "heavy_ball")
    _checks.require(learning_rate > 0, "learning_rate", "a number > 0", learning_rate)
    _checks.integer("times", times, 1)
    prompts, answers = groups.climb.success.shape
    start = jnp.asarray(groups.climb.start)
    most = min(prompts * (answers - 1), len(start))
    count = most if directions is None else min(_checks.integer("directions", directions, 1), len(start))
    memory = {"refresh": 1, "pipeline": 2, "lag": refresh_interval + 1}[model]
    stride = 1 if model == "lag" else refresh_interval
    _checks.require(every > 0 and every % stride == 0, "every", f"a positive multiple of {stride}, whole blocks", every)
    numbers = (jnp.asarray(float(one)) for one in (learning_rate, momentum))
    past, total = jnp.broadcast_to(start, (memory, len(start))), jnp.zeros((times, len(start)))
    basis = jnp.zeros((len(start), count))
    mean, square = _closed(groups, *numbers, jnp.asarray(stride), past, basis, total, jnp.asarray(every))
    return NoisyPath(np.asarray(mean), np.sqrt(np.maximum(np.asarray(square), 0)))

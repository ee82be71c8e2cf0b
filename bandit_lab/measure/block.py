"""One period of the full nonlinear mean update as a map of everything that is remembered, and its fixed point.

The state is the parameters, the optimiser's first moments and the staleness memory, flattened to one vector. A period
is a refresh block of N steps for block-synchronous staleness, one step (the memory turned back by one) for a lag.
Second moments and counters are frozen (`measure.frozen_moment`). Directions that do not change the policy are projected
out of every part of the state where the rest of the map does not see them.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bandit_lab._root import AT_ONCE
from bandit_lab._types import Array
from bandit_lab.grpo import Hyper, Learner, State, check_hyper, init
from bandit_lab.measure.fixed_point import FixedPoint, find_fixed_point
from bandit_lab.measure.frozen_moment import (
    FAR,
    FrozenMomentState,
    SecondMoment,
    Step,
    average_moment,
    freeze_second_moment,
    sampled_moment,
)
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.finite_group import GradientMoments, group_moments
from bandit_lab.simulation.rollout import rollout

_SMALL = 64  # numbers of a state, up to which fewer settings than AT_ONCE are filled up
AT_REST = 1e-11  # residual of a fixed point of the map, relative to 1 + the largest entry of the state
_NEWTON = 30
_NEAR = 3.0  # logits, within which the optimiser may move the fixed point of the drift
_VANISHED = 1e-6  # length of parameters over that at the fixed point of the drift, below which they have vanished
_MOVED = 1e-12  # logits, beyond which second moments are taken anew
_SMOOTH = 1e-3  # relative disagreement between the Jacobian and central differences that counts as a kink
_STEP = 1e-6  # logits, of those differences
NEVER_RESTS = (
    "the optimiser moves parameters along directions that do not change the policy (weight decay, say), and the "
    "stiffness depends on where along these they are: the mean update has no fixed point"
)


def _float_leaves(tree: Any) -> tuple[list[Any], Any, list[bool]]:
    leaves, structure = jax.tree.flatten(tree)
    return leaves, structure, [bool(jnp.issubdtype(x.dtype, jnp.floating)) for x in leaves]


def pack(state: State) -> tuple[Array, Any]:
    """(flat vector of everything that moves, function back to (theta, moving leaves, memory leaves))."""
    memory = [x for x, moves in zip(*_float_leaves(state.staleness)[::2], strict=True) if moves]
    return ravel_pytree((state.theta, state.optimizer.moving, memory))


def unpack(template: State, unravel: Any, x: Array, second_moment: tuple, fixed: tuple) -> State:
    """The state whose moving numbers are x [n]; the inverse of `pack`."""
    theta, moving, memory = unravel(x)
    leaves, structure, floating = _float_leaves(template.staleness)
    parts = iter(memory)
    staleness = jax.tree.unflatten(structure, [next(parts) if f else x for x, f in zip(leaves, floating, strict=True)])
    return State(jnp.int32(0), theta, FrozenMomentState(tuple(moving), second_moment, fixed), staleness)


def period_map(learner: Learner, dynamics: str, hyper: Hyper, x: Array, second_moment: tuple, fixed: tuple) -> Array:
    """One period of the mean update: [n] -> [n], the flat vector of `pack`."""
    gradient, key = DYNAMICS[dynamics](learner), jax.random.key(0)
    template = init(learner, hyper, learner.bandit.initial_parameters)
    _, unravel = pack(template)
    period = learner.staleness.period(hyper.refresh_interval)
    start = unpack(template, unravel, x, second_moment, fixed)
    end = rollout(learner, gradient, hyper, key, start, period).state
    return pack(end._replace(staleness=learner.staleness.rewind(end.staleness, period)))[0]


@partial(jax.jit, static_argnames="dynamics")
def _linearised(learner: Learner, dynamics: str, hypers: Hyper, x: Array, second_moment: tuple, fixed: tuple) -> Any:
    """`_linearise` as compiled, for exactly these settings."""

    def one(hyper: Hyper) -> tuple[Array, Array]:
        def block(x: Array) -> Array:
            return period_map(learner, dynamics, hyper, x, second_moment, fixed)

        return block(x) - x, jax.jacfwd(block)(x)

    return jax.vmap(one)(hypers)


def _linearise(
    learner: Learner, dynamics: str, hypers: Hyper, x: np.ndarray, second_moment: tuple, fixed: tuple
) -> tuple[np.ndarray, np.ndarray]:
    """(F(x) - x [H, n], dF/dx [H, n, n]) for settings [H].

    Fewer than `AT_ONCE` settings are filled up where that costs little: one compiled program then serves Newton's
    method, scans and roots.
    """
    count = len(hypers.learning_rate)
    filled = max(count, AT_ONCE) if len(x) <= _SMALL else count
    rows = np.minimum(np.arange(filled), count - 1)
    many = jax.tree.map(lambda v: np.asarray(v)[rows], hypers)
    residual, jacobian = _linearised(learner, dynamics, many, x, second_moment, fixed)
    return np.asarray(residual)[:count], np.asarray(jacobian)[:count]


@dataclass(frozen=True)
class LinearisedBlock:
    """The period map of a learner at one fixed point, for any learning rate and momentum.

    learner: with its second moment frozen. x: [n] fixed point of the map. second_moment, fixed: leaves that stand
    still. basis: [n, q] of the directions that matter. directions: R, how many of them in parameter space. moment:
    where second moments came from, or None. neutral_turns: as in `FixedPoint`.
    """

    learner: Learner
    dynamics: str
    hyper: Hyper
    x: np.ndarray
    second_moment: tuple[Array, ...]
    fixed: tuple[Any, ...]
    basis: np.ndarray
    directions: int
    moment: SecondMoment | None
    neutral_turns: bool = False

    @property
    def theta(self) -> np.ndarray:
        """Parameters [D] at the fixed point."""
        return self.x[: self.learner.bandit.initial_parameters.shape[0]]

    @property
    def period(self) -> int:
        """Steps of one application of the map."""
        return int(self.learner.staleness.period(self.hyper.refresh_interval))

    def jacobians(self, hypers: Hyper) -> tuple[np.ndarray, np.ndarray]:
        """(residual [H], Jacobian [H, q, q]) at the fixed point for settings [H] of one staleness memory."""
        residual, jacobian = self._at(self.x, hypers)
        size = np.max(np.abs(residual @ self.basis), axis=1)
        return size, self.basis.T @ jacobian @ self.basis

    def is_smooth(self) -> bool:
        """Whether the map has a derivative at its fixed point: Jacobian against central differences, two directions.

        Twelve where the optimiser mixes components: it may be linear in a part of the directions alone.
        """
        here = jax.tree.map(lambda v: v[None], self.hyper)
        jacobian = self._at(self.x, here)[1][0]
        generator = np.random.default_rng(0)
        rule: Any = self.learner.optimizer  # a FrozenMomentOptimizer
        for _ in range(2 if rule.inner.elementwise else 12):
            direction = self.basis @ generator.standard_normal(self.basis.shape[1])
            ahead, behind = (self._at(self.x + s * _STEP * direction, here)[0][0] for s in (1, -1))
            slope, predicted = (ahead - behind) / (2 * _STEP) + direction, jacobian @ direction
            if not np.linalg.norm(slope - predicted) <= _SMOOTH * np.linalg.norm(predicted):
                return False
        return True

    def _at(self, x: np.ndarray, hypers: Hyper) -> tuple[np.ndarray, np.ndarray]:
        return _linearise(self.learner, self.dynamics, hypers, x, self.second_moment, self.fixed)


def scalars(learner: Learner, hyper: Hyper) -> Hyper:
    """Hyper of float64 scalars, the refresh interval int32 if it is a whole number. Raises ValueError out of range."""
    check_hyper(learner.staleness, hyper)
    whole = learner.staleness.whole_interval
    interval = jnp.asarray(hyper.refresh_interval, jnp.int32 if whole else float)
    learning_rate, momentum, kl_weight = (
        jnp.asarray(float(v), float) for v in (hyper.learning_rate, hyper.momentum, hyper.kl_weight)
    )
    return Hyper(learning_rate, momentum, interval, kl_weight)


def stack(hyper: Hyper, **columns: np.ndarray) -> Hyper:
    """Hyper of arrays [H]: `hyper` of scalar arrays with some settings replaced by arrays [H]."""
    length = len(next(iter(columns.values())))
    one = hyper._asdict()
    many = {k: jnp.asarray(columns.get(k, np.full(length, v)), v.dtype) for k, v in one.items()}
    return Hyper(**many)


def _inner_step(learner: Learner, hyper: Hyper, theta: np.ndarray) -> Step:
    """One update of the frozen optimiser's inner state at fixed parameters [D]."""
    second_moment: Any = learner.optimizer  # a FrozenMomentOptimizer
    inner = second_moment.inner.build(hyper.learning_rate, hyper.momentum)

    def step(gradient: Array, state: FrozenMomentState) -> FrozenMomentState:
        _, new = inner.update(gradient, second_moment.join(state), jnp.asarray(theta))
        return second_moment.split(jax.tree.leaves(new))

    return step


def _start(learner: Learner, hyper: Hyper, theta: np.ndarray, fixed: tuple) -> FrozenMomentState:
    optimizer = learner.optimizer.build(hyper.learning_rate, hyper.momentum)
    return optimizer.init(jnp.asarray(theta))._replace(fixed=fixed)


@jax.jit
def moments_on_policy(learner: Learner, kl_weight: Array, theta: Array) -> GradientMoments:
    """`group_moments` with all policies at theta [D], compiled once for a learner's rules."""
    return group_moments(learner)(kl_weight, theta, theta)


def _moment(learner: Learner, dynamics: str, hyper: Hyper, theta: np.ndarray, fixed: tuple, seed: int) -> SecondMoment:
    """Stationary second moments at frozen parameters theta [D], from the noise of finite groups."""
    if dynamics == "mean_field":
        reason = "an infinite group has no gradient noise, so the second moment decays to zero and the step diverges"
        return SecondMoment(None, "exact", 0.0, reason)
    step, start, place = _inner_step(learner, hyper, theta), _start(learner, hyper, theta, fixed), jnp.asarray(theta)
    moments = moments_on_policy(learner, hyper.kl_weight, place)
    exact = average_moment(step, start, -moments.mean, moments.covariance)
    if exact is not None:
        return exact
    draw = DYNAMICS["sampled"](learner)
    return sampled_moment(
        step, start, lambda key: -draw(key, hyper.kl_weight, place, place).value, jax.random.key(seed)
    )


def stationary_moment(block: "LinearisedBlock", square: np.ndarray) -> SecondMoment:
    """Stationary second moments if the gradients of the block had mean zero and E[g g^T] = `square` [D, D]."""
    step = _inner_step(block.learner, block.hyper, block.theta)
    start = _start(block.learner, block.hyper, block.theta, block.fixed)
    found = average_moment(step, start, jnp.zeros(len(square)), jnp.asarray(square))
    assert found is not None
    return found


def _bases(learner: Learner, hyper: Hyper, point: FixedPoint) -> tuple[np.ndarray, np.ndarray]:
    """(basis [n, q], complement [n, n - q]) that split every leaf with a parameter axis by what changes the policy."""
    template = init(learner, hyper, learner.bandit.initial_parameters)
    _, unravel = pack(template)
    size = learner.bandit.initial_parameters.shape[0]
    tree = jax.eval_shape(unravel, pack(template)[0])
    full = np.linalg.svd(point.basis, full_matrices=True)[0]
    rank = point.basis.shape[1]
    inside: list[np.ndarray] = []
    outside: list[np.ndarray] = []
    offset = 0
    total = sum(int(np.prod(x.shape)) for x in jax.tree.leaves(tree))
    for leaf in jax.tree.leaves(tree):
        width = int(np.prod(leaf.shape))
        split = leaf.ndim >= 1 and leaf.shape[-1] == size
        rows = width // size if split else width
        good, bad = (point.basis, full[:, rank:]) if split else (np.eye(1), np.zeros((1, 0)))
        for part, into in ((good, inside), (bad, outside)):
            columns = np.zeros((total, rows * part.shape[1]))
            columns[offset : offset + width] = np.kron(np.eye(rows), part)
            into.append(columns)
        offset += width
    return np.concatenate(inside, axis=1), np.concatenate(outside, axis=1)


def _decoupled(jacobian: np.ndarray, basis: np.ndarray, rest: np.ndarray) -> bool:
    """Whether the spectrum is that of the two diagonal blocks: equal power sums of eigenvalues, orders 1 to 4."""
    inner, outer = basis.T @ jacobian @ basis, rest.T @ jacobian @ rest
    scale = max(float(np.linalg.norm(jacobian, 2)), 1.0)
    for power in range(1, 5):
        sums = [np.trace(np.linalg.matrix_power(m, power)) for m in (jacobian, inner, outer)]
        if abs(sums[0] - sums[1] - sums[2]) > 1e-10 * scale**power * len(jacobian):
            return False
    return True


def make_block(
    learner: Learner,
    dynamics: str,
    hyper: Hyper,
    *,
    count: int = FAR,
    seed: int = 0,
    point: FixedPoint | None = None,
    second_moment: tuple[Array, ...] | None = None,
) -> tuple[LinearisedBlock | None, str | None]:
    """(block, None), or (None, reason) where the mean update has no fixed point or no derivative there.

    Args:
      hyper: scalars; momentum and KL weight matter for the fixed point, the learning rate where an optimiser makes it.
      count: at which counters stand. seed: of sampled second moments. point: fixed point of the drift, if known.
      second_moment: what to freeze instead of the stationary ones at the fixed point.
    """
    dynamics = "finite_group" if dynamics == "sampled" else dynamics
    hyper = scalars(learner, hyper)
    try:
        learner.staleness.period(hyper.refresh_interval)
    except ValueError as error:
        return None, str(error)
    point = point or find_fixed_point(learner, dynamics, float(hyper.kl_weight))
    if point.theta is None:
        return None, point.reason
    horizon = learner.staleness.horizon_for(float(hyper.refresh_interval))
    frozen, fixed = freeze_second_moment(
        learner.optimizer, float(hyper.learning_rate), float(hyper.momentum), len(point.theta), count
    )
    learner = replace(learner, optimizer=frozen, horizon=horizon)
    basis, rest = _bases(learner, hyper, point)
    template = init(learner, hyper, jnp.asarray(point.theta))
    x, moment = np.asarray(pack(template)[0]), None
    needs_moment = second_moment is None and bool(template.optimizer.second_moment)
    second_moment = () if second_moment is None else second_moment
    place, best = np.full(len(point.theta), np.inf), np.inf
    for _ in range(_NEWTON):
        if needs_moment and np.max(np.abs(x[: len(point.theta)] - place)) > _MOVED:
            place = x[: len(point.theta)]
            moment = _moment(learner, dynamics, hyper, x[: len(point.theta)], fixed, seed)
            if moment.values is None:
                return None, moment.reason
            second_moment = moment.values
        residual, jacobian = (
            a[0] for a in _linearise(learner, dynamics, jax.tree.map(lambda v: v[None], hyper), x, second_moment, fixed)
        )
        if not np.all(np.isfinite(jacobian)):
            return None, "the mean update has no derivative at its fixed point"
        size = np.max(np.abs(basis.T @ residual))
        if size <= AT_REST * (1 + np.max(np.abs(x))):
            break
        step = np.linalg.lstsq(np.eye(len(x)) - jacobian, residual, rcond=1e-12)[0]
        # By steps: residuals of parameters are learning rates times those of what remembers gradients.
        size = float(np.linalg.norm(step))
        if not size <= 0.9 * best or np.linalg.norm(x[: len(point.theta)] - point.theta) > _NEAR:
            return None, "no fixed point of the mean update was found near that of the drift"
        best = size
        x = x + step
    else:
        return None, "no fixed point of the mean update was found near that of the drift"
    lengths = [np.linalg.norm(theta) for theta in (x[: len(point.theta)], point.theta)]
    if lengths[1] > _VANISHED and lengths[0] < _VANISHED * lengths[1]:
        # A step that is scaled by the parameters' length (LARS) is none where they vanish, whatever the drift is there.
        return None, "no fixed point of the mean update was found near that of the drift"
    if point.neutral_turns and np.max(np.abs(rest.T @ residual), initial=0) > AT_REST * (1 + np.max(np.abs(x))):
        return None, NEVER_RESTS
    if rest.shape[1] and not _decoupled(jacobian, basis, rest):
        basis = np.eye(len(x))
    block = LinearisedBlock(
        learner, dynamics, hyper, x, second_moment, fixed, basis, point.basis.shape[1], moment, point.neutral_turns
    )
    if not block.is_smooth():
        return None, "the mean update is not differentiable at its fixed point"
    return block, None

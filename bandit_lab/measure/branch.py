"""What the mean update does beyond its threshold: fixed point, cycles and invariant circles against the learning rate.

The period map of `measure.block` is followed, a deterministic map. At a flip its cycle of period two is continued by
pseudo-arclength (Keller 1977), so that a branch that turns back in the learning rate is followed too. Stability is told
by the multipliers of the cycle. At a Neimark-Sacker bifurcation the invariant circle is measured: the map is iterated
until two windows in a row have the same range.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from bandit_lab._types import Array
from bandit_lab.bandits import expected_reward
from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.measure.block import AT_REST, LinearisedBlock, make_block, pack, period_map, unpack
from bandit_lab.measure.floquet import FloquetThreshold, Kind, floquet_threshold, kind_of
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.programs import bounded_jit
from bandit_lab.simulation.rollout import Stride, rollout

SPAN = (0.5, 1.5)
"""Learning rates over the threshold between which branches are followed."""
POINTS = 41
"""Learning rates of the fixed point's branch."""
_FIRST = 0.02  # arclength of the first step onto a cycle: in the state's units, mostly logits
_LEAST, _LARGEST_STEP = 1e-5, 0.1
_TURN = 0.98  # least cosine between the tangents of neighbouring points
_STEPS, _MOST = 20, 400  # of Newton's method; points of one branch
_ON = 1e-10  # of arclength, to which a bifurcation is located
_CIRCLES = 1 + np.array([0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.4, 0.5])
_WINDOW, _WINDOWS = 4_000, 25  # periods of the map that are watched at once, and how often at most
_SAME = 1e-3  # relative difference of the ranges of two windows, below which a circle is reached
_CURVED = 0.25  # by which amplitude^2 over the distance may differ from point to point, of a circle born in a point


@dataclass(frozen=True)
class Branch:
    """Points [P] along one branch.

    learning_rate: [P]. reward, log_odds: [P, 2], least and largest over the updates of a cycle: of the expected reward,
    and of the log-odds of the first prompt's best arm, nats. swing: [P], half the distance of these log-odds between
    the starts of two periods of the map (a circle, a cycle within one period: half their range). multiplier: [P]
    complex, the largest, per cycle (NaN where none was computed). settled: [P], whether a measured range no longer
    changed.
    """

    learning_rate: np.ndarray
    reward: np.ndarray
    log_odds: np.ndarray
    swing: np.ndarray
    multiplier: np.ndarray
    settled: np.ndarray

    @property
    def radius(self) -> np.ndarray:
        """[P] modulus of the largest multiplier, per cycle."""
        return np.abs(self.multiplier)

    @property
    def stable(self) -> np.ndarray:
        """[P] whether it attracts; of what was measured by iteration always."""
        return ~(self.radius >= 1)


@dataclass(frozen=True)
class Bifurcation:
    """Where a branch changes its stability. of: `fixed_point` or `cycle`. reward: there, least and largest [2].

    kind: `flip`, `neimark_sacker`, `fold` (the branch turns back) or `branch_point` (a multiplier passes +1, and it
    does not turn).
    """

    kind: Kind | Literal["branch_point"]
    of: str
    learning_rate: float
    reward: np.ndarray


@dataclass(frozen=True)
class Branches:
    """Everything around the first threshold; `reason` where there is none or nothing can be followed.

    cycle: of period two, from a flip; `periods` of the map long, which is 1 where the flip is one from step to step and
    a period has an even number of steps. circle: measured, from a Neimark-Sacker bifurcation. slope: of swing^2 against
    the learning rate over its threshold at the threshold, nats^2; negative if the branch is born backwards. ended: why
    the cycle was followed no farther, if it does not reach the end of the span. period: steps of the map.
    """

    threshold: FloquetThreshold
    reason: str | None
    fixed_point: Branch | None = None
    cycle: Branch | None = None
    circle: Branch | None = None
    bifurcations: tuple[Bifurcation, ...] = ()
    slope: float | None = None
    ended: str | None = None
    period: int = 0
    periods: int = 2

    @property
    def criticality(self) -> str | None:
        """`supercritical`, `subcritical`, `transcritical` (the cycle lies on both sides), or None where not told."""
        if self.cycle is not None and self.slope is None and self.periods == 1:
            return "transcritical"
        return None if self.slope is None else "supercritical" if self.slope > 0 else "subcritical"


def branches(
    learner: Learner,
    dynamics: str,
    hyper: Hyper,
    *,
    span: tuple[float, float] = SPAN,
    points: int = POINTS,
) -> Branches:
    """Fixed point, cycle of period two or invariant circle around the first loss of stability in the learning rate.

    Args:
      dynamics: `mean_field` or `finite_group`. hyper: scalars; the learning rate does not matter. span: of learning
        rates, over the threshold. points: of the fixed point's branch. Needs float64.

    Raises:
      ValueError: what the dynamics raise for this learner, and settings out of range.
    """
    _, momentum, interval, weight = hyper
    threshold = floquet_threshold(learner, dynamics, momentum, interval, weight)
    rate = threshold.learning_rate
    if rate is None or rate == 0:
        return Branches(threshold, threshold.reason or "unstable at every learning rate")
    block, reason = make_block(learner, dynamics, hyper._replace(learning_rate=rate))
    if block is None:
        return Branches(threshold, reason)
    if block.second_moment:
        why = "second moments of the optimiser follow a cycle, and here they would stand still"
        return Branches(threshold, why)
    if block.neutral_turns:
        return Branches(threshold, "fixed points form a curve: directions that do not change the policy turn")
    map_ = _Map(block, rate)
    fixed = map_.fixed_points(np.unique([*np.linspace(*span, points), 1.0]))
    at_rest = map_.seen(np.zeros(map_.size), 0.0, 1)
    kind = threshold.kind
    assert kind is not None
    # A flip from step to step is +1 over an even number of steps.
    within = kind == "fold" and block.period % 2 == 0
    first = Bifurcation("flip" if within else kind, "fixed_point", rate, at_rest.reward[0])
    found = Branches(threshold, None, fixed, bifurcations=(first,), period=block.period, periods=1 if within else 2)
    if first.kind == "flip":
        along, more, ended = map_.cycle(span, found.periods, 1)
        slope, cycle = _slope(along.learning_rate / rate, along.swing), along
        if within:  # no symmetry makes the two ways equal
            back, further, ended_too = map_.cycle(span, 1, -1)
            cycle, more, ended = _joined_points([_reversed(back), along]), [*further, *more], ended or ended_too
            sides = {bool(one.learning_rate[1:2] > rate) for one in (along, back)}
            slope = slope if len(sides) == 1 else None
        return replace(found, cycle=cycle, bifurcations=(first, *more), slope=slope, ended=ended)
    if kind == "neimark_sacker":
        circle = map_.circles(_CIRCLES[span[1] >= _CIRCLES])
        return replace(found, circle=circle, slope=_circle_slope(circle, rate))
    return replace(found, ended="a multiplier passes +1: no cycle is born there")


def _slope(ratio: np.ndarray, swing: np.ndarray) -> float | None:
    """Slope of swing^2 at ratio 1, from the first points of a branch that begins there."""
    if len(ratio) < 4:
        return None
    near, square = (ratio - 1)[1:4], swing[1:4] ** 2
    # swing^2 = a (ratio - 1) + b (ratio - 1)^2 + ..., turned about where the branch is steep: ratio - 1 over swing^2
    return float(1 / np.polynomial.Polynomial.fit(square, near / square, 2)(0.0))


def _circle_slope(circle: Branch, rate: float) -> float | None:
    """The same of measured circles; None where they do not shrink to a point, or have not been reached."""
    away, square = circle.learning_rate[:2] / rate - 1, circle.swing[:2] ** 2
    if len(away) < 2 or not circle.settled[:2].all():
        return None
    first, second = square / away
    return float(2 * first - second) if abs(second - first) < _CURVED * first else None


@bounded_jit("dynamics", "times")
def _iterated(
    learner: Learner, dynamics: str, hyper: Hyper, fixed: tuple, x: Array, log_rate: Array, times: int
) -> tuple[Array, Array, Array]:
    """(F^times(x) [n], its derivatives by x [n, n] and by the log of the learning rate [n])."""

    def once(x: Array, log_rate: Array) -> Array:
        return period_map(learner, dynamics, hyper._replace(learning_rate=jnp.exp(log_rate)), x, (), fixed)

    value, by_x, by_rate = x, jnp.eye(len(x)), jnp.zeros(len(x))
    for _ in range(times):
        step, slope = jax.jacfwd(once, (0, 1))(value, log_rate)
        value, by_x, by_rate = once(value, log_rate), step @ by_x, step @ by_rate + slope
    return value, by_x, by_rate


def _readings(learner: Learner, arm: int, theta: Array) -> Array:
    """(expected reward, log-odds of an arm of the first prompt) [2] at theta [D]."""
    policy = learner.bandit.log_policy(theta)[0]
    return jnp.stack([expected_reward(learner.bandit, theta), policy[arm] - jnp.log1p(-jnp.exp(policy[arm]))])


@bounded_jit("dynamics", "arm", "steps")
def _watched(
    learner: Learner, dynamics: str, hyper: Hyper, fixed: tuple, x: Array, log_rate: Array, arm: int, steps: int
) -> Array:
    """Readings [P, steps, 2] of the updates that follow the states x [P, n] at rates [P]."""

    def one(x: Array, log_rate: Array) -> Array:
        here, state = _state(learner, hyper, fixed, x, log_rate)
        gradient, key = DYNAMICS[dynamics](learner), jax.random.key(0)

        def observe(stride: Stride) -> Array:
            return _readings(learner, arm, stride.before.theta)

        return rollout(learner, gradient, here, key, state, steps, observe=observe).seen

    return jax.vmap(one)(x, log_rate)


@bounded_jit("dynamics", "arm", "period", "periods")
def _ranges(
    learner: Learner,
    dynamics: str,
    hyper: Hyper,
    fixed: tuple,
    x: Array,
    log_rate: Array,
    arm: int,
    period: int,
    periods: int,
) -> tuple[Array, Array]:
    """(states after many periods [P, n], least and largest readings [P, 2, 2]) from states x [P, n]."""

    def one(x: Array, log_rate: Array) -> tuple[Array, Array]:
        here, state = _state(learner, hyper, fixed, x, log_rate)
        gradient, key = DYNAMICS[dynamics](learner), jax.random.key(0)

        def fold(total: Array, stride: Stride) -> Array:
            now = _readings(learner, arm, stride.after.theta)
            return jnp.stack([jnp.minimum(total[0], now), jnp.maximum(total[1], now)])

        total = jnp.array([[jnp.inf] * 2, [-jnp.inf] * 2])
        run = rollout(learner, gradient, here, key, state, period * periods, fold=fold, total=total)
        end = run.state._replace(staleness=learner.staleness.rewind(run.state.staleness, period * periods))
        return pack(end)[0], run.total

    return jax.vmap(one)(x, log_rate)


def _state(learner: Learner, hyper: Hyper, fixed: tuple, x: Array, log_rate: Array) -> tuple[Hyper, Any]:
    here = hyper._replace(learning_rate=jnp.exp(log_rate))
    template = init(learner, here, learner.bandit.initial_parameters)
    return here, unpack(template, pack(template)[1], x, (), fixed)


@dataclass(frozen=True)
class _Point:
    """A point of a cycle's branch: z [q + 1] = (coordinates, log of the rate over the threshold), tangent, cycle's
    Jacobian."""

    z: np.ndarray
    tangent: np.ndarray
    jacobian: np.ndarray

    @cached_property
    def multiplier(self) -> complex:
        values = np.linalg.eigvals(self.jacobian)
        return complex(values[np.argmax(np.abs(values))])


@dataclass(frozen=True)
class _Map:
    """The period map in coordinates y [q] of the directions that matter around the fixed point at the threshold."""

    block: LinearisedBlock
    rate: float

    @property
    def size(self) -> int:
        return self.block.basis.shape[1]

    @cached_property
    def arm(self) -> int:
        return int(np.argmax(np.asarray(self.block.learner.bandit.true_means)[0]))

    def states(self, y: np.ndarray) -> np.ndarray:
        """[P, n] from coordinates [P, q]."""
        return self.block.x + y @ self.block.basis.T

    def __call__(self, y: np.ndarray, log_ratio: float, times: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(image [q], derivative by y [q, q], by the log of the rate [q]) of some periods."""
        block, basis = self.block, self.block.basis
        inputs = jnp.asarray(self.states(y)), jnp.asarray(math.log(self.rate) + log_ratio)
        found = _iterated(block.learner, block.dynamics, block.hyper, block.fixed, *inputs, times)
        value, by_x, by_rate = (np.asarray(one) for one in found)
        return basis.T @ (value - block.x), basis.T @ by_x @ basis, basis.T @ by_rate

    def fixed_points(self, ratios: np.ndarray) -> Branch:
        """The fixed point's branch at learning rates over the threshold [P], ascending; from 1 both ways, as far as
        Newton's method finds it."""
        below, beyond = (self._fixed_points(side) for side in (ratios[ratios < 1][::-1], ratios[ratios >= 1]))
        return _joined_points([*below[::-1], *beyond])

    def _fixed_points(self, ratios: np.ndarray) -> list[Branch]:
        y, found = np.zeros(self.size), list[Branch]()
        for log_ratio in np.log(ratios):
            solved = _newton(partial(self._at_rest, log_ratio), y)
            if solved is None:
                break
            y = solved
            point = _Point(y, y, self(y, log_ratio, 1)[1])
            found.append(replace(self.seen(y, log_ratio, 1), multiplier=np.array([point.multiplier])))
        return found

    def _at_rest(self, log_ratio: float, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, by_y, _ = self(y, log_ratio, 1)
        return value - y, by_y - np.eye(self.size)

    def seen(self, y: np.ndarray, log_ratio: float, times: int) -> Branch:
        """What the cycle that starts at y [q] shows, as a branch of one point. No multipliers yet."""
        block, period = self.block, self.block.period
        rates = jnp.asarray([math.log(self.rate) + log_ratio])
        inputs = block.learner, block.dynamics, block.hyper, block.fixed, jnp.asarray(self.states(y[None])), rates
        seen = np.asarray(_watched(*inputs, self.arm, period * times))[0]
        low, high = seen.min(axis=0), seen.max(axis=0)
        swing = 0.5 * np.ptp(seen[:: period if times > 1 else 1, 1])
        reward, log_odds = ([[low[i], high[i]]] for i in (0, 1))
        rate = self.rate * math.exp(log_ratio)
        return _branch([rate], reward, log_odds, [swing], [np.nan], [True])

    # Cycles of period two.

    def _corrected(self, start: _Point, step: float, times: int) -> _Point | None:
        """The point of the branch at an arclength from another, or None."""

        def equation(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            value, by_y, by_rate = self(z[:-1], z[-1], times)
            rows = np.column_stack([by_y - np.eye(self.size), by_rate])
            return np.append(value - z[:-1], start.tangent @ (z - start.z) - step), np.vstack([rows, start.tangent])

        z = _newton(equation, start.z + step * start.tangent)
        if z is None:
            return None
        _, by_y, by_rate = self(z[:-1], z[-1], times)
        rows = np.column_stack([by_y - np.eye(self.size), by_rate])
        tangent = np.linalg.svd(rows)[2][-1]
        return _Point(z, tangent * np.sign(tangent @ start.tangent), by_y)

    def cycle(self, span: tuple[float, float], times: int, way: int) -> tuple[Branch, list[Bifurcation], str | None]:
        """(cycle of some periods of the map from the flip on, its own bifurcations, why it was followed no farther)."""
        _, by_y, _ = self(np.zeros(self.size), 0.0, 1)
        values, vectors = np.linalg.eig(by_y)
        along = way * vectors[:, np.argmin(np.abs(values - (1 if times == 1 else -1)))].real
        points = [
            _Point(
                np.zeros(self.size + 1),
                np.append(along / np.linalg.norm(along), 0.0),
                np.linalg.matrix_power(by_y, times),
            )
        ]
        step, more = _FIRST, list[Bifurcation]()
        ended: str | None = "the branch has more points than are followed"
        while len(points) < _MOST:
            new = self._corrected(points[-1], step, times)
            if new is None or (len(points) > 1 and new.tangent @ points[-1].tangent < _TURN):
                step /= 2
                if step < _LEAST:
                    ended = "Newton's method found no next point"
                    break
                continue
            more += self._passed(points[-1], new, step, times) if len(points) > 1 else []
            points.append(new)
            ratio = math.exp(new.z[-1])
            if not span[0] <= ratio <= span[1]:
                ended = None
                break
            step = min(1.3 * step, _LARGEST_STEP)
        seen = [replace(self._seen(one, times), multiplier=np.array([one.multiplier])) for one in points]
        return _joined_points(seen), more, ended

    def _seen(self, point: _Point, times: int) -> Branch:
        return self.seen(point.z[:-1], point.z[-1], times)

    def _passed(self, before: _Point, after: _Point, step: float, times: int) -> list[Bifurcation]:
        """The bifurcation between two neighbours, if the radius passes 1 there."""

        def excess(s: float) -> float:
            point = before if s == 0 else self._corrected(before, s, times)
            return math.nan if point is None else abs(point.multiplier) - 1

        if (abs(before.multiplier) < 1) == (abs(after.multiplier) < 1):
            return []
        place = self._corrected(before, float(brentq(excess, 0.0, step, xtol=_ON)), times)
        if place is None:
            return []
        reward = self._seen(place, times).reward[0]
        kind: Any = kind_of(place.multiplier)
        if kind == "fold" and before.tangent[-1] * after.tangent[-1] > 0:
            kind = "branch_point"
        return [Bifurcation(kind, "cycle", self.rate * math.exp(place.z[-1]), reward)]

    # Invariant circles.

    def circles(self, ratios: np.ndarray) -> Branch:
        """Ranges of long iterations at learning rates over the threshold [P], from beside the fixed point."""
        block = self.block
        _, by_y, _ = self(np.zeros(self.size), 0.0, 1)
        values, vectors = np.linalg.eig(by_y)
        along = vectors[:, np.argmax(np.abs(values))].real
        x = jnp.asarray(np.tile(self.states(0.1 * along[None] / np.linalg.norm(along)), (len(ratios), 1)))
        rates = jnp.log(self.rate * jnp.asarray(ratios))
        before, settled = np.full((len(ratios), 2, 2), np.nan), np.zeros(len(ratios), bool)
        both = before
        for _ in range(_WINDOWS):
            x, seen = _ranges(
                block.learner, block.dynamics, block.hyper, block.fixed, x, rates, self.arm, block.period, _WINDOW
            )
            now = np.asarray(seen)
            settled = np.all(np.abs(now - before) <= _SAME * np.ptp(now, axis=1, keepdims=True), axis=(1, 2))
            both = np.stack([np.fmin(before[:, 0], now[:, 0]), np.fmax(before[:, 1], now[:, 1])], axis=1)
            before = now
            if settled.all():
                break
        low, high = np.where(settled[:, None, None], both, before).swapaxes(0, 1)
        reward, log_odds = (np.stack([low[:, i], high[:, i]], axis=1) for i in (0, 1))
        nothing = np.full(len(ratios), np.nan)
        return _branch(self.rate * ratios, reward, log_odds, 0.5 * np.ptp(log_odds, axis=1), nothing, settled)


Equation = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def _newton(equation: Equation, start: np.ndarray) -> np.ndarray | None:
    """A root near `start`, or None. equation: point -> (value, Jacobian)."""
    z, last = start, math.inf
    for _ in range(_STEPS):
        value, jacobian = equation(z)
        if not (np.all(np.isfinite(value)) and np.all(np.isfinite(jacobian))):
            return None
        size = float(np.max(np.abs(value)))
        if size <= AT_REST * (1 + np.max(np.abs(z))):
            return z
        if size > 10 * last:
            return None
        last = size
        z = z - np.linalg.lstsq(jacobian, value, rcond=None)[0]
    return None


def _branch(rate: Any, reward: Any, log_odds: Any, swing: Any, multiplier: Any, settled: Any) -> Branch:
    rates, rewards, odds, swings = (np.asarray(one, float) for one in (rate, reward, log_odds, swing))
    return Branch(rates, rewards, odds, swings, np.asarray(multiplier, complex), np.asarray(settled, bool))


def _reversed(branch: Branch) -> Branch:
    """The same from its end to the point after its first."""
    return Branch(*(getattr(branch, field.name)[:0:-1] for field in fields(Branch)))


def _joined_points(points: list[Branch]) -> Branch:
    columns = ([getattr(point, field.name) for point in points] for field in fields(Branch))
    return Branch(*map(np.concatenate, columns))

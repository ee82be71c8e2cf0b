"""What is kept of the expected reward J while lanes run: moments over lanes at every step, and a tail of every lane."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from bandit_lab._types import Array
from bandit_lab.simulation.fast.program import Job

_LONGEST_SUM = 16  # terms: a longer reduction is not unrolled


class Track(NamedTuple):
    """Per time t: the shift c [T + 1, groups], partial sums [T + 1, groups, .] of J - c and (J - c)^2 over counted
    lanes. c is the J of a group's first lane: variances down to 1e-14 survive float32. Without groups: J [T + 1, L]
    in `shift`, and nothing in the sums."""

    shift: Array
    first: Array
    second: Array


class Tail(NamedTuple):
    """Of every lane, over the second half of the run: mean and squared deviation of J, summed silence; and the largest
    excursion beyond the fixed point's reward, on the side away from the start. Arrays [L]."""

    mean: Array
    square: Array
    silent: Array
    overshoot: Array
    side: Array
    fixed_point: Array


def start_track(job: Job, reward: Array) -> Track:
    """Nothing recorded yet."""
    times, groups, lanes = job.program.steps + 1, job.program.groups, job.program.lanes
    if groups == 0:
        nothing = jnp.zeros((), reward.dtype)
        return Track(jnp.zeros((times, lanes), reward.dtype), nothing, nothing)
    partial = max(16, lanes // groups // _LONGEST_SUM)  # added up after the run: as few registers as are written out
    sums = jnp.zeros((times, groups, partial), reward.dtype)
    return Track(jnp.zeros((times, groups), reward.dtype), sums, sums)


def track(job: Job, so_far: Track, time: Array | int, reward: Array) -> Track:
    """Record J [L] at one time."""
    if job.program.groups == 0:
        return so_far._replace(shift=lax.dynamic_update_index_in_dim(so_far.shift, reward, time, 0))
    by_group = reward.reshape(job.program.groups, -1, so_far.first.shape[-1])
    shift = by_group[:, :1, :1]
    counted = job.lanes.counted.reshape(by_group.shape)
    difference = jnp.where(counted, by_group - shift, 0)
    parts = shift[:, 0, 0], jnp.sum(difference, axis=1), jnp.sum(difference * difference, axis=1)
    return Track(*(lax.dynamic_update_index_in_dim(old, new, time, 0) for old, new in zip(so_far, parts, strict=True)))


def moments(counted: Array, track: Track) -> tuple[Array, Array, Array]:
    """(count [groups], mean [groups, T + 1], squared deviations [groups, T + 1]) of the counted lanes [groups, .]."""
    count = jnp.sum(counted, axis=1, dtype=track.shift.dtype)
    first, second = _add_up(track.first).T, _add_up(track.second).T
    share = (1 / jnp.maximum(count, 1))[:, None]
    return count, track.shift.T + first * share, jnp.maximum(second - first * first * share, 0)


def _add_up(partial: Array) -> Array:
    """Sum over the last axis by halves: pairwise, and in vector instructions."""
    while partial.shape[-1] > 1:
        half = partial.shape[-1] // 2
        partial = partial[..., :half] + partial[..., half:]
    return partial[..., 0]


def start_tail(reward: Array, fixed_point: Array) -> Tail:
    """Before step 0, at the initial reward [L]."""
    zero, side = jnp.zeros_like(reward), jnp.sign(fixed_point - reward)
    return Tail(zero, zero, zero, side * (reward - fixed_point), side, fixed_point)


def half_way(steps: int) -> int:
    """First time of the tail."""
    return (steps + 1) // 2


def watch(tail: Tail, steps: int, time: Array, reward: Array) -> Tail:
    """Take J [L] at one time > 0 into the tail (Welford)."""
    counts = (time >= half_way(steps)).astype(reward.dtype)
    weight = counts / jnp.maximum(time - half_way(steps) + 1, 1).astype(reward.dtype)
    change = reward - tail.mean
    mean = tail.mean + change * weight
    square = tail.square + counts * change * (reward - mean)
    overshoot = jnp.maximum(tail.overshoot, tail.side * (reward - tail.fixed_point))
    return tail._replace(mean=mean, square=square, overshoot=overshoot)


def watch_silence(tail: Tail, steps: int, step: Array, silent: Array) -> Tail:
    """Take the share of silent groups [L] of one step into the tail."""
    return tail._replace(silent=tail.silent + (step >= half_way(steps)).astype(silent.dtype) * silent)

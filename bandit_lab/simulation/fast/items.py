"""The compiled function: items of lanes on every device, each item's chunks one after the other."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from bandit_lab._numerics import materialize
from bandit_lab._types import Array
from bandit_lab.grpo import Learner
from bandit_lab.simulation.fast import two_arms
from bandit_lab.simulation.fast.advantages import scales
from bandit_lab.simulation.fast.layout import PART
from bandit_lab.simulation.fast.loop import run_lanes
from bandit_lab.simulation.fast.program import BanditTables, Job, Lanes, Program
from bandit_lab.simulation.fast.random_bits import lane_keys
from bandit_lab.simulation.fast.record import Tail, half_way, moments
from bandit_lab.simulation.one_kernel import as_one, compiler_options, one_kernel
from bandit_lab.simulation.programs import Kept, on_every
from bandit_lab.simulation.results import Summary


class Items(NamedTuple):
    """Inputs of I items of R rows: [I, R] each but theta [I, R, D] and interval [I]. See `layout`."""

    learning_rate: Any
    momentum: Any
    kl_weight: Any
    interval: Any
    name: Any
    theta: Any
    fixed_point: Any
    first: Any
    seeds: Any


class ItemResults(NamedTuple):
    """Per item. seeds [groups], mean, square [groups, T + 1]: moments; or, without groups, mean [T + 1, L] is J of
    every lane and the others are empty. ends: `Summary` [chunks, L], or None if unwatched. policies: [chunks, L, X K]
    at the end, or None."""

    seeds: Array
    mean: Array
    square: Array
    ends: Summary | None
    policies: Array | None


@Kept
def compiled(mesh: Mesh, program: Program, one: bool) -> Any:
    """The jitted function (learner, tables, seed, Items) -> ItemResults with a leading axis of items.

    `one`: whether it is compiled as one kernel; part of the key because the switch may be turned between calls.
    """

    def every_item(tables: BanditTables, learner: Learner, root: Array, items: Items) -> ItemResults:
        return lax.map(lambda item: _item(program, learner, tables, root, item), items)

    def on_device(*arguments: Any) -> ItemResults:
        return one_kernel(every_item, *arguments) if one else every_item(*arguments)

    def sharded(learner: Learner, tables: BanditTables, seed: Array, items: Items) -> ItemResults:
        root = jax.random.key_data(jax.random.key(seed))
        if program.two_arms and program.columns == 1 and scales(learner):
            tables = two_arms.with_tables(learner, tables)
        split = on_every(mesh, on_device, (False, False, False, True))
        return split(tables, learner, root, items)

    return jax.jit(sharded, compiler_options=compiler_options() if one else {})


def run_items(
    mesh: Mesh, program: Program, learner: Learner, tables: BanditTables, seed: int, items: Items
) -> ItemResults:
    """Run items; their number must be a multiple of the mesh's size. seed: of the root key, below 2^32."""
    arguments = learner, tables, np.uint32(seed), items
    return as_one(partial(compiled, mesh, program), (program, learner.optimizer), *arguments)


def _item(program: Program, learner: Learner, tables: BanditTables, root: Array, item: Items) -> ItemResults:
    lanes, per_row, rows = program.lanes, program.per_row, item.first.shape[0]
    side_by_side = lanes // per_row
    place = jnp.arange(lanes, dtype=jnp.int32)

    def spread(row_values: Array, number: Array) -> Array:
        if rows > side_by_side:
            row_values = lax.dynamic_slice_in_dim(row_values, number * side_by_side, side_by_side)
        rest = row_values.shape[1:]
        spread_out = jnp.broadcast_to(row_values[:, None], (side_by_side, per_row, *rest)).reshape(lanes, *rest)
        return spread_out if side_by_side == 1 else materialize(spread_out)

    def setting_of(row_values: Array, number: Array) -> Array:
        return row_values[0] if rows == side_by_side == 1 else spread(row_values, number)

    def chunk(number: Array) -> ItemResults:
        seed_in_row = place % per_row + (number * lanes if per_row == lanes else 0)
        counted = seed_in_row < spread(item.seeds, number)
        keys = None
        if program.dynamics == "sampled":
            replica = (spread(item.first, number) + seed_in_row).astype(jnp.uint32)
            keys = lane_keys(root, spread(item.name, number), replica)
        inputs = Lanes(
            steps=jnp.where(jnp.any(counted), program.steps, 0),
            learning_rate=setting_of(item.learning_rate, number),
            momentum=setting_of(item.momentum, number),
            kl_weight=setting_of(item.kl_weight, number),
            interval=item.interval,
            theta=spread(item.theta, number).T,
            keys=keys,
            counted=counted,
            fixed_point=spread(item.fixed_point, number) if program.watched else None,
        )
        job = Job(program, learner, tables, inputs)
        track, tail, policy = run_lanes(job)
        ends = None if tail is None else _ends(job, tail, policy)
        policies = _probabilities(job, policy).T if program.final else None
        if program.groups == 0:
            return ItemResults(jnp.zeros(()), track.shift, jnp.zeros(()), ends, policies)
        return ItemResults(*moments(counted.reshape(program.groups, -1), track), ends=ends, policies=policies)

    if program.groups != 1:
        single = chunk(jnp.int32(0))
        ends, policies = jax.tree.map(lambda x: x[None], (single.ends, single.policies))
        return single._replace(ends=ends, policies=policies)
    chunks = jnp.sum(item.seeds) if per_row == lanes else rows * per_row
    return _pooled(program, chunk, (chunks + (lanes - 1)) // lanes)


def _pooled(program: Program, chunk: Any, chunks: Array | int) -> ItemResults:
    """All chunks of an item, their moments pooled in order (Chan). The chunk is traced once."""
    most = max(PART // program.lanes, 1)
    traced, shapes = jax.make_jaxpr(chunk, return_shape=True)(jnp.zeros((), jnp.result_type(chunks)))
    tree = jax.tree.structure(shapes)
    none = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes._replace(ends=None, policies=None))
    ends, policies = jax.tree.map(lambda s: jnp.zeros((most, *s.shape), s.dtype), (shapes.ends, shapes.policies))

    def one(number: Array, pooled: ItemResults) -> ItemResults:
        more = jax.tree.unflatten(tree, jax.core.eval_jaxpr(traced.jaxpr, traced.consts, number))
        total = pooled.seeds + more.seeds
        share = 1 / jnp.maximum(total, 1)
        change = more.mean - pooled.mean
        between = change * change * (pooled.seeds * more.seeds * share)[:, None]
        return ItemResults(
            total,
            pooled.mean + change * (more.seeds * share)[:, None],
            pooled.square + (more.square + between),
            *jax.tree.map(
                lambda x, y: lax.dynamic_update_index_in_dim(x, y, number, 0),
                (pooled.ends, pooled.policies),
                (more.ends, more.policies),
            ),
        )

    return lax.fori_loop(0, chunks, one, none._replace(ends=ends, policies=policies))


def _probabilities(job: Job, policy: Any) -> Array:
    """[K, L] of every arm ([X K, L] with contexts); NaN where logits are not finite."""
    return jnp.where(jnp.all(jnp.isfinite(policy.logits), axis=0), policy.probabilities, jnp.nan)


def _ends(job: Job, tail: Tail, policy: Any) -> Summary:
    steps = job.program.steps
    times = steps - half_way(steps)
    return Summary(
        tail.mean,
        jnp.sqrt(tail.square / (times + 1)),
        tail.overshoot,
        policy.largest_probability,
        tail.silent / max(times, 1),
        jnp.all(jnp.isfinite(policy.logits), axis=0),
    )

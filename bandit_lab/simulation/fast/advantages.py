"""Advantages of the cells (arm, reward): of a group from its counts, of an infinite group from the law of its rewards.

A `Scaled` rule is (reward - mean) times a number per group. Any other is asked for the advantage of every reward value,
from its share of the group: the cells are added up by value, and the answer is handed back to them.
Columns are those of `Program`: one per reward value, or a single one where the reward is a function of the arm.
"""

from typing import cast

import jax.numpy as jnp

from bandit_lab._numerics import add_up, leading_sum, leading_sum_of, materialize
from bandit_lab._types import Array
from bandit_lab.grpo import Learner, Scaled, advantages
from bandit_lab.simulation.fast.program import Job, Program


def scales(learner: Learner) -> bool:
    """Whether the rule is (reward - mean) times a number per group."""
    return isinstance(learner.advantage, Scaled)


def scale_of(learner: Learner, variance: Array, silent: Array, size: int | None) -> Array:
    """That number [L] for groups with these variances [L], all rewards equal or not [L]."""
    return cast(Scaled, learner.advantage).scale(variance, silent, size)


def of_group(job: Job, cells: list[Array]) -> tuple[list[Array], Array | None, Array]:
    """(advantage of every column over the factor, [K, L] or [L]; the factor [L], None if it is 1; silent [L]).

    cells: counts [K, L] of every column. A group is silent if and only if the squares of its values' counts add up to
    G^2.
    """
    size, values = job.learner.group_size, job.tables.values
    if not scales(job.learner):
        by_value = per_value(job.program, cells)
        advantage = advantages(job.learner.advantage, job.tables.distinct, by_value * (1 / size), size)
        return _per_column(job.program, materialize(advantage)), None, leading_sum(by_value * by_value) >= size * size
    if len(cells) == 1:
        mean = materialize(leading_sum_of(jnp.multiply, cells[0], values) * (1 / size))
        spread = [values - mean]
        if job.tables.scale_steps is not None:
            rarer = materialize(jnp.minimum(cells[0][0], cells[0][1]))
            return spread, _climbed(job.tables.scale_steps, rarer), rarer <= 0
        about = leading_sum_of(lambda n, r: n * (r - mean) * (r - mean), cells[0], values)
        if job.tables.squares is not None:
            variance = materialize((about + job.tables.squares) * (1 / size))
            silent = variance <= 0
            return spread, scale_of(job.learner, variance, silent, size), silent
        variance = about * (1 / size)
        squares = _squared_counts(job.program, cells[0])
    else:
        totals = [leading_sum(n) for n in cells]
        mean = materialize(add_up(*(n * r for n, r in zip(totals, values, strict=True))) * (1 / size))
        spread = [r - mean for r in values]
        variance = add_up(*(n * d * d for n, d in zip(totals, spread, strict=True))) * (1 / size)
        squares = add_up(*(n * n for n in totals))
    silent = squares >= size * size
    return spread, scale_of(job.learner, variance, silent, size), silent


def of_infinite_group(job: Job, slope: Array, offset: Array) -> list[Array]:
    """Advantage slope r - offset of every column, [K, L] or [L]. slope, offset: [L], see `affine`."""
    if job.program.columns == 1:
        return [job.tables.values * slope - offset]
    return [job.tables.values[c] * slope - offset for c in range(job.program.columns)]


def of_law(job: Job, law: Array) -> list[Array]:
    """Advantage of every column, [K, L] or [L], in an infinite group whose reward values have the law [U, L]."""
    advantage = advantages(job.learner.advantage, job.tables.distinct, law, None)
    return _per_column(job.program, materialize(advantage))


def per_value(program: Program, cells: list[Array]) -> Array:
    """Counts [U, L] of every reward value, from those of the cells."""
    if program.columns > 1:
        return materialize(jnp.stack([leading_sum(n) for n in cells]))
    if program.classes == tuple((arm,) for arm in range(len(program.classes))):
        return cells[0]
    return materialize(jnp.stack([add_up(*(cells[0][arm] for arm in arms)) for arms in program.classes]))


def _per_column(program: Program, by_value: Array) -> list[Array]:
    """Values [U, L] of every reward value, as columns of cells: [K, L] or [L] each."""
    if program.columns > 1:
        return [by_value[column] for column in range(program.columns)]
    if program.classes == tuple((arm,) for arm in range(len(program.classes))):
        return [by_value]
    value_of = {arm: value for value, arms in enumerate(program.classes) for arm in arms}
    return [materialize(jnp.stack([by_value[value_of[arm]] for arm in range(len(value_of))]))]


def _climbed(steps: Array, count: Array) -> Array:
    """Sum of the first `count` steps [L]. steps: [M]. count: [L], whole numbers up to M."""
    return materialize(add_up(*(jnp.where(count > j, steps[j], 0) for j in range(steps.shape[0]))))


def _squared_counts(program: Program, counts: Array) -> Array:
    """[L] sum over reward values of their squared counts. counts: [K, L] of arms with fixed rewards."""
    if len(program.classes) == counts.shape[0]:
        return leading_sum_of(jnp.square, counts)
    return add_up(*(materialize(add_up(*(counts[arm] for arm in arms))) ** 2 for arms in program.classes))

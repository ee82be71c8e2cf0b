"""What is asked of a path, what a run leaves behind, and how the parts that devices give back become arrays.

Means and variances over very many seeds have the same bits however the seeds were split. Floating-point sums depend on
their order, so the order is fixed: seeds are gathered in units of `UNIT`, each unit's moments are formed in the same
way everywhere, and units are pooled one after the other. Work may then be cut between units at will: into calls,
chunks, devices or hosts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bandit_lab import _checks
from bandit_lab.grpo import Learner
from bandit_lab.simulation.cells import Cells

UNIT = 4096
"""Seeds of a unit, a multiple of every block width. Part of what defines a result, bit for bit."""


class Moments(NamedTuple):
    """Moments of the expected reward in U units of seeds, float64.

    seeds: [U] how many. mean: [C, U, T + 1]. square: [C, U, T + 1] sum of squared deviations from that mean.
    """

    seeds: np.ndarray
    mean: np.ndarray
    square: np.ndarray


def merge(
    total: tuple[float, np.ndarray, np.ndarray], part: tuple[float, np.ndarray, np.ndarray]
) -> tuple[float, np.ndarray, np.ndarray]:
    """(count, mean, square) of two sets of seeds together (Chan, Golub and LeVeque 1983)."""
    old, mean, square = total
    more, part_mean, part_square = part
    count = old + more
    change = part_mean - mean
    return count, mean + change * (more / count), square + (part_square + change**2 * (old * more / count))


def pool(parts: Iterable[Moments]) -> tuple[np.ndarray, np.ndarray]:
    """(mean [C, T + 1], population variance [C, T + 1]) over all seeds: units in the order in which they come.

    Args:
      parts: moments of consecutive ranges of seeds, one at a time in memory.

    Raises:
      ValueError: no part.
    """
    total: tuple[float, np.ndarray, np.ndarray] | None = None
    for part in parts:
        for unit, count in enumerate(part.seeds):
            more = float(count), part.mean[:, unit], part.square[:, unit]
            total = more if total is None else merge(total, more)
    _checks.require(total is not None, "parts", "at least one range of seeds", _checks.NOTHING)
    count, mean, square = total  # type: ignore[misc]
    return mean, square if count == 1 else square / count  # of one seed many cells: a pass over them less


@dataclass(frozen=True)
class Request:
    """Runs of every cell with replicas first_seed .. first_seed + seeds - 1; the names are those of `engine.run`.

    watched: keep the summary of every run. whole: keep J of every run instead of moments. final: keep the policy at the
    end of every run. threads: calls in flight.
    """

    learner: Learner
    dynamics: str
    cells: Cells
    steps: int
    seeds: int
    dtype: Any
    first_seed: int = 0
    watched: bool = False
    whole: bool = False
    final: bool = False
    threads: int = 2


class Summary(NamedTuple):
    """What is kept of one run, all of the expected reward J unless said; arrays [C, S].

    tail_mean, tail_std: over the recorded times of the last half. overshoot: largest excursion beyond the reference
    value, on the side away from the start (<= 0: never reached). final_max_probability: of the most likely arm.
    tail_silent: mean share of silent groups in the last half. finite: every logit finite at the end.
    """

    tail_mean: Any
    tail_std: Any
    overshoot: Any
    final_max_probability: Any
    tail_silent: Any
    finite: Any


class Route(NamedTuple):
    """Which path runs. name: `fast` or `reference`; reason: why not the fast one, or None."""

    name: str
    reason: str | None


class Runs(NamedTuple):
    """Results of `run`. reward_mean, reward_variance: [C, T + 1] over seeds (population variance), steps 0..T.

    summary: of every single run, or None if it was not asked for. moments: means and variances for every unit of seeds,
    from which `moments.pool` makes those of several calls. route: which path ran. policies: [C, S, X, K] at the end of
    every run (NaN where its logits are not finite), or None if they were not asked for.
    """

    reward_mean: np.ndarray
    reward_variance: np.ndarray
    summary: Any
    moments: Moments
    route: Route
    policies: np.ndarray | None = None


class Shard(NamedTuple):
    """Results of replicas first .. first + seeds - 1 of one cell, as they come from a device.

    mean, square: [T + 1] mean of J and sum of squared deviations from it; or, where single runs are kept whole, rewards
    [seeds, T + 1] instead. ends: `Summary` with arrays [seeds], or None. policies: [seeds, X, K], or None.

    Several cells at once have one more axis in front; then all seeds of each are there. cell: which, or the slice.
    """

    cell: int | slice
    first: int
    seeds: int
    mean: np.ndarray | None
    square: np.ndarray | None
    rewards: np.ndarray | None
    ends: Summary | None
    policies: np.ndarray | None = None


def gather(parts: Iterable[Shard], cells: int, seeds: int, steps: int, watched: bool, route: Route) -> Runs:
    """Pool parts within their unit and then units, in their order, in float64."""
    shape, units = (cells, seeds), -(-seeds // UNIT)
    moments = Moments(np.zeros(units), np.zeros((cells, units, steps + 1)), np.zeros((cells, units, steps + 1)))
    columns = [np.empty(shape, bool if name == "finite" else float) for name in Summary._fields]
    summary = Summary(*columns) if watched else None
    sizes, policies = np.zeros((cells, len(moments.seeds))), None
    for part in parts:
        unit = part.first // UNIT
        target = moments.mean[part.cell, unit], moments.square[part.cell, unit]
        new = _moments(part)
        if isinstance(part.cell, slice) or sizes[part.cell, unit] == 0:
            count, mean, square = new
        else:
            count, mean, square = merge((float(sizes[part.cell, unit]), *target), new)
        sizes[part.cell, unit], target[0][:], target[1][:] = count, mean, square
        for whole, column in zip(summary or (), part.ends or (), strict=True):
            whole[part.cell, part.first : part.first + part.seeds] = column
        if part.policies is not None:
            policies = np.empty((*shape, *part.policies.shape[-2:])) if policies is None else policies
            policies[part.cell, part.first : part.first + part.seeds] = part.policies
    moments = moments._replace(seeds=sizes[0])
    return Runs(*pool([moments]), summary, moments, route, policies)


def _moments(part: Shard) -> tuple[float, np.ndarray, np.ndarray]:
    if part.rewards is None:
        assert part.mean is not None and part.square is not None  # noqa: PT018
        return float(part.seeds), part.mean, part.square
    rewards = part.rewards.astype(float)
    mean = rewards.mean(axis=0)
    return float(part.seeds), mean, np.sum((rewards - mean) ** 2, axis=0)

"""Many cells times many seeds: the one entry to both paths.

The reference path is the definition; the fast path (`simulation.fast`) is equal to it in distribution and runs where it
serves the setting. Random numbers are keyed by the cell's own settings and the index of the seed, never by a position
in the grid, and moments are pooled in a fixed order of seeds: a cell's numbers do not depend on what else is in the
grid, on chunks, threads or devices. The two paths draw different numbers.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bandit_lab import _checks
from bandit_lab.grpo import Hyper, Learner, check_hyper
from bandit_lab.simulation import fast, reference as reference_path
from bandit_lab.simulation.cells import as_cells, prepare
from bandit_lab.simulation.dynamics import DYNAMICS
from bandit_lab.simulation.reference import WIDTH, Width
from bandit_lab.simulation.results import UNIT, Request, Route, Runs, Shard, Summary, gather

__all__ = [
    "PATHS",
    "WIDTH",
    "Progress",
    "Route",
    "Runs",
    "Summary",
    "Width",
    "route",
    "run",
    "trajectories",
]

Progress = Callable[[int, int], None]
"""Called with (calls done, calls in all)."""

PATHS = ("auto", "fast", "reference")


def route(learner: Learner, dynamics: str, path: str = "auto") -> Route:
    """Which path serves a setting.

    Args:
      path: `auto` (the fast one where it serves), `fast` or `reference`.

    Raises:
      ValueError: unknown path; `fast` asked for where it does not serve, with the reason.
    """
    _checks.choice("path", path, PATHS)
    if path == "reference":
        return Route("reference", "asked for")
    reason = fast.unsupported_reason(learner, dynamics)
    _checks.require(path == "auto" or reason is None, "path", f"reference ({reason})", path)
    return Route("fast", None) if reason is None else Route("reference", reason)


def run(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    *,
    steps: int,
    seeds: int = 1,
    seed: int = 0,
    first_seed: int = 0,
    dtype: Any = np.float32,
    initial: np.ndarray | None = None,
    reference: np.ndarray | None = None,
    summary: bool = True,
    policies: bool = False,
    path: str = "auto",
    rng: str = fast.DEFAULT_GENERATOR,
    progress: Progress | None = None,
    threads: int = 2,
) -> Runs:
    """Run every cell with every seed and keep means over seeds and a summary of each run.

    Args:
      learner: what is trained. dynamics: `mean_field`, `finite_group` (both ignore `seeds` beyond 1) or `sampled`.
      cells: Hyper of four equally long 1-D arrays [C]; scalars stand for every cell.
      steps: T updates. seeds: S replicas. seed: root of all random numbers.
      first_seed: index of the first replica, a multiple of `moments.UNIT`: one long range of seeds may be run as
        several calls, and `moments.pool` over their moments gives the bits of a single call.
      dtype: float32 or float64 (needs x64 enabled).
      initial: [D] or [C, D] parameters at step 0; default the bandit's.
      reference: [C] expected reward of the fixed point, from which overshoot is measured; default NaN.
      summary: keep the summary of every run; without it memory does not grow with the number of seeds.
      policies: keep the policy at the end of every run.
      path: see `route`. rng: generator of the fast path (`fast.GENERATORS`); the reference path uses `jax.random`.
      progress: called after every call to a device. threads: calls in flight.

    Returns:
      `Runs`, as float64 numpy arrays.

    Raises:
      ValueError: steps or seeds < 1, first_seed within a unit, cells of unequal length or with settings out of range,
        unknown dynamics, path or rng, more steps than the generator has numbers for.
    """
    _checks.integer("seeds", seeds, 1)
    _checks.integer("first_seed", first_seed, 0)
    _checks.require(first_seed % UNIT == 0, "first_seed", f"a multiple of {UNIT} seeds", first_seed)
    cells = _checked(learner, dynamics, cells, steps, rng)
    ready = prepare(learner, cells, dtype, initial, reference)
    asked = Request(
        learner, dynamics, ready, steps, seeds, dtype, first_seed, watched=summary, final=policies, threads=threads
    )
    chosen, parts = _parts(asked, path, rng, seed, progress)
    return gather(parts, len(ready.name), seeds, steps, summary, chosen)


def trajectories(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    *,
    steps: int,
    seeds: int = 1,
    seed: int = 0,
    dtype: Any = np.float32,
    initial: np.ndarray | None = None,
    path: str = "auto",
    rng: str = fast.DEFAULT_GENERATOR,
) -> np.ndarray:
    """Expected reward [C, S, T + 1] of every single run: the same runs as in `run`, kept whole. For few cells."""
    _checks.integer("seeds", seeds, 1)
    cells = _checked(learner, dynamics, cells, steps, rng)
    ready = prepare(learner, cells, dtype, initial)
    rewards = np.empty((len(ready.name), seeds, steps + 1))
    asked = Request(learner, dynamics, ready, steps, seeds, dtype, whole=True)
    for part in _parts(asked, path, rng, seed, None)[1]:
        rewards[part.cell, part.first : part.first + part.seeds] = part.rewards
    return rewards


def _checked(learner: Learner, dynamics: str, cells: Hyper, steps: int, rng: str) -> Hyper:
    """The cells as columns. Raises ValueError for what can be wrong before anything is prepared."""
    _checks.choice("dynamics", dynamics, DYNAMICS)
    _checks.choice("rng", rng, fast.GENERATORS)
    _checks.integer("steps", steps, 1)
    cells = as_cells(cells)
    count = len(np.asarray(cells.learning_rate))
    for name, column in cells._asdict().items():
        _checks.require(np.shape(column) == (count,), name, f"an array of {count} cells", np.shape(column))
    check_hyper(learner.staleness, cells)
    return cells


def _parts(asked: Request, path: str, rng: str, seed: int, progress: Progress | None) -> tuple[Route, Iterator[Shard]]:
    """The route that serves, and the parts that come along it."""
    chosen = route(asked.learner, asked.dynamics, path)
    if chosen.name == "fast":
        return chosen, fast.run_cells(asked, rng, seed, progress)
    return chosen, reference_path.run_cells(asked, seed, progress)

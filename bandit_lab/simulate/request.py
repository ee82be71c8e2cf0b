"""What is asked of a path: the same for both, checked by `engine`."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.grpo import Learner
from bandit_lab.simulate.cells import Cells


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

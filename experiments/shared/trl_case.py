"""How an experiment has TRL train: what decides which part of the stiffness is stale."""

from typing import NamedTuple


class Case(NamedTuple):
    """kl: where the KL penalty stands, `loss` or `reward`; iterations, slices: num_iterations, steps_per_generation.

    warmup: updates of a linear warm-up.
    """

    kl: str = "loss"
    iterations: int = 1
    slices: int = 1
    epsilon: float = 1e6
    adam: bool = False
    warmup: int = 0

    @property
    def updates(self) -> int:
        """Per rollout batch."""
        return self.iterations * self.slices

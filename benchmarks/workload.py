"""The workload: sizes A to D, fixed or Bernoulli rewards, refresh interval 1 or 8."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bandit_lab.bandits import k_arm
from bandit_lab.grpo import GRPO, Hyper, Learner, Refresh

SIZES = {"A": (2, 8, 4096, 1000), "B": (8, 16, 4096, 1000), "C": (64, 64, 4096, 500), "D": (8, 0, 65536, 1000)}
"""name -> (arms K, group size G, seeds S, steps T); D is the mean field (G = infinity) on a grid of S cells."""
_SIDE = 256  # learning rates of D's grid


@dataclass(frozen=True)
class Case:
    """One program to time: S runs of T steps from logits and momentum 0; mean and variance of J over runs each step."""

    name: str
    arms: int
    group_size: int
    seeds: int
    steps: int
    bernoulli: bool = False
    interval: int = 1
    learning_rate: float = 0.02
    momentum: float = 0.9
    kl_weight: float = 0.05
    settings: int = 1  # learning rates among which the seeds are shared out

    @property
    def mean_field(self) -> bool:
        """Whether groups are infinite; seeds are then cells of a grid."""
        return self.group_size == 0

    @property
    def dynamics(self) -> str:
        """Name of the dynamics."""
        return "mean_field" if self.mean_field else "sampled"

    @property
    def label(self) -> str:
        """`B`, `B Bernoulli`, `B N=8`."""
        interval = f" N={self.interval}" if self.interval > 1 else ""
        return f"{self.name}{' Bernoulli' if self.bernoulli else ''}{interval}"

    @property
    def seed_steps(self) -> int:
        """Work: runs times steps."""
        return self.seeds * self.steps

    @property
    def seeds_per_cell(self) -> int:
        """Seeds of every cell of `cells`."""
        return 1 if self.mean_field else self.seeds // self.settings

    @property
    def rewards(self) -> np.ndarray:
        """Mean rewards [K] from 0.2 to 0.8, float32."""
        return np.linspace(0.2, 0.8, self.arms).astype(np.float32)

    @property
    def reference_logits(self) -> np.ndarray:
        """Logits of the reference policy [K]: uniform, but passed as data and never assumed."""
        return np.zeros(self.arms, np.float32)

    @property
    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """(learning rate [S], momentum [S]) of D's cells: 256 values 1e-3..1e-1 times S/256 values 0..0.95."""
        side = min(_SIDE, self.seeds)
        rate, momentum = np.geomspace(1e-3, 1e-1, side), np.linspace(0, 0.95, -(-self.seeds // side))
        mesh = np.meshgrid(rate, momentum)
        return mesh[0].ravel()[: self.seeds], mesh[1].ravel()[: self.seeds]

    def learner(self) -> Learner:
        """The learner. eps = 1e-6 as the workload has it."""
        kind = "bernoulli" if self.bernoulli else "fixed"
        bandit = k_arm(self.rewards.tolist(), self.reference_logits.tolist(), kind=kind)
        return Learner(
            bandit,
            advantage=GRPO(eps=1e-6),
            staleness=Refresh(),
            group_size=max(self.group_size, 2),
        )

    def cells(self) -> Hyper:
        """The settings: one, or several learning rates around it (D: [S])."""
        spread = self.learning_rate * np.geomspace(0.5, 2, self.settings) if self.settings > 1 else [self.learning_rate]
        rate, momentum = self.grid if self.mean_field else (np.array(spread), np.full(self.settings, self.momentum))
        full = np.ones(len(rate))
        return Hyper(rate, momentum, (self.interval * full).astype(int), self.kl_weight * full)


def cases(
    sizes: Sequence[str], bernoulli: Sequence[bool], intervals: Sequence[int], seeds: int | None, steps: int | None
) -> list[Case]:
    """Every combination that exists: D has neither sampled rewards nor old snapshots."""
    chosen = []
    for name in sizes:
        base = Case(name, *SIZES[name])
        base = replace(base, seeds=seeds or base.seeds, steps=steps or base.steps)
        for kind in bernoulli if not base.mean_field else (False,):
            chosen += [replace(base, bernoulli=kind, interval=n) for n in (intervals if not base.mean_field else (1,))]
    return chosen

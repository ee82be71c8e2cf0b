"""The settings of `bench`: what is timed, how often, on how much work."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.app.settings.schema import OUTPUT, PROBLEM, RUN, CompilingSettings, setting

SIZE_NAMES = ("A", "B", "C", "D")
REWARDS = ("fixed", "bernoulli")


@dataclass
class BenchSettings(CompilingSettings):
    """Settings of `bench`."""

    sizes: list[str] = setting(
        [*SIZE_NAMES],
        "",
        "A: 2 arms, groups of 8 | B: 8, 16 | C: 64, 64 | D: mean field of 8 arms on 65,536 settings",
        PROBLEM,
    )
    rewards: list[str] = setting([*REWARDS], "", "fixed | bernoulli; D has fixed ones", PROBLEM)
    intervals: list[int] = setting([1, 8], "steps", "refresh intervals; D has 1", PROBLEM)
    reps: int = setting(7, "", "repetitions, every implementation in turn in each", RUN)
    seeds: int | None = setting(None, "runs", "null: 4,096 (D: 65,536 settings)", RUN)
    steps: int | None = setting(None, "updates", "null: 1,000 (C: 500)", RUN)
    rng: str = setting("hash", "", "generator of the fast path: hash | threefry")
    threads: int | None = setting(None, "", "null: as many as there are cores that may be used")
    quick: bool = setting(False, "", "a look in seconds: fixed rewards, interval 1, short runs, 3 repetitions", RUN)
    pictures: bool = setting(True, "", "draw throughput.png", OUTPUT)
    seed: int = setting(0, "", "root of all random numbers", RUN)
    compilation_cache: Any = setting(
        None, "path", "keeps compiled programs for the next run (auto, a path or null); never used for first calls"
    )

"""Runs of every layout into a file, as a process of its own with its own devices: `runs_on_devices.py FILE [some]`."""

import sys

import jax
import numpy as np
from settings import cells, learner

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.measure import find_fixed_point, generic_direction, growth_rate
from bandit_lab.simulation import fast, run, trajectories

GRID = cells([0.05, 0.4, 0.1, 0.9, 0.2], [0.0, 0.9, 0.5, 0.0, 0.3], [1, 2, 5, 1, 2], [1.0, 0.5, 1.0, 2.0, 0.1])
ONE = cells(0.3, 0.9, 2)
MANY = cells(np.geomspace(0.01, 1, 300), 0.9, np.tile([1, 2, 4], 100))
NOISY, FIXED = learner(group_size=8), learner(bandit=two_arm((1.0, 0.0)), group_size=8)
FOUR = learner(bandit=k_arm((0.9, 0.5, 0.2, 0.7), kind="fixed"), staleness="lag", horizon=8, group_size=6)

CASES = {
    "two arms, long rows": (FIXED, "sampled", ONE, {"seeds": 9000}),
    "two noisy arms, long rows": (learner(bandit=two_arm(), group_size=8), "sampled", GRID, {"seeds": 1000}),
    "many arms, long rows": (NOISY, "sampled", GRID, {"seeds": 4100}),
    "many arms, short rows": (NOISY, "sampled", GRID, {"seeds": 70}),
    "many arms, single seeds": (FOUR, "sampled", MANY, {"seeds": 1}),
    "a lag, in float64": (FOUR, "sampled", GRID, {"seeds": 300, "dtype": np.float64}),
    "no summaries": (FIXED, "sampled", GRID, {"seeds": 2100, "summary": False, "first_seed": 4096}),
    "mean field": (NOISY, "mean_field", MANY, {}),
    "reference path, sampled": (NOISY, "sampled", GRID, {"seeds": 300, "path": "reference"}),
}
SOME = ("two arms, long rows", "many arms, single seeds", "mean field", "reference path, sampled")
"""One of each kind, for `make test`: most of the time is compilation, and every case compiles its own program."""


def parts_of(runs) -> list[np.ndarray]:
    return [runs.reward_mean, runs.reward_variance, *runs.moments, *(runs.summary or ())]


def growth_rates() -> np.ndarray:
    """Of more displaced runs than fit into one block."""
    trained = learner(bandit=two_arm())
    point, grid = find_fixed_point(trained, "mean_field", 1.0), cells(np.geomspace(0.02, 3, 600), 0.9, 2)
    theta = np.tile(point.theta, (600, 1))
    return growth_rate(trained, "mean_field", grid, theta, generic_direction(point.basis), periods=5)


def pooled_by_device(numbers: np.ndarray) -> np.ndarray:
    """The mistake that must not be made: a mean in float32 whose order follows from the devices."""
    shares = np.array_split(numbers.astype(np.float32), jax.local_device_count())
    total = np.float32(0)
    for share in shares:
        total += np.add.accumulate(share)[-1]
    return total


def main() -> None:
    file, some = sys.argv[1], sys.argv[2:] == ["some"]
    results = {"devices": np.array(jax.local_device_count())}
    for name in SOME if some else CASES:
        trained, dynamics, grid, options = CASES[name]
        runs = run(trained, dynamics, grid, **{"steps": 12, "seed": 3, "dtype": np.float32, **options})
        results |= {f"{name}, {i}": x for i, x in enumerate(parts_of(runs))}
        if name == "two arms, long rows":
            results["mistake"] = pooled_by_device(runs.summary.tail_mean[0])
    if not some:
        for path in ("fast", "reference"):
            results[f"single runs, {path}"] = trajectories(NOISY, "sampled", GRID, steps=12, seeds=90, path=path)
        results["whole ensemble"] = np.stack(fast.ensemble(NOISY, "sampled", MANY, steps=12, seeds=40)(5))
        results["growth"] = growth_rates()
    np.savez(file, **results)


if __name__ == "__main__":
    main()

"""1 and 2 devices of one process: the same bytes. The runs of one process: `test_devices.py FILE`."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.measure import find_fixed_point, generic_direction, growth_rate
from bandit_lab.simulation import run

TESTS = Path(__file__).resolve().parents[1]
GRID = cells([0.05, 0.4, 0.1, 0.9, 0.2], [0.0, 0.9, 0.5, 0.0, 0.3], [1, 2, 5, 1, 2], [1.0, 0.5, 1.0, 2.0, 0.1])
MANY = cells(np.geomspace(0.01, 1, 300), 0.9, np.tile([1, 2, 4], 100))
NOISY, FIXED = learner(group_size=8), learner(bandit=two_arm((1.0, 0.0)), group_size=8)
FOUR = learner(bandit=k_arm((0.9, 0.5, 0.2, 0.7), kind="fixed"), staleness="lag", horizon=8, group_size=6)
CASES = {
    "two arms, long rows": (FIXED, "sampled", cells(0.3, 0.9, 2), {"seeds": 9000}),
    "many arms, single seeds": (FOUR, "sampled", MANY, {"seeds": 1}),
    "mean field": (NOISY, "mean_field", MANY, {}),
    "reference path, sampled": (NOISY, "sampled", GRID, {"seeds": 300, "path": "reference"}),
}


def growth_rates() -> np.ndarray:
    """Of more displaced runs than fit into one block."""
    trained = learner(bandit=two_arm())
    point, grid = find_fixed_point(trained, "mean_field", 1.0), cells(np.geomspace(0.02, 3, 600), 0.9, 2)
    theta = np.tile(point.theta, (600, 1))
    return growth_rate(trained, "mean_field", grid, theta, generic_direction(point.basis), periods=5)


def pooled_by_device(numbers: np.ndarray) -> np.ndarray:
    """The mistake that must not be made: a mean in float32 whose order follows from the devices."""
    shares = np.array_split(numbers.astype(np.float32), jax.local_device_count())
    return sum((np.add.accumulate(share)[-1] for share in shares), start=np.float32(0))


def main(file: str) -> None:
    results = {"devices": np.array(jax.local_device_count()), "growth": growth_rates()}
    for name, (trained, dynamics, grid, options) in CASES.items():
        runs = run(trained, dynamics, grid, **{"steps": 12, "seed": 3, "dtype": np.float32, **options})
        parts = [runs.reward_mean, runs.reward_variance, *runs.moments, *(runs.summary or ())]
        results |= {f"{name}, {i}": part for i, part in enumerate(parts)}
        if name == "two arms, long rows":
            results["mistake"] = pooled_by_device(runs.summary.tail_mean[0])
    np.savez(file, **results)


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_number_of_devices(tmp_path):
    """One of each kind of run. Planted: a sum in the devices' order is seen."""
    hashes = []
    for count in (1, 2):
        file = tmp_path / f"{count}.npz"
        environment = os.environ | {
            "JAX_NUM_CPU_DEVICES": str(count),
            "JAX_ENABLE_X64": "true",
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
        }
        subprocess.run([sys.executable, __file__, file], check=True, env=environment)
        with np.load(file) as arrays:
            hashes.append(dict(arrays))
        assert hashes[-1].pop("devices") == count
    one, two = hashes
    assert one.pop("mistake").tobytes() != two.pop("mistake").tobytes()
    assert [name for name, array in one.items() if array.tobytes() != two[name].tobytes()] == []


if __name__ == "__main__":
    main(sys.argv[1])

"""1, 2 and 8 devices of one process: the same bytes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TESTS = Path(__file__).resolve().parents[1]


def with_devices(count: int, file: Path, *some: str) -> dict[str, np.ndarray]:
    """The arrays that a process with `count` devices writes: of `some` cases or of all."""
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": str(count),
        "JAX_ENABLE_X64": "true",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
    }
    command = [sys.executable, TESTS / "simulation" / "runs_on_devices.py", file, *some]
    subprocess.run(command, check=True, env=environment)
    with np.load(file) as arrays:
        return dict(arrays)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "some"), [((1, 2), ("some",)), pytest.param((1, 2, 8), (), marks=pytest.mark.nightly)]
)
def test_bytes_do_not_depend_on_the_number_of_devices(tmp_path, counts, some):
    """All layouts of the fast path, the reference path, displaced runs; in `make test` one of each kind of run, with 1
    and 2 devices. A sum in the devices' order is seen."""
    found = {count: with_devices(count, tmp_path / f"{count}.npz", *some) for count in counts}
    for count, arrays in found.items():
        assert arrays.pop("devices") == count
    mistakes = [arrays.pop("mistake").tobytes() for arrays in found.values()]
    few, *more = found.values()
    for arrays, mistake in zip(more, mistakes[1:], strict=True):
        assert mistake != mistakes[0]
        assert arrays.keys() == few.keys()
        assert [name for name, array in few.items() if array.tobytes() != arrays[name].tobytes()] == []

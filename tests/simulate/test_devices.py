"""1, 2 and 8 devices of one process: the same bytes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from settings import nightly_but

TESTS = Path(__file__).resolve().parents[1]


def with_devices(count: int, file: Path) -> dict[str, np.ndarray]:
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": str(count),
        "JAX_ENABLE_X64": "true",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
    }
    subprocess.run([sys.executable, TESTS / "simulate" / "runs_on_devices.py", file], check=True, env=environment)
    with np.load(file) as arrays:
        return dict(arrays)


@pytest.mark.slow
@pytest.mark.parametrize(("few", "many"), nightly_but([(1, 2)], [(1, 2), (1, 8)]))
def test_bytes_do_not_depend_on_the_number_of_devices(tmp_path, few, many):
    """All layouts of the fast path, the reference path, displaced runs. A sum in the devices' order is seen."""
    found = {count: with_devices(count, tmp_path / f"{count}.npz") for count in (few, many)}
    for count, arrays in found.items():
        assert arrays.pop("devices") == count
    assert len({arrays.pop("mistake").tobytes() for arrays in found.values()}) > 1
    assert found[many].keys() == found[few].keys()
    differing = [name for name, array in found[few].items() if array.tobytes() != found[many][name].tobytes()]
    assert differing == []

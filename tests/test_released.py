"""Tests that are about programs as XLA compiles them by default, in a process that does not compile quickly.

They carry the mark `as_released` and are skipped where the others run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from running import AS_RELEASED, QUICKLY

TESTS = Path(__file__).resolve().parent
MARK = "mark.as_" + "released"


@pytest.mark.slow
@pytest.mark.skipif(QUICKLY not in os.environ.get("XLA_FLAGS", ""), reason="they run beside the others")
def test_what_is_asserted_of_released_programs():
    files = [str(path) for path in sorted(TESTS.rglob("test_*.py")) if MARK in path.read_text(encoding="utf-8")]
    assert str(TESTS / "simulation/test_one_kernel.py") in files
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "as_released", *files]
    environment = os.environ | {AS_RELEASED: "1", "XLA_FLAGS": os.environ["XLA_FLAGS"].replace(QUICKLY, "")}
    done = subprocess.run(command, env=environment, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout

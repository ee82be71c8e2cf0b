"""What an editor shows: pyright reports each of twenty wrong calls, and no right one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CALLS = Path(__file__).parent / "typing" / "wrong_calls.py"


def test_pyright_reports_each_wrong_call_and_no_right_one():
    """Basedpyright is pyright in a wheel: nothing is fetched."""
    pytest.importorskip("basedpyright", reason="the optional package basedpyright is not installed")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", str(CALLS)]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    errors = [one for one in answer["generalDiagnostics"] if one["severity"] == "error"]
    wrong = [number for number, line in enumerate(CALLS.read_text().splitlines(), 1) if line.endswith("# wrong")]
    assert len(wrong) == 20
    assert sorted({one["range"]["start"]["line"] + 1 for one in errors}) == wrong

"""The tool of planted defects tells what is noticed, by which test, from what is not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CODE = {
    "bandit_lab/__init__.py": "",
    "bandit_lab/theory/__init__.py": "",
    "bandit_lab/theory/shapes.py": "def area(width, height):\n    return width * height\n",
    "bandit_lab/theory/signs.py": "def negative(x):\n    return -x\n\n\ndef untested(x):\n    return not x\n",
    "packages/grpo_clinic/grpo_clinic/__init__.py": "",
    "tests/test_room.py": """import pytest
from bandit_lab.theory.shapes import area
from bandit_lab.theory.signs import negative


def test_sign_of_nothing():
    assert negative(0) == 0


@pytest.mark.slow
def test_area():
    assert area(2, 3) == 6
""",
    "pyproject.toml": '[tool.pytest.ini_options]\nmarkers = ["slow", "nightly"]\npythonpath = ["."]\n',
}


@pytest.mark.nightly
def test_what_is_noticed_is_told_from_what_is_not(tmp_path):
    pytest.importorskip("coverage", reason="`make mutate` installs it")
    for name, text in CODE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy(Path(__file__).with_name("mutate.py"), tmp_path / "tests")
    command = [sys.executable, "tests/mutate.py", "--areas", "theory", "--tests", "tests/test_room.py"]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert {line for line in out.splitlines() if "->" in line} == {
        "| .ci/run | bandit_lab/theory/shapes.py:2 | `width * height -> (width / height)` | test_room.py::test_area |",
        "| .ci/run | bandit_lab/theory/shapes.py:2 | `width * height -> (width)` | test_room.py::test_area |",
        "| nobody | bandit_lab/theory/signs.py:2 | `-x -> (x)` |  |",
        "| no test executes it | bandit_lab/theory/signs.py:6 | `not x -> (x)` |  |",
    }
    assert out.endswith("4 defects: 0 noticed by make test, 2 by .ci/run; 1 that no test executes\n")
    assert {name: (tmp_path / name).read_text() for name in CODE} == CODE

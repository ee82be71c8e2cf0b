"""The mutation tester reports a planted survivor as survived and a planted kill as killed."""

import subprocess
import sys
from pathlib import Path

CODE = {
    "bandit_lab/__init__.py": "",
    "bandit_lab/room/__init__.py": "from bandit_lab.room.shapes import area\n",
    "bandit_lab/room/shapes.py": "def area(width, height):\n    return width * height\n",
    "bandit_lab/room/signs.py": "def negative(x):\n    return -x\n",
    "bandit_lab/room/options.py": "def part(x, n):\n    return sorted(x, reverse=True)[:n] if n else x\n",
    "bandit_lab/room/untested.py": "def inverse(x):\n    return not x\n",
    "tests/test_room.py": """from bandit_lab.room import area
from bandit_lab.room.options import part
from bandit_lab.room.signs import negative


def test_area_and_sign():
    assert area(2, 3) == 6
    assert negative(0) == 0
    assert part([1, 3, 2], 2) == [3, 2]
""",
    "pyproject.toml": '[tool.pytest.ini_options]\nmarkers = ["slow"]\n',
}
OPTIONS, PART = "bandit_lab/room/options.py:2", "sorted(x, reverse=True)[:n]"


def test_survivors_and_kills_are_told_apart(tmp_path):
    for name, text in CODE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    script = Path(__file__).with_name("mutate.py")
    command = [sys.executable, str(script), "--rooms", "room", "--sample", "0", "--root", str(tmp_path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    said = {line[19:]: line[:19].strip() for line in out.splitlines() if "->" in line}
    assert said == {
        f"{OPTIONS}: {PART} if n else x  ->  ({PART} if not n else x)": "killed",
        f"{OPTIONS}: {PART} if n else x  ->  ({PART})": "survived",
        f"{OPTIONS}: {PART} if n else x  ->  (x)": "killed",
        f"{OPTIONS}: {PART}  ->  (sorted(x, reverse=True)[n:2 * n])": "killed",
        f"{OPTIONS}: sorted(x, reverse=True)  ->  (sorted(x))": "killed",
        f"{OPTIONS}: True  ->  (False)": "killed",
        "bandit_lab/room/shapes.py:2: width * height  ->  (width / height)": "killed",
        "bandit_lab/room/shapes.py:2: width * height  ->  (width)": "killed",
        "bandit_lab/room/signs.py:2: -x  ->  (x)": "survived",
        "bandit_lab/room/untested.py:2: not x  ->  (x)": "survived (no test)",
    }
    assert "7 of 10 killed: 70% (39% to 91%)" in out
    assert {name: (tmp_path / name).read_text() for name in CODE} == CODE

"""Commands of README run one after the other."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
LINE = re.compile(r"^    (?:python -m bandit_lab|bandit-lab) ?(.*?)(?:\s+#.*)?$", re.MULTILINE)
COMMANDS = [words for line in LINE.findall(TEXT) if "..." not in line and (words := shlex.split(line))]


@pytest.mark.nightly
def test_the_commands_of_the_readme_run_one_after_the_other(tmp_path):
    """As they are written, in an empty folder with the page's own bandit; then its Python."""
    functions, one_logit = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "one_logit.py").write_text(one_logit, encoding="utf-8")
    run = [words for words in COMMANDS if words[0] != "reproduce" and not any("path/to/" in one for one in words)]
    assert len(run) >= 5
    (opened,) = re.findall(r"`(xarray\.open_zarr\([^`]*)`", TEXT)
    blocks = [["-c", functions], ["-c", f"import xarray\n{opened}.threshold_measured"]]
    for words in [*(["-m", "bandit_lab", *words, *["open=false"] * (words[0] == "explore")] for words in run), *blocks]:
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"

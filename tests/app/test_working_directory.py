"""Code that lies in the working directory is not run: the usual way to look at somebody's run is to go there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PLANTED = {
    "hydra_plugins/x.py": "",
    "tensorboard.py": "",
    "matplotlib.py": "",
    "wandb/__init__.py": "",
    "planted.py": "",
    "x-1.0.dist-info/entry_points.txt": "[bandit_lab.variants]\nx = planted\n[jax_plugins]\nx = planted\n",
    "x-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n",
}
BESIDE = Path(sys.executable).parent
SWEEP = ("sweep", "sweep.refresh_interval=[1]", "sweep.learning_rate=[0.1]", "seeds=8", "steps=10")
COMMANDS = [
    [sys.executable, "-m", "bandit_lab", "predict"],
    [BESIDE / "bandit-lab", "predict"],
    pytest.param([sys.executable, "-m", "bandit_lab", *SWEEP], marks=pytest.mark.nightly),
    [sys.executable, "-m", "grpo_clinic", "diagnose", "log.jsonl"],
    [BESIDE / "grpo-clinic", "diagnose", "log.jsonl"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=["predict", "script", "sweep", "clinic", "script of the clinic"])
def test_nothing_of_the_working_directory_is_run(command, tmp_path):
    if not Path(command[0]).exists():
        pytest.skip("the script is not installed beside this Python")
    for name, text in PLANTED.items():
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        seen = f"open({str(tmp_path / 'seen')!r}, 'a').write({name!r} + chr(10))\n"
        place.write_text(text or seen)
    rows = [{"step": n, "reward": 0.1 + 0.01 * n} for n in range(40)]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2), done.stderr[-2000:]
    assert not (tmp_path / "seen").exists(), (tmp_path / "seen").read_text()

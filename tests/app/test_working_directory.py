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
RUN = {
    "predict": ["predict"],
    "sweep": ["sweep", "sweep.refresh_interval=[1]", "sweep.learning_rate=[0.1]", "seeds=8", "steps=10"],
    "reproduce": ["reproduce", "phase_diagrm"],
    "explore": ["explore", "open=false"],
    "help": ["--help"],
}
CLINIC = {
    "diagnose": ["diagnose", "log.jsonl"],
    "fit": ["fit", "log.jsonl", "--models", "constant"],
    "watch": ["watch", "log.jsonl", "--seconds", "0.1", "--every", "0.1"],
}
BESIDE = Path(sys.executable).parent
WAYS = {"module": [sys.executable, "-m", "bandit_lab"], "script": [str(BESIDE / "bandit-lab")]}
CLINIC_WAYS = {"module": [sys.executable, "-m", "grpo_clinic"], "script": [str(BESIDE / "grpo-clinic")]}
SHORT = ("predict", "diagnose")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=() if name in SHORT else pytest.mark.nightly) for name in RUN | CLINIC]
)
def test_nothing_of_the_working_directory_is_run(command, way, tmp_path):
    begin, rest = (WAYS[way], RUN[command]) if command in RUN else (CLINIC_WAYS[way], CLINIC[command])
    if not Path(begin[0]).exists():
        pytest.skip("the script is not installed beside this Python")
    for name, text in PLANTED.items():
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        seen = f"open({str(tmp_path / 'seen')!r}, 'a').write({name!r} + chr(10))\n"
        place.write_text(text or seen)
    rows = [{"step": n, "reward": 0.1 + 0.01 * n} for n in range(40)]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = subprocess.run([*begin, *rest], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2), done.stderr[-2000:]
    assert not (tmp_path / "seen").exists(), (tmp_path / "seen").read_text()


def test_modules_that_are_named_are_found_there_and_nothing_else_afterwards(tmp_path, monkeypatch):
    from bandit_lab.app import plugins

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [place for place in sys.path if place])
    named = """
from bandit_lab.bandits import register_bandit, two_arm

@register_bandit("of_this_folder")
def of_this_folder():
    return two_arm()
"""
    (tmp_path / "named_module.py").write_text(named)
    before = list(sys.path)
    plugins.load(["named_module"])
    assert sys.path == before

"""Compiled programs kept on disk: never another number, never an error, whatever state the folder is in."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from bandit_lab.app import compilation_cache
from bandit_lab.app.folder import manifest

ROOT = Path(__file__).resolve().parents[2]
PREDICT = (sys.executable, "-m", "bandit_lab", "predict", "bandit=proxy", "dynamics=mean_field")
"""A setting without closed form: root finding and automatic differentiation compile."""


def start(name: str, folder: Path, *overrides: str) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": str(folder / "auto")}
    environment.pop("JAX_ENABLE_COMPILATION_CACHE", None)
    command = [*PREDICT, f"run_dir={folder / name}", *overrides]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def summary(name: str, folder: Path, process: subprocess.Popen) -> bytes:
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    return (folder / name / "summary.json").read_bytes()


def test_same_bytes_cold_shared_warm_and_damaged(tmp_path):
    """Two processes fill one folder, a third reads it, a fourth finds every entry cut in half; all as without."""
    plain = summary("plain", tmp_path, start("plain", tmp_path, "compilation_cache=null"))
    assert not (tmp_path / "auto").exists()
    together = [start(name, tmp_path) for name in ("one", "two")]
    assert [summary(name, tmp_path, process) for name, process in zip(("one", "two"), together, strict=True)] == [
        plain,
        plain,
    ]
    entries = list((tmp_path / "auto" / "bandit_lab").rglob("*-cache"))
    written = {path: path.stat().st_mtime_ns for path in entries}
    assert len(entries) >= 2
    assert summary("warm", tmp_path, start("warm", tmp_path)) == plain
    assert {path: path.stat().st_mtime_ns for path in entries} == written
    for path in entries:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert summary("damaged", tmp_path, start("damaged", tmp_path)) == plain


FAST = """
import hashlib, sys
from bandit_lab.app import compilation_cache
compilation_cache.enable(sys.argv[1] or None)
import jax, numpy as np
from bandit_lab import simulation
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import Hyper, Learner
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
cells = Hyper(np.array([0.1]), np.array([0.9]), np.array([4]), np.array([1.0]))
runs = simulation.run(Learner(two_arm()), "sampled", cells, steps=9, seeds=600, path="fast")
print(hashlib.sha256(np.ascontiguousarray(runs.reward_variance).tobytes()).hexdigest(), len(hits))
"""


def test_a_run_in_one_kernel_comes_back_with_the_same_bits(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_ENABLE_COMPILATION_CACHE", None)
    answers = []
    for folder in ("", str(tmp_path), str(tmp_path)):
        command = [sys.executable, "-c", FAST, folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        answers.append(done.stdout.split())
    assert len({bits for bits, _ in answers}) == 1
    assert [int(hits) > 0 for _, hits in answers] == [False, False, True]


def test_folder_that_cannot_be_made_is_not_used_and_said_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    name = f"compilation_cache={tmp_path / 'file' / 'below'}"
    process = start("run", tmp_path, name)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0
    assert err.startswith(f"bandit_lab: {name.replace('=', ': ')} cannot be used as a folder")
    assert err.count("\n") == 1
    assert not (tmp_path / "auto").exists()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="rights of POSIX")
@pytest.mark.parametrize("where", ["cache", "cache/kind", "above"])
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o700])
def test_programs_that_others_could_have_put_there_are_not_used(tmp_path, monkeypatch, capsys, where, mode):
    """Others may write to the folder, to the one in it, or above it; under the sticky bit only in the last one."""
    config = SimpleNamespace(jax_compilation_cache_dir=None, jax_enable_compilation_cache=True, update=lambda *_: None)
    monkeypatch.setattr(jax, "config", config)
    monkeypatch.setattr(compilation_cache, "kind_of_machine", lambda: "kind")
    folder = tmp_path / "above" / "cache" / "kind"
    folder.mkdir(parents=True, mode=0o700)
    place = {"cache": folder.parent, "cache/kind": folder, "above": folder.parent.parent}[where]
    place.chmod(mode)
    used = compilation_cache.enable(str(folder.parent))
    err = capsys.readouterr().err
    if mode == 0o700 or (mode == 0o1777 and place != folder):
        assert (used, err) == (folder, "")
    else:
        assert used is None
        assert err.startswith(f"bandit_lab: compilation_cache: others can write to {place}")
        assert err.count("\n") == 1


def test_library_and_tests_run_without():
    assert jax.config.jax_compilation_cache_dir is None
    assert compilation_cache.enable("auto") is None  # switched off for tests
    assert "compilation_cache" in manifest.NOT_HASHED


@pytest.mark.parametrize("chosen", [3, 0.5, ["a"]])
def test_only_a_folder_or_nothing(chosen):
    with pytest.raises(ValueError, match="compilation_cache: expected auto, a folder, or null"):
        compilation_cache.enable(chosen)


def test_least_recently_used_entries_make_room(tmp_path, monkeypatch):
    for age in range(5):
        path = tmp_path / f"{age}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    monkeypatch.setattr(compilation_cache, "LARGEST", 250)
    compilation_cache._make_room(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-cache", "1-cache"]


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="only Linux tells")
def test_processor_is_stable_and_names_the_instructions(monkeypatch):
    before = compilation_cache.kind_of_machine()
    assert before == compilation_cache.kind_of_machine()
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda *a, **k: read(*a, **k).replace("sse2", ""))
    assert (compilation_cache.kind_of_machine() != before) == ("sse2" in read(Path("/proc/cpuinfo")))

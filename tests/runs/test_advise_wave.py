"""`advise` on a log that only swings."""

import json
from pathlib import Path

import numpy as np

from bandit_lab.app.cli import OK, main


def test_a_steady_oscillation_is_no_collapse(capsys, tmp_path, monkeypatch):
    """0.5 +- 0.2 with period 24 over 240 steps, ending in a trough: a wave is named, and what to do about it."""
    monkeypatch.chdir(tmp_path)
    time = np.arange(240)
    reward = 0.5 + 0.2 * np.sin(2 * np.pi * time / 24) + 0.02 * np.random.default_rng(0).normal(size=240)
    rows = [{"step": int(i), "reward": float(r)} for i, r in zip(time, reward, strict=True)]
    Path("wave.json").write_text(json.dumps({"log_history": rows}))
    assert main(["advise", "wave.json", "report=false", "run_dir=out", "-v"]) == OK
    out = " ".join(capsys.readouterr().out.split())
    assert json.loads(Path("out/summary.json").read_text())["log"]["collapse"] is None
    assert "collapse" not in out
    assert "A wave of period 24 steps" in out
    assert "noise is the first suspect" not in out

"""`advise` on configurations and logs that its tests write."""

import json
from pathlib import Path

import numpy as np
import pytest

from bandit_lab.app.cli import OK, main

TRL = "num_generations: 8\nlearning_rate: 1.0e-6\nnum_iterations: 4\nbeta: 0.01\n"
VERL = {
    "data": {"train_batch_size": 256},
    "actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 64, "optim": {"lr": 1e-6}}, "rollout": {"n": 8}},
    "algorithm": {"adv_estimator": "grpo"},
}
QUICK = "report=false"


def advise(*given, code=OK):
    """Run `advise` into ./out; returns the summary."""
    assert main(["advise", *given, "run_dir=out", "overwrite=true"]) == code
    return json.loads(Path("out/summary.json").read_text(), parse_constant=pytest.fail) if code == OK else None


def config(text=TRL, name="recipe.yaml"):
    Path(name).write_text(text if isinstance(text, str) else json.dumps(text))
    return name


def write_log(name="trainer_state.json", delay=20.0, points=200, sigma=0.01, low=0.2, high=0.8, seed=0, **more):
    """A single exponential with white noise, one reward per optimiser step."""
    noise = sigma * np.random.default_rng(seed).normal(size=points)
    reward = high - (high - low) * np.exp(-np.arange(points) / delay) + noise
    rows = [{"step": i + 1, "reward": float(r), **more} for i, r in enumerate(reward)]
    Path(name).write_text(json.dumps({"log_history": rows}))
    return name

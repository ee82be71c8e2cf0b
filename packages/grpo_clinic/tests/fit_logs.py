"""Reward logs that tests of `fit` write."""

import json
from pathlib import Path

import numpy as np


def rising(points=60, seed=0, delay=10.0, sigma=0.02):
    """A single exponential from 0.2 to 0.8 with white noise [points]."""
    noise = sigma * np.random.default_rng(seed).normal(size=points)
    return 0.8 - 0.6 * np.exp(-np.arange(points) / delay) + noise


def write_log(path, reward=None, **more):
    """A trainer_state.json with one reward per optimiser step."""
    reward = rising() if reward is None else reward
    rows = [{"step": i, "reward": float(r), **more} for i, r in enumerate(reward)]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps({"log_history": rows}))
    return str(path)

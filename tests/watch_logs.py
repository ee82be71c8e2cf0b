"""Logs of one run in every format that `watch` follows, made of its rewards [n]."""

import json

import numpy as np


def rewards(points=200, fall=None):
    """A rise, back to its start from row `fall` on [points]."""
    time = np.arange(points) / points
    made = 0.1 + 0.7 * (1 - np.exp(-4 * time)) + 0.04 * np.random.default_rng(0).normal(size=points)
    if fall is not None:
        made[fall:] -= made[fall] - 0.1
    return made


def jsonl(values, first=1):
    return "".join(f"{json.dumps({'step': first + i, 'reward': value})}\n" for i, value in enumerate(values))


def trl_console(values):
    rows = (f"{{'loss': '0.0', 'reward': '{v:.4f}', 'kl': '0.01', 'epoch': '{i}'}}\n" for i, v in enumerate(values))
    return "".join(rows) + "{'train_runtime': '12.0', 'train_loss': '0.1', 'epoch': '9'}\n"


def verl_console(values):
    return "".join(f"step:{i + 1} - critic/rewards/mean:{v:.4f} - actor/entropy:0.5\n" for i, v in enumerate(values))


def prime_console(values):
    return "".join(f"Step {i + 1} | Time: 3.1s | Reward: {v:.4f} | Entropy: 0.5\n" for i, v in enumerate(values))


def wide(values):
    return "step,reward\n" + "".join(f"{i + 1},{v}\n" for i, v in enumerate(values))


def long(values):
    return "run,metric,step,value\n" + "".join(f"a,reward,{i + 1},{v}\n" for i, v in enumerate(values))


def document(values):
    return json.dumps({"log_history": [{"step": i + 1, "reward": v} for i, v in enumerate(values)]})


FORMATS = {
    "run.jsonl": jsonl,
    "verl.log": verl_console,
    "trl.log": trl_console,
    "prime.log": prime_console,
    "wide.csv": wide,
    "long.csv": long,
    "trainer_state.json": document,
}

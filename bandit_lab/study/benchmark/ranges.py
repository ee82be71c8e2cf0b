"""The ranges of `conf/benchmark`, and draws from them."""

from typing import Any

import numpy as np

from bandit_lab import _checks

SPLITS = ("training", "held_out")


def load(name: str) -> dict[str, Any]:
    """One file of `conf/benchmark` as plain values."""
    from omegaconf import OmegaConf

    from bandit_lab.study.settings.config import config_dir

    found: Any = OmegaConf.to_container(OmegaConf.load(config_dir() / "benchmark" / f"{name}.yaml"), resolve=True)
    return found


def draw(rng: np.random.Generator, spec: Any) -> Any:
    """One value: [low, high] uniform, {log: [low, high]}, {one_of: [...]}, or the value itself."""
    if isinstance(spec, dict) and "one_of" in spec:
        return spec["one_of"][int(rng.integers(len(spec["one_of"])))]
    if isinstance(spec, dict) and "log" in spec:
        low, high = _checks.numbers("range", spec["log"], 2)
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))
    if isinstance(spec, list):
        low, high = _checks.numbers("range", spec, 2)
        return float(rng.uniform(low, high))
    return spec

"""What is planted in each run: every number of its world, its training and its log, drawn from the ranges."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bandit_lab import _checks


def load(name: str) -> dict[str, Any]:
    """One file of `experiments/grading` as plain values."""
    from omegaconf import OmegaConf

    folder = Path(__file__).parents[2] / "grading"
    loaded: Any = OmegaConf.to_container(OmegaConf.load(folder / f"{name}.yaml"), resolve=True)
    return loaded


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


CONTEXTS, ARMS = 8, 4
RIGHT, EXPLOIT = 0, 1


@dataclass(frozen=True)
class Injected:
    """One run before it is simulated.

    `recipe` it was made by; offsets [X, K], trained and true chances of a reward [K]; `learning_rate` in logits per
    unit gradient or, where `over_threshold` is given, still to be set to that multiple of the exact threshold.
    """

    name: str
    recipe: str
    points: int
    prompts: int
    group_size: int
    offsets: np.ndarray
    trained: np.ndarray
    true: np.ndarray
    learning_rate: float
    momentum: float
    refresh_interval: int
    kl_weight: float
    over_threshold: float | None
    log: dict[str, Any]
    seed: int

    @property
    def best(self) -> float:
        """Largest trained chance of a reward."""
        return float(self.trained.max())


def plant(ranges: dict[str, Any], runs: int) -> list[Injected]:
    """`runs` runs, their numbers drawn one after the other: the first of them do not depend on how many follow."""
    root = int(ranges["seed"])
    names, shares = list(ranges["mix"]), np.array(list(ranges["mix"].values()), float)
    chosen = [names[int(i)] for i in np.random.default_rng([root, 0]).choice(len(names), runs, p=shares / shares.sum())]
    return [plant_one(ranges, kind, root, number) for number, kind in enumerate(chosen)]


def plant_one(ranges: dict[str, Any], recipe: str, root: int, number: int) -> Injected:
    """One run by a recipe of the ranges."""
    rng = np.random.default_rng([root, 1, number])
    spec = {**ranges["world"], **ranges["training"], **ranges["recipes"][recipe]}
    value = {key: draw(rng, entry) for key, entry in spec.items()}
    log = {key: draw(rng, entry) for key, entry in ranges["log"].items()}
    points, interval = round(log["points"]), int(value["refresh_interval"])
    if "blocks" in value:
        interval = max(3, round(points / value["blocks"]))
    trained = np.array([value["right"], value["exploit"], value["wrong"], value["wrong"]])
    true = trained.copy()
    exploit_start = value.get("exploit_start", (1 - value["start"]) / 3)
    if "exploit_trained" in value:
        trained[EXPLOIT], true[EXPLOIT] = value["exploit_trained"], value["exploit_true"]
    share = np.array([value["start"], exploit_start, *[(1 - value["start"] - exploit_start) / 2] * 2])
    offsets = np.log(share) + np.zeros((CONTEXTS, ARMS))
    offsets[:, RIGHT] += value["difficulty"] * rng.permutation(_spread(CONTEXTS, value["split"]))
    rate = value["pace"] * (1 - value["momentum"]) / points
    batch = log.pop("batch")
    return Injected(
        f"{number}", recipe, points, int(batch[0]), int(batch[1]), offsets, trained, true, rate, value["momentum"],
        interval, value["kl_weight"], value.get("over_threshold"), log, int(rng.integers(2**31)),
    )  # fmt: skip


def _spread(count: int, split: bool) -> np.ndarray:
    """Normal quantiles of mean 0 and standard deviation 1 [count], or half of them -1 and half 1."""
    if split:
        return np.repeat([-1.0, 1.0], count // 2)
    from scipy.stats import norm

    quantiles = norm.ppf((np.arange(count) + 0.5) / count)
    return np.asarray(quantiles / quantiles.std())

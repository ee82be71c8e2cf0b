"""Runs of a language model's update: displaced pairs, runs with groups, AdamW's first update."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import xarray
from torch import Tensor

from bandit_lab.lab.reproduce.experiment import Setting
from bandit_lab.lab.reproduce.readings import crossing
from experiments.shared.smollm2 import Update

Loop = tuple[str, int, float, str]
"""Staleness model, refresh interval, momentum, and where the KL is."""
ONE, STIFFNESS, RATE = {"units": "1"}, {"units": "per unit of rate"}, {"units": "learning rate"}
NEARLY = 1.8
"""Of rate times K: from there on a run's K is looked at after every update."""


def edge(of: Update, start: Tensor, about: Setting, loop: Loop) -> xarray.Dataset:
    """By bisection: the rate above which the difference of two runs grows."""
    values, vectors = of.leading(start)
    low, high = (bound / values[0] for bound in about.between)
    while high > about.resolution * low:
        rate = math.sqrt(low * high)
        if _grows(of, start, about, vectors[0], rate, loop):
            high = rate
        else:
            low = rate
    return xarray.Dataset({"edge": ((), math.sqrt(low * high), RATE)})


def _grows(of: Update, start: Tensor, about: Setting, along: Tensor, rate: float, loop: Loop) -> bool:
    _, interval, momentum, _ = loop
    sizes: list[float] = []
    twins = [_positions(of, start + away * along, rate, loop) for away in (0.0, about.away)]
    updates = about.updates if momentum == 0 else about.momentum_updates
    for _ in range(updates // interval * interval):
        one, other = (next(twin) for twin in twins)
        sizes.append(abs(float((other - one) @ along)) / about.away)
        if not sizes[-1] < about.far:
            return True
        if len(sizes) > 2 * interval and max(sizes[-2 * interval :]) < 1 / about.far:
            return False
    third = len(sizes) // 3
    return bool(np.mean(np.square(sizes[-third:])) > np.mean(np.square(sizes[:third])))


def _positions(of: Update, weights: Tensor, rate: float, loop: Loop) -> Iterator[Tensor]:
    """Weights after each update of the mean. The reward's part is that of the weights that drew the answers."""
    model, interval, momentum, place = loop
    both = place == "reward"
    velocity, previous = torch.zeros_like(weights), weights
    while True:
        begun = weights
        stale = of.mean(begun if model == "refresh" else previous, kl=both)
        for _ in range(interval):
            update = stale if both else stale + of.mean(weights, reward=False)
            velocity = momentum * velocity + rate * update
            weights = weights + velocity
            yield weights
        previous = begun


def run(of: Update, weights: Tensor, setting: Setting, rate: float, seed: int, after: int) -> xarray.Dataset:
    """A run with groups (seed -1: the exact mean) until eta K is 2, or with `after` until so long after its first fall.

    Reported: the update of the crossing, eta K at the fall and `after` updates later, success then, K at every update.
    """
    source = torch.Generator().manual_seed(seed + 1)
    vector, best, fell = None, -math.inf, None
    checks: list[tuple[int, float]] = []
    every, limit = max(1, round(setting.check / rate)), round(setting.longest / rate)
    for number in range(limit):
        if number % every == 0 or rate * checks[-1][1] > NEARLY:
            values, vectors = of.leading(weights, vector)
            vector = vectors[0]
            checks.append((number, values[0]))
            if not after and rate * values[0] >= 2:
                break
        if after:
            objective = of.objective(weights)
            best = max(best, objective)
            fell = number if fell is None and objective < best - setting.throws.fall else fell
            if fell is not None and number == fell + after:
                break
        weights = weights + rate * (of.mean(weights) if seed < 0 else of.sampled(weights, source))
    numbers, stiffness = np.array(checks).T
    shown = np.full(limit, np.nan)
    shown[numbers.astype(int)] = stiffness
    at_fall = rate * stiffness[numbers <= fell].max() if fell is not None else math.nan
    columns = {
        "crossing": ((), crossing(numbers, stiffness, 2 / rate), {"units": "updates"}),
        "at_fall": ((), at_fall, ONE),
        "after_fall": ((), rate * stiffness[-1] if fell is not None else math.nan, ONE),
        "success": ((), of.success(weights), {"units": "reward"}),
        "stiffness": ("update", shown, STIFFNESS),
    }
    return xarray.Dataset(columns)


def adamw_edge(of: Update, start: Tensor, between: Sequence[float]) -> xarray.Dataset:
    """By bisection: the rate beyond which AdamW's first update lowers the objective."""
    low, high = between
    before, slope = of.objective(start), of.mean(start)
    while high > 1.01 * low:
        rate = math.sqrt(low * high)
        weights = start.clone().requires_grad_(True)
        weights.grad = -slope
        torch.optim.AdamW([weights], lr=rate, weight_decay=0.0).step()
        low, high = (rate, high) if of.objective(weights) > before else (low, rate)
    return xarray.Dataset({"edge": ((), math.sqrt(low * high), RATE)})


def warmed_fall(of: Update, weights: Tensor, rate: float, warmup: int) -> xarray.Dataset:
    """The update of AdamW's warm-up to `rate` by which the objective first falls; NaN if by none."""
    weights = weights.clone().requires_grad_(True)
    optimizer = torch.optim.AdamW([weights], lr=rate, weight_decay=0.0)
    before, fell = of.objective(weights), math.nan
    for number in range(1, warmup + 1):
        weights.grad = -of.mean(weights.detach())
        optimizer.param_groups[0]["lr"] = rate * number / warmup
        optimizer.step()
        after = of.objective(weights)
        if after < before:
            fell = number
            break
        before = after
    return xarray.Dataset({"fall": ((), fell, {"units": "updates"})})

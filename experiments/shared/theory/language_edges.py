"""Edges of a language model's update, from its exact Jacobian: loops by their law, AdamW's first updates by theirs."""

import math

import numpy as np
import torch
from torch import Tensor

from bandit_lab import theory
from bandit_lab.lab.reproduce.experiment import Setting
from experiments.shared.smollm2 import Update


def split(of: Update, weights: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The KL's and the reward's part of minus the Jacobian, in its four leading directions [4, 4]."""
    vectors = of.leading(weights, count=4, steps=30).vectors
    parts = []
    for part in ({"reward": False}, {"kl": False}):
        times = of.product(weights, **part)
        matrix = torch.stack([times(vector) for vector in vectors]) @ vectors.T
        parts.append(((matrix + matrix.T) / 2).numpy())
    return parts[0], parts[1]


def edge(kl: np.ndarray, reward: np.ndarray, loop: tuple[str, int, float, str]) -> float:
    """The learning rate of the first loss of stability. The KL's part is stale where it is in the reward."""
    model, interval, momentum, place = loop
    fresh, stale = (kl, reward) if place == "loss" else (np.zeros_like(kl), kl + reward)
    crossing = theory.first_unstable_learning_rate(theory.LinearLoop(fresh, stale, momentum, model), interval)
    return math.nan if crossing.value is None else crossing.value


def adamw_top(of: Update, weights: Tensor) -> float:
    """By how much every weight moves along the sign of the gradient to the top of the objective's parabola."""
    slope = of.mean(weights)
    sign = slope.sign()
    return float(slope.abs().sum() / (sign @ of.product(weights)(sign)))


def warmed_fall(top: float, about: Setting) -> list[float]:
    """The update of a warm-up whose step passes the top half-way, per rate."""
    return [math.floor(math.sqrt(2 * about.updates * top / rate)) + 1.0 for rate in about.rates]

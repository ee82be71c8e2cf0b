"""What a classifier can tell that sees the reward curve alone: the yardstick beside the diagnostics.

Per failure one logistic regression on features of the curve, with their squares and products, fitted with a ridge on
the training runs. The features hold all that the diagnostics read off a reward curve, and its shape besides. Each
failure's threshold is set so that on healthy training runs all four together raise false alarms at the target's rate.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from grpo_clinic.noise import noise_level
from grpo_clinic.readers.record import Curve
from grpo_clinic.report import FAILURES
from grpo_clinic.rules import Case, Fact, rules
from grpo_clinic.rules.fall import fall_of
from scipy.optimize import minimize
from scipy.special import expit

from experiments.shared.oscillation import growth_score, oscillation_test, wave_score

STORED = Path(__file__).with_name("reward_only.json")
FEATURES = ("points", "start", "end", "middle", "climb", "late_slope", "half_time", "noise", "late_noise",
            "correlation", "fall", "swings", "oscillation", "growth")  # fmt: skip
_RIDGE = 3.0
_LONG = 24
"""Rewards from which waves are looked for."""


def features(curve: Curve) -> np.ndarray:
    """[F] numbers of one reward curve, stability tests among them."""
    r = (curve.reward - curve.scale.low) / max(curve.scale.high - curve.scale.low, 1e-12)
    n, tenth = r.size, max(r.size // 10, 3)
    start, end, middle = r[:tenth].mean(), r[-tenth:].mean(), r[n // 3 : 2 * n // 3].mean()
    smooth = np.convolve(r, np.ones(tenth) / tenth, mode="valid")
    half = np.flatnonzero((smooth - start) * np.sign(end - start) >= 0.5 * abs(end - start))
    late = r[n // 2 :]
    detrended = late - np.polyval(np.polyfit(np.arange(late.size), late, 1), np.arange(late.size))
    noise = noise_level(r)
    rho = float(np.sum(detrended[1:] * detrended[:-1]) / max(float(np.sum(detrended**2)), 1e-12))
    by_name = {rule.name: rule for rule in rules()}
    scores = [fall_of(curve.reward_series, 0.0, by_name["fall.reward"]).score, 0.0, 0.0, 0.0]
    if n >= _LONG:
        test, scale = oscillation_test(curve.step, curve.reward), curve.scale.high - curve.scale.low
        swings = by_name["swings"](Case(curve))
        swing = swings.score if isinstance(swings, Fact) else 0.0
        scores[1:] = swing, wave_score(curve.reward, scale, test), growth_score(test)
    stability = [np.log(max(one, 1e-3)) for one in scores]
    shape = [np.log(n), start, end, middle, np.ptp(smooth), late[-tenth:].mean() - late[:tenth].mean()]
    shape += [half[0] / n if half.size else 1.0, np.log(noise + 1e-4), np.log(detrended.std() + 1e-4), rho]
    return np.array([*shape, *stability], float)


@dataclass(frozen=True)
class RewardOnly:
    """Weights [4, P] on standardised features, their squares and products; `centre`, `scale` [F], `threshold` [4]."""

    centre: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    threshold: np.ndarray

    def chances(self, values: np.ndarray) -> np.ndarray:
        """Chance of each failure [N, 4] for features [N, F]."""
        return np.asarray(expit(_expanded((values - self.centre) / self.scale) @ self.weights.T))

    def failures_in(self, values: np.ndarray) -> list[tuple[str, ...]]:
        """Failures in the verdict of each run."""
        above = self.chances(values) >= self.threshold
        return [tuple(name for name, there in zip(FAILURES, row, strict=True) if there) for row in above]

    def save(self, path: Path = STORED) -> None:
        """Write the numbers as JSON."""
        parts = {name: np.round(values, 6).tolist() for name, values in vars(self).items()}
        path.write_text(json.dumps({"features": FEATURES, **parts}, indent=0) + "\n")

    @classmethod
    def load(cls, path: Path = STORED) -> "RewardOnly":
        """The classifier as it was fitted on the training runs."""
        held: dict[str, Any] = json.loads(path.read_text())
        return cls(*(np.array(held[name]) for name in ("centre", "scale", "weights", "threshold")))


def train(values: np.ndarray, present: np.ndarray, healthy: np.ndarray, false_alarms: float) -> RewardOnly:
    """Fit to features [N, F], labels `present` [N, 4] (1, 0, or NaN where weak: left out) and healthy runs [N]."""
    centre, scale = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-9)
    inputs = _expanded((values - centre) / scale)
    weights = np.stack([_logistic(inputs[np.isfinite(y)], y[np.isfinite(y)]) for y in present.T])
    chances = np.sort(expit(inputs[healthy] @ weights.T), axis=0)
    allowed = int(false_alarms * healthy.sum() / len(FAILURES))  # of each failure, so that together they keep the rate
    threshold = np.nextafter(chances[len(chances) - 1 - allowed], 2)
    return RewardOnly(centre, scale, weights, threshold)


def among(values: np.ndarray, kind: np.ndarray, count: int) -> Callable[[np.ndarray], np.ndarray]:
    """A classifier into `count` kinds that exclude each other: a regression against the rest for each, the surest wins.

    Fitted to features [N, F] and kinds [N] in 0..count - 1; maps features [M, F] to kinds [M].
    """
    centre, scale = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-9)
    inputs = _expanded((values - centre) / scale)
    weights = np.stack([_logistic(inputs, (kind == k).astype(float)) for k in range(count)])
    return lambda fresh: np.argmax(_expanded((fresh - centre) / scale) @ weights.T, axis=-1)


def _expanded(z: np.ndarray) -> np.ndarray:
    """1, z, and all products of two [N, 1 + F + F (F + 1)/2], outliers cut at 4 standard deviations."""
    z = np.clip(z, -4, 4)
    first, second = np.triu_indices(z.shape[1])
    return np.concatenate((np.ones((len(z), 1)), z, z[:, first] * z[:, second]), axis=1)


def _logistic(inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Weights of a logistic regression with a ridge; both labels weigh the same."""
    share = np.clip(labels.mean(), 1e-3, 1 - 1e-3)
    balance = np.where(labels > 0, 0.5 / share, 0.5 / (1 - share))

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        score = inputs @ w
        value = np.sum(balance * (np.logaddexp(0, score) - labels * score)) + 0.5 * _RIDGE * np.sum(w[1:] ** 2)
        slope = inputs.T @ (balance * (expit(score) - labels))
        slope[1:] += _RIDGE * w[1:]
        return float(value), slope

    return np.asarray(minimize(loss, np.zeros(inputs.shape[1]), jac=True, method="L-BFGS-B").x)

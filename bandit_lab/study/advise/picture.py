"""What the picture of `advise` shows: margin against refresh interval, at this run's stiffness or, where that is not
known, at those that some response times would mean."""

from dataclasses import dataclass

import numpy as np

from bandit_lab.curves.advise import kappa_of_delay
from bandit_lab.study.advise.settings import AdviseSettings
from bandit_lab.study.advise.work import Advice

SHOWN = (10.0, 30.0, 100.0)


@dataclass(frozen=True)
class Curve:
    """Margins [n] by the law and exactly at one stiffness; `label` is empty for the run's own."""

    label: str
    law: np.ndarray
    exact: np.ndarray


@dataclass(frozen=True)
class MarginPicture:
    """Intervals [n] and what is drawn over them; `band` [2, n] the exact margin at both ends of the run's stiffness.

    `run` is (interval, exact margin) of this run, the margin None where it is not known.
    """

    interval: np.ndarray
    curves: tuple[Curve, ...]
    band: np.ndarray | None
    run: tuple[int, float | None]
    safety: float
    model: str
    title: str


def picture_of(advice: Advice, settings: AdviseSettings) -> MarginPicture:
    """The picture's content."""
    loop, own, strength = advice.loop, max(advice.loop.interval, 1), advice.strength
    lost = advice.intervals.threshold.exact if advice.intervals is not None else None
    last = int(np.clip(max(4 * own, 2 * (lost or 0)), 16, 256))
    interval = np.unique(np.concatenate([np.arange(1, 17), np.geomspace(16, last, 24).round().astype(int), [own]]))
    there = [loop.at(int(n)) for n in interval]
    law, exact = np.array([one.law for one in there]), np.array([one.exact.kappa for one in there])
    name = f"{advice.setup.trainer.name}, model {loop.model}, mu = {loop.momentum:g}"

    def at(kappa: float, label: str = "") -> Curve:
        return Curve(label, law / kappa, exact / kappa)

    if strength is None:
        curves = tuple(at(kappa_of_delay(loop, delay), f"response in {delay:g} steps") for delay in SHOWN)
        return MarginPicture(interval, curves, None, (loop.interval, None), settings.safety, loop.model, name)
    ends = np.stack([exact / strength.upper, exact / max(strength.lower, 0.05 * strength.kappa)])
    band = ends if strength.upper > strength.lower else None
    here = (loop.interval, loop.exact.kappa / strength.kappa)
    return MarginPicture(interval, (at(strength.kappa),), band, here, settings.safety, loop.model, name)

"""What the picture of `advise` shows: margin against refresh interval, or, where stiffness is not known, the response
time below which stability is lost."""

from dataclasses import dataclass

import numpy as np

from bandit_lab import theory
from bandit_lab.study.advise.settings import AdviseSettings
from bandit_lab.study.advise.work import Advice


@dataclass(frozen=True)
class MarginPicture:
    """Intervals [n] with what the law and the exact theory say there; `band` [2, n] the exact one at both ends.

    `of_delay`: the curves are response times at which the margin is 1, and stability lies above them; otherwise they
    are margins and `lines` are those that matter. `run` is (interval, law, exact) of this run, values None if unknown.
    """

    interval: np.ndarray
    law: np.ndarray
    exact: np.ndarray
    band: np.ndarray | None
    run: tuple[int, float | None, float | None]
    safety: float
    of_delay: bool
    model: str
    title: str


def picture_of(advice: Advice, settings: AdviseSettings) -> MarginPicture:
    """The picture's content."""
    loop, own = advice.loop, max(advice.loop.interval, 1)
    lost = advice.intervals.threshold.exact if advice.intervals is not None else None
    last = int(np.clip(max(4 * own, 2 * (lost or 0)), 16, 256))
    interval = np.unique(np.concatenate([np.arange(1, 17), np.geomspace(16, last, 24).round().astype(int), [own]]))
    there = [loop.at(int(n)) for n in interval]
    law, exact = np.array([one.law for one in there]), np.array([one.exact.kappa for one in there])
    name = f"{advice.setup.trainer.name}, model {loop.model}, mu = {loop.momentum:g}"
    if advice.strength is None:
        ages = np.array([one.mean_age for one in there])
        unit = (1 - loop.momentum) / theory.gain(loop.momentum, loop.convention)
        by_law, exactly, safe = (
            np.maximum(m * unit / k - ages, 0.0) for m, k in ((1.0, law), (1.0, exact), (settings.safety, exact))
        )
        run = (loop.interval, None, None)
        band = np.stack([exactly, safe])
        return MarginPicture(interval, by_law, exactly, band, run, settings.safety, True, loop.model, name)
    kappa = advice.strength
    ends = np.stack([exact / kappa.upper, exact / max(kappa.lower, 0.05 * kappa.kappa)])
    spread = ends if kappa.upper > kappa.lower else None
    here = (loop.interval, loop.law / kappa.kappa, loop.exact.kappa / kappa.kappa)
    law, exact = law / kappa.kappa, exact / kappa.kappa
    return MarginPicture(interval, law, exact, spread, here, settings.safety, False, loop.model, name)

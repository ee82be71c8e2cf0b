"""How far a training loop is from losing stability, and how far each setting may move, by the law and exactly.

Everything follows from kappa = learning rate * stiffness (`theory.thresholds`). A margin is kappa_c/kappa: above 1 the
loop is stable, 2 means that the learning rate or the stiffness may double. The published law (arXiv 2606.30789) has
kappa_c = (1 - mu)/N whatever the refresh interval N means; the exact kappa_c belongs to a staleness model.

*Without stiffness or learning rate.* A curve that answers with mean delay tau (time in optimiser steps, gradients of
mean age a) has tau = gamma/lambda, gamma = (1 - mu)/eta' - lambda a, hence kappa' = eta' lambda = (1 - mu)/(tau + a)
with eta' the learning rate of the convention (Nesterov: tau + a - mu). The law's margin is then (tau + a)/N: neither
eta, nor mu, nor the scale of Adam's second moment is needed. Derived here.
"""

import bisect
from dataclasses import dataclass

from bandit_lab import _checks, theory
from bandit_lab.theory.conventions import Convention, Model

FARTHEST = 1024
"""Refresh intervals beyond it are not looked at."""


@dataclass(frozen=True)
class StalenessLoop:
    """Staleness model with its interval N (`lag`: lag, >= 0) [optimiser steps], momentum and momentum convention."""

    model: Model
    interval: int
    momentum: float
    convention: Convention = "heavy_ball"

    def at(self, interval: int) -> "StalenessLoop":
        """The same loop with another interval."""
        return StalenessLoop(self.model, interval, self.momentum, self.convention)

    @property
    def mean_age(self) -> float:
        """Mean age of the acting policy [optimiser steps]."""
        return theory.mean_age(self.model, self.interval)

    @property
    def law(self) -> float:
        """kappa at which the law puts the threshold; infinite without lag."""
        return theory.leading_order(self.interval, self.momentum, self.convention)

    @property
    def exact(self) -> theory.Threshold:
        """kappa at which stability is lost, and how."""
        return theory.exact(self.model, self.interval, self.momentum, self.convention)

    @property
    def onset(self) -> float:
        """kappa from which the loop rings."""
        return theory.oscillation_onset(self.model, self.interval, self.momentum, self.convention)


@dataclass(frozen=True)
class StabilityMargin:
    """kappa and what it may be multiplied by: `law` and `exact` to the threshold, `onset` to the first ringing."""

    kappa: float
    law: float
    exact: float
    onset: float
    bifurcation: str


@dataclass(frozen=True)
class Limit:
    """A largest safe setting by the law and exactly; `capped` where it is at least that and not judged beyond.

    None where not even the smallest one is safe.
    """

    law: float | None
    exact: float | None
    capped: bool = False
    law_capped: bool = False

    def in_units_of(self, unit: float) -> "Limit":
        """This limit divided by `unit`."""
        law, exact = (None if value is None else value / unit for value in (self.law, self.exact))
        return Limit(law, exact, self.capped, self.law_capped)

    def within(self, most: float) -> "Limit":
        """The same, judged up to `most` only."""
        law = None if self.law is None else min(self.law, most)
        exact = None if self.exact is None else min(self.exact, most)
        return Limit(law, exact, self.capped or exact == most, self.law_capped or law == most)


def margin(loop: StalenessLoop, kappa: float) -> StabilityMargin:
    """The margins of a loop at kappa > 0 (learning rate * stiffness, dimensionless). Raises ValueError for others."""
    kappa = _checks.positive("kappa", kappa)
    threshold = loop.exact
    return StabilityMargin(kappa, loop.law / kappa, threshold.kappa / kappa, loop.onset / kappa, threshold.bifurcation)


def kappa_of_delay(loop: StalenessLoop, delay: float) -> float:
    """kappa of a loop whose reward follows with mean delay `delay` [optimiser steps, >= 0].

    Raises ValueError for a delay < 0.
    """
    shift = loop.momentum if loop.convention == "nesterov" else 0.0
    effective = max(_checks.non_negative("delay", delay) + loop.mean_age - shift, 1e-12)
    return (1 - loop.momentum) / theory.gain(loop.momentum, loop.convention) / effective


def largest_safe_kappa(loop: StalenessLoop, safety: float) -> Limit:
    """Largest kappa whose margin is still `safety`; law (None without lag) and exact.

    Raises ValueError for safety <= 0.
    """
    safety = _checks.positive("safety", safety)
    law = loop.law
    return Limit(law / safety if law < float("inf") else None, loop.exact.kappa / safety)


def largest_safe_interval(loop: StalenessLoop, kappa: float, safety: float) -> Limit:
    """Largest interval N with a margin of at least `safety` at this kappa; N is real by the law, whole exactly.

    The exact threshold falls with N (checked in the tests), so the place is found by bisection. Capped at 1024.
    Raises ValueError for kappa or safety <= 0.
    """
    kappa, safety = _checks.positive("kappa", kappa), _checks.positive("safety", safety)
    least = 0 if loop.model == "lag" else 1
    law: float | None = loop.at(1).law / (kappa * safety)
    law = law if law is not None and law >= least else None

    def safe(interval: int) -> bool:
        return loop.at(interval).exact.kappa >= safety * kappa * (1 - 1e-12)

    if not safe(least):
        return Limit(law, None)
    if safe(FARTHEST):
        return Limit(law, float(FARTHEST), capped=True)
    lost = bisect.bisect_left(range(FARTHEST), True, least, key=lambda interval: not safe(interval))
    return Limit(law, float(lost - 1))

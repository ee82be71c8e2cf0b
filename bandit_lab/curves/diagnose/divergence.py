"""Divergence: KL, gradient norm or entropy explode, or the reward is no number any more. Judged where logged.

A quantity has exploded where its last tenth stands a set number of times above its usual level, and KL and entropy also
above a floor: both are small numbers at first, and a multiple of a small number is no harm.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bandit_lab.curves.diagnose.collapse import nonfinite
from bandit_lab.curves.diagnose.evidence import DiagnoseSettings, Evidence, Finding
from bandit_lab.curves.median import median
from bandit_lab.curves.record import Curve, Series

FEWEST = 12
"""Values of a quantity from which its explosion is judged."""


class Explosion(NamedTuple):
    """`times` its usual level, and the least value [`unit`] that is called an explosion."""

    times: float
    floor: float
    unit: str


LIMITS = {
    "kl": Explosion(10.0, 1.0, "nats"),
    "grad_norm": Explosion(10.0, 0.0, ""),
    "entropy": Explosion(4.0, 1.0, "nats"),
}


def judge(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    """The strongest explosion of what is logged."""
    lost = nonfinite(curve)
    found = [] if lost is None else [replace(lost, metric="no_number")]
    judged = [name for name in LIMITS if name in curve.series and curve.series[name].value.size >= FEWEST]
    found += [_explosion(curve.series[name], name) for name in judged]
    absent = [name.replace("_", " ") for name in LIMITS if name not in judged]
    if not judged and not any(one.above for one in found):
        return Finding(
            "diverging", None, tuple(found), f"{', '.join(absent)} are not logged: divergence cannot be judged"
        )
    return Finding("diverging", max(one.score for one in found), tuple(found))


def _explosion(series: Series, name: str) -> Evidence:
    """The median of the last tenth (at least three values) over the median of the first two thirds.

    Where values are missing or not finite at the end the series holds what came before.
    """
    value, limit = np.abs(series.value), LIMITS[name]
    count = max(3, value.size // 10)
    usual, late = median(value[: 2 * value.size // 3]), median(value[-count:])
    ratio = min(late / max(usual, 1e-12), 1e12) if late > 0 else 0.0
    score = min(ratio / limit.times, late / limit.floor if limit.floor else np.inf)
    high = np.flatnonzero(value < limit.times * usual)
    first = min(int(high[-1]) + 1 if high.size else 0, value.size - count) if score >= 1 else value.size - count
    text = f"'{series.key}' at the end {late:.3g}, in the first two thirds {usual:.3g} (medians)"
    also = f"and at least {limit.floor:g} {limit.unit}" if limit.floor else ""
    window = (float(series.step[first]), float(series.step[-1]))
    return Evidence(f"{name}_explosion", window, ratio, limit.times, text, float(score), also)

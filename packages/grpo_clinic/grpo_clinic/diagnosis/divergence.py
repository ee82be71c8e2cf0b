"""Divergence: KL, gradient norm or entropy explode, or the reward is no number any more. Judged where logged.

A quantity has exploded where its last tenth stands a set number of times above its usual level, and above a floor: all
are small numbers at first, and a multiple of a small number is no harm. Trainers clip the gradient norm at its floor.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from grpo_clinic.diagnosis.collapse import nonfinite
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Evidence, Finding
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Curve, Series

FEWEST = 12
"""Values of a quantity from which its explosion is judged."""


_LONG = 8
"""Rows of a log that holds more than the rows that somebody pasted."""


class Explosion(NamedTuple):
    """`times` its usual level, and the least value [`unit`] that is called an explosion. Values below `asleep` are
    no usual level: groups without a signal have no gradient."""

    times: float
    floor: float
    unit: str
    asleep: float = 0.0


LIMITS = {
    "kl": Explosion(10.0, 1.0, "nats"),
    "grad_norm": Explosion(10.0, 1.0, "in norm", 1e-3),
    "entropy": Explosion(4.0, 1.0, "nats"),
}


def judge(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    """The strongest explosion of what is logged."""
    lost = nonfinite(curve)
    found = [] if lost is None else [replace(lost, metric="no_number")]
    gone = _without_gradient(curve)
    found += gone
    judged = [name for name in LIMITS if name in curve.series and curve.series[name].value.size >= FEWEST]
    found += [_explosion(curve.series[name], name) for name in judged]
    absent = [name.replace("_", " ") for name in LIMITS if name not in judged]
    if not judged and not any(one.above for one in found):
        return Finding(
            "diverging", None, tuple(found), f"{', '.join(absent)} are not logged: divergence cannot be judged"
        )
    diverging = Finding("diverging", max(one.score for one in found), tuple(found))
    if not any(one.above for one in gone):
        return diverging
    grew = any(one.above and one.metric == "grad_norm_explosion" for one in found)
    restart = (
        "half the learning rate: the gradient grew before it was no number"
        if grew
        else "the same settings: a gradient that is no number and did not grow before is an overflow or a division by "
        "zero, no matter of the learning rate"
    )
    advice = f"Stop and restart from a checkpoint before step {diverging.onset:g} with {restart}."
    return replace(diverging, advice=advice)


def _without_gradient(curve: Curve) -> list[Evidence]:
    """Gradient norms that are no number at the end of the log: the weights are lost from there on.

    A scaler of half precision skips such a step now and then, so that a long log has to end in three of them.
    """
    lost = curve.gradient_lost
    if not lost.size:
        return []
    least = 3 if curve.leading.step.size >= _LONG else 1
    window = (float(lost[0]), float(lost[-1]))
    text = f"the gradient norm is no number from step {window[0]:g} to the end of the log ({lost.size} rows)"
    return [
        Evidence("gradient_lost", window, float(lost.size), float(least), text, lost.size / least, "rows at the end")
    ]


def _explosion(series: Series, name: str) -> Evidence:
    """The median of the last tenth (at least three values) over the median of the first two thirds.

    Where values are missing or not finite at the end the series holds what came before.
    """
    value, limit = np.abs(series.value), LIMITS[name]
    count = max(3, value.size // 10)
    before = value[: 2 * value.size // 3]
    awake = before[before >= limit.asleep]
    usual, late = median(awake) if awake.size else limit.floor, median(value[-count:])
    ratio = min(late / max(usual, 1e-12), 1e12) if late > 0 else 0.0
    score = min(ratio / limit.times, late / limit.floor)
    high = np.flatnonzero(value < limit.times * usual)
    first = min(int(high[-1]) + 1 if high.size else 0, value.size - count) if score >= 1 else value.size - count
    text = f"'{series.key}' at the end {late:.3g}, in the first two thirds {median(before):.3g} (medians)"
    also = f"and at least {limit.floor:g} {limit.unit}"
    window = (float(series.step[first]), float(series.step[-1]))
    return Evidence(f"{name}_explosion", window, ratio, limit.times, text, float(score), also)

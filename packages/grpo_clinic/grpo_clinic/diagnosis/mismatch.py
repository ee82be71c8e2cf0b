"""Sampler mismatch: the engine that writes the answers does not sample from the policy that is trained.

Trainers log it as a distance of log-probabilities, or as the mean ratio of the two probabilities. Rounding in the
engine alone gives .006 to .11 nats per token in public runs that learn. An engine with other weights stood at .8 and
1.3. The limit lies between, in the middle of the logarithms. That of the ratio is verl's own.
"""

import math
from dataclasses import replace

import numpy as np

from grpo_clinic.diagnosis.evidence import MISMATCH, Evidence, Finding
from grpo_clinic.readers.record import Curve, Series

DISTANCE = 0.3
"""Nats per token, of a KL divergence or of a mean absolute difference of log-probabilities."""
RATIO = 2.0
"""Mean importance ratio from which, or from one over which, the two policies are not one."""


def judge(curve: Curve) -> Finding | None:
    """The first and the last fifth of what is logged, at least one row of each; None where nothing is."""
    found = []
    distance, ratio = curve.series.get("mismatch"), curve.series.get("importance_ratio")
    if distance is not None:
        found += [_far(distance, rows, float(np.median(np.abs(distance.value[rows])))) for rows in _ends(distance)]
    if ratio is not None and (filled := ratio.value > 0).any():  # a mean ratio of 0 is none: nobody filled it
        ratio = replace(ratio, step=ratio.step[filled], value=ratio.value[filled])
        found += [_off(ratio, rows, float(np.median(ratio.value[rows]))) for rows in _ends(ratio)]
    return Finding(MISMATCH, max(one.score for one in found), tuple(found)) if found else None


def _ends(series: Series) -> list[slice]:
    count = max(series.value.size // 5, 1)
    ends = [slice(0, count), slice(series.value.size - count, series.value.size)]
    return ends if series.value.size > 1 else ends[:1]


def _window(series: Series, rows: slice) -> tuple[float, float]:
    step = series.step[rows]
    return float(step[0]), float(step[-1])


def _far(series: Series, rows: slice, value: float) -> Evidence:
    text = f"'{series.key}': sampler and trainer lie {value:.3g} nats per token apart"
    return Evidence("sampler_distance", _window(series, rows), value, DISTANCE, text, value / DISTANCE)


def _off(series: Series, rows: slice, value: float) -> Evidence:
    score = abs(math.log(value)) / math.log(RATIO)
    text = f"'{series.key}': the trainer finds the answers {value:.3g} times as likely as the sampler did"
    also = f"or below {1 / RATIO:g}"
    return Evidence("importance_ratio", _window(series, rows), value, RATIO, text, min(score, 1e3), also)

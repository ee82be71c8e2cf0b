"""Answer length: the answers have become a small part of what they were, or a multiple of it.

A policy that has given up writes a few tokens, one that rambles fills the limit. Neither is a failure by itself:
answers also grow where a model learns to reason. `severity` grades it by what the reward does.
"""

import math

import numpy as np

from grpo_clinic.diagnosis.evidence import LENGTH, Evidence, Finding
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Curve

TIMES = 4.0
"""Factor from which a length is another one, as for an entropy. Healthy public runs end at .6 to 3 times theirs."""
_FEWEST = 8


def judge(curve: Curve) -> Finding | None:
    """The median of the last tenth, at least three values, over that of the first three; None where few are logged."""
    logged = curve.series.get("length")
    if logged is None or logged.value.size < _FEWEST or not np.all(logged.value > 0):
        return None
    count = max(3, logged.value.size // 10)
    early, late = median(logged.value[:3]), median(logged.value[-count:])
    score = abs(math.log(late / early)) / math.log(TIMES)
    inside = np.flatnonzero(np.abs(np.log(logged.value / early)) < math.log(TIMES))
    first = min(int(inside[-1]) + 1 if inside.size else 0, logged.value.size - 1)
    window = (float(logged.step[first if score >= 1 else 0]), float(logged.step[-1]))
    text = f"'{logged.key}' went from {early:.4g} to {late:.4g}"
    also = f"or below {1 / TIMES:g}"
    return Finding(LENGTH, score, (Evidence("times_as_long", window, late / early, TIMES, text, score, also),))

"""Truncated answers: the length limit cuts nearly all of them off, so that what the reward looks for is never written.

Some tasks are written to a fixed length. There a reward that is gained, all of it, is no harm by truncation.
"""

import numpy as np

from grpo_clinic.diagnosis.degeneracy import since
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Evidence, Finding
from grpo_clinic.readers.record import Curve

_FEWEST = 3
"""Values of the share at the end of a run from which it is judged."""


def judge(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    """Share of truncated answers over the last fifth of the run."""
    logged = curve.series.get("truncation")
    late = None if logged is None else logged.step >= np.quantile(curve.leading.step, 0.8)
    proven = logged is not None and bool(np.all(logged.value >= 1))  # then a single row is enough
    if logged is None or late is None or late.sum() < (1 if proven else _FEWEST):
        return Finding(
            "truncated_answers", None, missing="no share of truncated answers is logged: whether they are cut off "
            "cannot be judged"
        )  # fmt: skip
    share = float(logged.value[late].mean())
    score = share / settings.truncated_share
    first = float(logged.step[late][0])
    if score >= 1:
        first = min(since(logged.step, logged.value, int(late.sum()), settings.truncated_share), first)
    text = f"'{logged.key}': {share:.0%} of the answers of the last fifth were cut off at the length limit"
    window = (first, float(logged.step[-1]))
    return Finding(
        "truncated_answers",
        score,
        (Evidence("truncated_share", window, share, settings.truncated_share, text, score),),
    )

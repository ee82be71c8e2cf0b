"""Rewards that are no numbers: a few along the way are an accident of logging, a run that ends in them has diverged."""

import numpy as np

from bandit_lab.curves.diagnose.evidence import Evidence
from bandit_lab.curves.record import Curve

_FEWEST = 3
"""Rows without a number at the end that mean divergence, where there were none before."""


def nonfinite(curve: Curve) -> tuple[float, Evidence] | None:
    """(score, evidence) of the rewards that are missing or not finite; None where there are none.

    The rows behind the last number count against three, and against twice the longest such stretch before: where the
    reward is logged now and then only, a log may well end between two of them.
    """
    lost = np.sort(curve.nonfinite_steps)
    if not lost.size:
        return None
    stretches = np.bincount(np.searchsorted(curve.step, lost), minlength=curve.step.size + 1)
    last, least = int(stretches[-1]), max(_FEWEST, 2 * int(stretches[:-1].max()))
    text = f"{lost.size} rewards are missing or not finite, the first at step {lost[0]:g}"
    window = float(lost[0]), float(lost[-1])
    if last >= least:
        window = float(lost[-last]), window[1]
        text = f"is no number from step {window[0]:g} to the end of the log ({last} rows)"
    return last / least, Evidence("nonfinite", window, float(last), float(least), text)

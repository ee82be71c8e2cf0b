"""Very long logs made short enough to fit: neighbouring points averaged, so that no shape of the curve is lost."""

from dataclasses import replace

import numpy as np

from bandit_lab.curves.record import Curve

MOST = 2000
"""Points above which neighbours are averaged: a law has at most four numbers, and the time of a fit grows with them."""


def at_most(curve: Curve, points: int = MOST) -> Curve:
    """The curve with as many neighbours averaged as it takes to have at most `points`; the same one if it is short.

    A last block that is not full is left out. Step and reward of a block are the means of its points.
    """
    block = -(-curve.step.size // points)
    if block <= 1:
        return curve
    kept = curve.step.size // block * block
    step, value = (np.asarray(values[:kept].reshape(-1, block).mean(axis=1)) for values in (curve.step, curve.reward))
    note = f"{curve.step.size} points averaged over {block} neighbours each for the fit"
    series = replace(curve.reward_series, step=step, value=value, notes=(*curve.reward_series.notes, note))
    return replace(curve, reward_series=series, notes=(*curve.notes, note))

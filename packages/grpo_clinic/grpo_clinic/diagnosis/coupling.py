"""Reward hacking: the reward that training sees goes up and the result that counts does not follow.

The held-out series is set against the training reward averaged over the same stretch of steps. From the best held-out
window on, their joint movement is asked for: training reward up by more than its error while the held-out result went
down, or stayed put though the earlier slope would have carried it up. Units of reward divided by their errors.
"""

import math
import re
from dataclasses import replace

import numpy as np

from grpo_clinic.diagnosis.divergence import LIMITS
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Evidence, Finding
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Curve, Floats, Series

TRUE_PART = re.compile(r"accura|correct|ndcg|pass@|exact|(^|[_/])(em|gold|true)($|[_/])", re.IGNORECASE)
"""Keys of what counts."""
_FEWEST = 5
"""Held-out points in a window."""
_PRIOR = 4
"""Points that the noise of the whole series counts for beside the spread within a window."""
_ALIKE = 0.995
"""Correlation from which a part is the reward over again."""
_ALONE = 1.8
"""Times as many standard errors are asked of a held-out result that falls while training stays level."""
_FOLLOWS = 0.1
"""Share of its earlier slope with which a held-out result still follows."""
ODD = LIMITS["kl"].floor
"""Nats per token: where a KL to the reference counts as exploded, too."""


def judge(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    """Compare training reward with the held-out series, or with the part of the reward that measures correctness; and
    with how a model that is not trained likes the answers, where that is logged."""
    found, odd = _coupled(curve, settings), _odd(curve)
    return found if odd is None else replace(found, score=max(found.score or 0.0, odd.score),
                                             evidence=(odd, *found.evidence))  # fmt: skip


def _odd(curve: Curve) -> Evidence | None:
    """How much less likely the answers have become to a model that is not trained, while the reward did not fall."""
    logged = curve.series.get("perplexity")
    if logged is None or logged.value.size < _FEWEST or logged.value.min() <= 0:
        return None
    early, late = float(logged.value[0]), median(logged.value[-3:])
    grown, part = math.log(late / early), max(curve.reward.size // 5, 1)
    score = max(grown / ODD, 0.0) if curve.reward[-part:].mean() >= curve.reward[:part].mean() else 0.0
    text = (
        f"'{logged.key}' went from {early:.3g} to {late:.3g}: to a model that is not trained each token of the answers "
        f"is {math.exp(abs(grown)):.3g} times {'less' if grown > 0 else 'more'} likely"
    )
    window = (float(logged.step[0]), float(logged.step[-1]))
    return Evidence("oddness", window, grown, ODD, text, score, "nats per token, and the reward has not fallen")


def _coupled(curve: Curve, settings: DiagnoseSettings) -> Finding:
    held_out, origin = _held_out(curve)
    if held_out is None:
        if curve.reward_is_eval:
            text = "no training reward: the log's curve is the held-out one, so hacking cannot be judged"
            wanted = "the training reward beside the held-out result that this curve is"
            return Finding("reward_hacking", None, missing=text, wanted=wanted)
        text = f"no held-out series of at least {_FEWEST} points: reward hacking cannot be judged"
        return Finding("reward_hacking", None, missing=text)
    train = _matched(curve, held_out.step)
    usable = np.isfinite(train)
    if usable.sum() < _FEWEST:
        return Finding("reward_hacking", None, missing="held-out and training rewards share too few steps to compare")
    step, train, value = held_out.step[usable], train[usable], held_out.value[usable]
    noise = _noise(train), _noise(value)
    best, found = None, -np.inf
    for first in range(0, step.size - _FEWEST + 1):
        rise = _trend(step[first:], train[first:], noise[0])
        follow = _trend(step[first:], value[first:], noise[1])
        strength = _strength(rise, follow, _shortfall(train, value, first, rise, follow))
        if strength > found:
            best, found = (first, rise, follow), strength
    assert best is not None
    first, rise, follow = best
    text = (
        f"over these steps the training reward moved by {rise[0]:+.3g} +- {rise[1]:.2g} and {origin} by "
        f"{follow[0]:+.3g} +- {follow[1]:.2g}"
    )
    missing = ""
    if held_out is not curve.eval:
        missing = (
            f"{origin} is measured on the training data: a checker that is fooled itself shows in no logged metric"
        )
    score, window = max(float(found) / settings.coupling_z, 0.0), (float(step[first]), float(step[-1]))
    evidence = Evidence("coupling", window, float(found), settings.coupling_z, text, score)
    return Finding("reward_hacking", score, (evidence,), missing)


def _held_out(curve: Curve) -> tuple[Series | None, str]:
    if curve.eval is not None and curve.eval.step.size >= _FEWEST:
        return curve.eval, f"the held-out '{curve.eval.key}'"
    for key, part in curve.parts.items():
        if TRUE_PART.search(key) and part.step.size >= 2 * _FEWEST and not _same(part, curve):
            return _binned(part), f"the part '{key}'"
    return None, ""


def _same(part: Series, curve: Curve) -> bool:
    """Whether a part is the reward over again, on another scale at most."""
    there = curve.reward_series.at(part.step)
    known = np.isfinite(there)
    if known.sum() < 3 or np.ptp(there[known]) == 0 or np.ptp(part.value[known]) == 0:
        return False
    return bool(np.corrcoef(there[known], part.value[known])[0, 1] > _ALIKE)


def _binned(part: Series) -> Series:
    """A part logged at every step, averaged in twelve stretches: as sparse as held-out results are."""
    groups = np.array_split(np.arange(part.step.size), min(12, part.step.size // 2))
    step, value = ([float(v[g].mean()) for g in groups] for v in (part.step, part.value))
    return Series(np.array(step), np.array(value), part.key)


def _matched(curve: Curve, at: Floats) -> Floats:
    """Training reward averaged over the stretch around each held-out step [m], NaN where none was logged."""
    middle = 0.5 * (at[1:] + at[:-1])
    edges = np.concatenate(([-np.inf], middle, [np.inf]))
    place = np.searchsorted(edges, curve.step, side="right") - 1
    total, count = np.zeros(at.size), np.zeros(at.size)
    np.add.at(total, place, curve.reward)
    np.add.at(count, place, 1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _noise(value: Floats) -> float:
    """Standard deviation of the noise of a whole series, from its second differences."""
    return float(np.sqrt(np.mean(np.diff(value, 2) ** 2) / 6))


def _trend(step: Floats, value: Floats, noise: float) -> tuple[float, float]:
    """(change over the window by a straight line, its standard error), the error never zero.

    The spread about the line is pooled with the noise of the whole series, as if that were known from four points: a
    window of five must not look certain because its points happen to lie on a line.
    """
    x, value = (step - step.mean()) / max(float(np.ptp(step)), 1e-12), value - value[0]
    slope = float(np.sum(x * value) / np.sum(x * x))
    rest = value - value.mean() - slope * x
    spread = np.sqrt((np.sum(rest**2) + _PRIOR * noise**2) / (value.size - 2 + _PRIOR))
    floor = max(1e-3 * float(np.ptp(value)), 1e-300)
    return slope, float(max(spread, floor) / np.sqrt(np.sum(x * x)))


def _strength(rise: tuple[float, float], follow: tuple[float, float], shortfall: float) -> float:
    """Standard errors of a training reward that rises while the held-out result does not; or, where training stays
    level, those of a held-out result that falls, which must be more for it may be chance alone."""
    parted = min(rise[0] / rise[1], shortfall)
    if rise[0] < -rise[1]:
        return parted
    return max(parted, min(-follow[0] / follow[1], (rise[0] - follow[0]) / np.hypot(rise[1], follow[1])) / _ALONE)


def _shortfall(
    train: Floats, value: Floats, first: int, rise: tuple[float, float], follow: tuple[float, float]
) -> float:
    """By how many standard errors the held-out change falls short: of zero, or of a tenth of what was usual before."""
    usual = 0.0
    if first >= _FEWEST and np.ptp(train[: first + 1]) > 0:
        usual = max(float(np.polyfit(train[: first + 1] - train[0], value[: first + 1] - value[0], 1)[0]), 0.0)
    return (_FOLLOWS * usual * rise[0] - follow[0]) / follow[1]

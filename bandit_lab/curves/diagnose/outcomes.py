"""What became of a run, whatever the cause: `stalled`, no gain where there was room, and `collapsed`, a fall that was
not made good. Both are told from the reward alone.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bandit_lab.curves.diagnose.collapse import collapse
from bandit_lab.curves.diagnose.evidence import DiagnoseSettings, Evidence, Finding
from bandit_lab.curves.diagnose.excursions import noise_level
from bandit_lab.curves.record import Curve

if TYPE_CHECKING:
    from bandit_lab.curves.diagnose.oscillation import Oscillation

FEWEST = 8
"""Rewards from which a fall or a standstill is judged."""
_NEAR_TOP = 0.85
"""Share of the reward's scale above which there is little left to learn."""
_ROOM = 0.2
"""Share of the room above the first rewards that a gain within the error must not fill: else noise hides it."""
_DEEP, _REGAINED = 0.8, 0.5
"""Share of the climb lost in a fall that is remembered, and share of that fall whose recovery makes it good."""


def stalled(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None, least: float = _ROOM) -> Finding:
    """The reward of the last fifth against that of the first: what was gained and lost again is no gain.

    The error is twice that of white noise in the difference of two fifths. Where a gain of `least` of the room
    above the first rewards, or more, could hide in it, nothing is judged.
    """
    part = curve.reward.size // 5
    if curve.reward.size < FEWEST or part < 2:
        return Finding("stalled", None, missing=f"fewer than {2 * 5} rewards: whether it stalls cannot be judged")
    reward = curve.reward - curve.reward[0]
    first, last = reward[:part], reward[-part:]
    noise = min(noise_level(reward), float(np.sqrt(0.5 * (first.var(ddof=1) + last.var(ddof=1)))))
    error = 2 * noise * float(np.sqrt(2 / part))
    means = np.convolve(reward, np.ones(part) / part, mode="valid")
    change, best = float(last.mean() - first.mean()), float(means.max() - first.mean())
    window = (float(curve.step[0]), float(curve.step[-1]))
    start = float(curve.reward[:part].mean())
    height = (float(curve.reward[-part:].mean()) - curve.scale.low) / max(curve.scale.high - curve.scale.low, 1e-12)
    room = max(curve.scale.high - start, 1e-12)
    flat = np.ptp(curve.reward) <= 1e-9 * max(abs(curve.scale.high), abs(curve.scale.low), 1e-300)
    if height > _NEAR_TOP and not flat:
        text = f"the last fifth stands at {height:.0%} of the scale: little is left to learn ({curve.scale.text})"
        also = f"or below, and at most {_NEAR_TOP:.0%} of the scale"
        return Finding("stalled", 0.0, (Evidence("gain", window, change, 2 * error, text, 0.0, also),))
    if not flat and change <= 2 * error and change + error > least * room:
        why = f"a gain of {least:.0%} of the room would be lost in the noise: whether it stalls cannot be judged"
        return Finding("stalled", None, missing=why)
    score = 2.0 if flat else min(2 * error / max(change, 1e-300), 2.0)
    text = f"from first to last fifth {change:+.2g}, to the best fifth {best:+.2g}, where {room:.2g} was left to gain"
    also = "or below: twice the error"
    return Finding("stalled", score, (Evidence("gain", window, change, 2 * error, text, score, also),))


def collapsed(curve: Curve, settings: DiagnoseSettings, wave: "Oscillation | None" = None) -> Finding:
    """The fall from the best to the end, or a deep fall before that was not made good.

    The second is remembered after a partial recovery: at least four fifths of the climb (or of half the height) were
    lost, and less than half of that was regained. The trough of a `wave` is no collapse.
    """
    if curve.reward.size < FEWEST:
        return Finding("collapsed", None, missing=f"fewer than {FEWEST} rewards: a collapse cannot be judged")
    fall = collapse(curve.step, curve.reward, settings, wave, curve.scale.bottom)
    found = [replace(fall, metric="collapse")]
    if wave is None:
        found.append(_deepest(curve, settings))
    return Finding("collapsed", max(one.score for one in found), tuple(found))


def _deepest(curve: Curve, settings: DiagnoseSettings) -> Evidence:
    """The fall that lost most of what had been gained, with what came back of it."""
    step, reward = curve.step, curve.reward - curve.scale.bottom
    width = int(np.clip(reward.size // 20, 3, 20))
    means = np.convolve(reward, np.ones(width) / width, mode="valid")
    place = np.arange(means.size)
    peak = np.maximum.accumulate(means)
    at = np.maximum.accumulate(np.where(means >= peak, place, 0))
    climb = peak - np.minimum.accumulate(means)[at]
    basis = np.maximum(np.maximum(climb, 0.5 * np.abs(peak)), 1e-300)
    lost = (peak - means) / basis
    lost[place - at < width] = 0.0  # means that share points
    low = int(lost.argmax())
    fall = float(peak[low] - means[low])
    noise = max(noise_level(reward), 1e-6 * float(basis[low]))
    z = fall / (noise * np.sqrt(2 / width))
    back = float(means[low:].max() - means[low]) / max(fall, 1e-300)
    score = min(float(lost[low]) / _DEEP, z / settings.collapse_z)
    score = min(score, 0.99) if back >= _REGAINED else score
    text = (
        f"the running mean of {width} points fell from {peak[low] + curve.scale.bottom:.3g} to "
        f"{means[low] + curve.scale.bottom:.3g} ({z:.1f} standard errors) and regained {back:.0%} of it"
    )
    also = f"and {settings.collapse_z:g} standard errors, and less than {_REGAINED:.0%} regained"
    window = (float(step[at[low] + width // 2]), float(step[min(low + width - 1, step.size - 1)]))
    return Evidence("deepest_fall", window, float(lost[low]), _DEEP, text, float(score), also)

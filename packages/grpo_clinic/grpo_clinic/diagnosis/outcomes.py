"""What became of a run, whatever the cause: `stalled`, no gain where there was room, and `collapsed`, a fall that was
not made good. Both are told from the reward alone.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_clinic.diagnosis import chance
from grpo_clinic.diagnosis.collapse import collapse
from grpo_clinic.diagnosis.coupling import TRUE_PART
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Evidence, Finding
from grpo_clinic.diagnosis.excursions import noise_level
from grpo_clinic.readers.record import Curve, Floats, RewardScale, Series

if TYPE_CHECKING:
    from grpo_clinic.diagnosis.oscillation import Oscillation

FEWEST = 8
_FEWEST_IN_FIFTHS = 10  # two rewards in each
"""Rewards from which a fall or a standstill is judged."""
_NEAR_TOP = 0.85
"""Share of the reward's scale above which there is little left to learn."""
_FULL = 0.75
"""Share of the scale from which a standstill asks for harder prompts, and for no other setting."""
_ROOM = 0.2
"""Share of the room above the first rewards that a gain within the error must not fill: else noise hides it."""
CLEAR, _HINTED = 2.0, 1.25
"""Errors from which a gain shows, and from which the first few rewards hint at one that they are too few to show."""
_SLOW = 0.05
"""Share of the room that a whole run must not gain, error included, to be called too slow."""
_HIGH = 0.5
"""Share of the scale above which a run has as a rule gained something, seen or not."""
_QUICK = 0.25
"""Share of the first fifth that counts as the first few rewards."""
_THREE, _NOTHING_LEFT = 3, 0.1
"""Rewards from which a fall to this share of the best is a collapse."""
_ROUNDING = 1e-9
"""Share of the range that is no fall."""
_DEEP, _REGAINED = 0.8, 0.5
"""Share of the climb lost in a fall that is remembered, and share of that fall whose recovery makes it good."""


class Gain(NamedTuple):
    """What the last fifth stands above the run's beginning, read off its first `widths` [k] rewards: `change` and
    `error` [k, reward]; the first is a fifth of the run."""

    widths: np.ndarray
    change: Floats
    error: Floats

    @property
    def clearest(self) -> int:
        """The beginning that the end stands above most clearly."""
        return int(np.argmax(self.change / np.maximum(self.error, 1e-300)))

    @property
    def shows(self) -> bool:
        """Whether there is a gain beyond doubt."""
        return bool(np.any(self.change > CLEAR * self.error))

    def start(self, at: int) -> str:
        """Which beginning that is, in words."""
        return "fifth" if at == 0 else "reward" if self.widths[at] == 1 else f"{self.widths[at]} rewards"

    def hinted(self, least: float) -> bool:
        """Whether the first few rewards stand so low, by `least` or more, that a quick rise may be over before the
        first fifth is."""
        quick = self.widths <= _QUICK * self.widths[0]
        return bool(np.any(self.change[quick] > np.maximum(_HINTED * self.error[quick], least)))

    def open(self, least: float) -> bool:
        """Whether a quick gain of `least` or more fits the first few rewards."""
        quick = self.widths <= _QUICK * self.widths[0]
        return bool(np.any(self.change[quick] + self.error[quick] > least))


def gain_of(reward: Floats) -> Gain:
    """The gain of a run of rewards [n], n >= 10, measured from its start value.

    A quick rise is over long before a fifth of the run is. So the beginning is the first fifth, its half, and so on
    down to the first reward. The error is twice that of white noise, since rewards are more alike than that.
    """
    part = reward.size // 5
    reward = reward - reward[0]
    first, last = reward[:part], reward[-part:]
    noise = min(noise_level(reward), float(np.sqrt(0.5 * (first.var(ddof=1) + last.var(ddof=1)))))
    widths = part >> np.arange(part.bit_length())
    change = last.mean() - np.cumsum(first)[widths - 1] / widths
    return Gain(widths, change, 2 * noise * np.sqrt(1 / widths + 1 / part))


def stalled(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None, least: float = _ROOM) -> Finding:
    """The reward of the last fifth against the run's beginning: what was gained and lost again is no gain, nor is what
    leaves all but a twentieth of the room.

    Where a gain of `least` of the room above the first rewards, or more, could hide in the error, nothing is judged.
    Nor where the first few rewards hint at a rise that was over at once; nor, in the upper half of the scale, where a
    rise brought most runs, as long as they leave one open.
    """
    part = curve.reward.size // 5
    if curve.reward.size < _FEWEST_IN_FIFTHS:
        missing = f"fewer than {_FEWEST_IN_FIFTHS} rewards: whether it stalls cannot be judged"
        return Finding("stalled", None, missing=missing)
    gain = gain_of(curve.reward)
    at = gain.clearest if gain.shows else 0
    change, error = float(gain.change[at]), float(gain.error[at])
    window = (float(curve.step[0]), float(curve.step[-1]))
    start = float(curve.reward[: gain.widths[at]].mean())
    best = float(np.convolve(curve.reward - start, np.ones(part) / part, mode="valid").max())
    height = (float(curve.reward[-part:].mean()) - curve.scale.low) / max(curve.scale.high - curve.scale.low, 1e-12)
    room = max(curve.scale.high - start, 1e-12)
    flat = np.ptp(curve.reward) <= 1e-9 * max(abs(curve.scale.high), abs(curve.scale.low), 1e-300)
    reach = _room(curve, start)
    slow = min(_SLOW * reach / (change + error), 2.0) if gain.shows and reach else 0.0
    by_itself = not curve.scale.given and (curve.scale.low, curve.scale.high) != (0, 1)
    if height > _NEAR_TOP and not flat and not (by_itself and slow >= 1):
        text = f"the last fifth stands at {height:.0%} of the scale: little is left to learn ({curve.scale.text})"
        also = f"or below, and at most {_NEAR_TOP:.0%} of the scale"
        return Finding("stalled", 0.0, (Evidence("gain", window, change, CLEAR * error, text, 0.0, also),))
    if not flat and not gain.shows:
        if gain.hinted(least * room) or (height > _HIGH and gain.open(least * room)):
            why = "the first few rewards are too few to tell a quick rise from noise"
            return Finding("stalled", None, missing=f"{why}: whether it stalls cannot be judged")
        if change + error > least * room:
            why = f"a gain of {least:.0%} of the room would be lost in the noise: whether it stalls cannot be judged"
            return Finding("stalled", None, missing=why)
    score = 2.0 if flat else max(min(CLEAR * error / max(change, 1e-300), 2.0), slow)
    best = best if abs(best) > _ROUNDING * np.ptp(curve.reward) else 0.0
    text = f"from the first {gain.start(at)} to the last fifth {change:+.2g}, to the best fifth {best:+.2g}"
    text += "" if flat else f", where {room:.2g} was left to gain"
    advice = ""
    if height > _FULL and (curve.known_range or (curve.scale.low, curve.scale.high) == (0, 1)):
        text += f"; it stands at {height:.0%}, near the top of the scale"
        advice = "What is left is small: take harder prompts, or stop here. No setting needs a change."
    if gain.shows and score >= 1:
        text += (
            f"; with its error it is at most {(change + error) / reach:.1%} of what is left up to {start + reach:.3g}"
        )
    also = "or below: twice the error"
    evidence = Evidence("gain", window, change, CLEAR * error, text, score, also)
    return Finding("stalled", score, (evidence,), advice=advice)


def _room(curve: Curve, start: float) -> float:
    """What is left above `start` up to the largest reward; 0 where that is not known."""
    known = curve.known_range or ((0.0, 1.0) if _is_share(curve) else None)
    return max(known[1] - start, 0.0) if known else 0.0


def _is_share(curve: Curve) -> bool:
    """Whether the reward goes from 0 to 1: it is estimated so, or it is, step by step, a part whose name says so."""
    if (curve.scale.low, curve.scale.high) == (0, 1):
        return True
    parts = (part for key, part in curve.parts.items() if TRUE_PART.search(key))
    return any(np.array_equal(part.at(curve.step), curve.reward) and part.value.max() <= 1 for part in parts)


def collapsed(curve: Curve, settings: DiagnoseSettings, wave: "Oscillation | None" = None) -> Finding:
    """The fall from the best to the end, or a deep fall before that was not made good.

    The second is remembered after a partial recovery: at least four fifths of the climb (or of half the height) were
    lost, and less than half of that was regained. The trough of a `wave` is no collapse. A held-out result that falls
    as much, and the reward with it, is one, too: it is less noisy than the reward of a batch.
    """
    if curve.reward.size < FEWEST:
        return _lost_in_few_rows(curve)
    fall = collapse(curve.step, curve.reward, settings, wave, curve.scale.bottom)
    found = [replace(fall, metric="collapse")]
    if wave is None:
        found.append(_deepest(curve, settings))
    if curve.eval is not None and curve.eval.value.size >= FEWEST and not curve.reward_is_eval:
        found.append(_held_out(curve, curve.eval, settings))
    return Finding("collapsed", max(one.score for one in found), tuple(found))


def _held_out(curve: Curve, series: Series, settings: DiagnoseSettings) -> Evidence:
    """The same fall of the held-out result. Where the training reward does not fall with it, that is no collapse."""
    scale = curve.scale if curve.scale.given else RewardScale.estimated(series.value)
    lost = collapse(series.step, series.value, settings, bottom=scale.bottom)
    text, since = f"the held-out '{series.key}' {lost.text}", curve.reward[curve.step >= lost.window[0]]
    part = max(since.size // 5, 1)
    if lost.score >= 1 and not since[-part:].mean() < since[:part].mean():
        lost, text = replace(lost, score=0.99), f"{text}; the training reward did not fall with it"
    return replace(lost, metric="held_out_collapse", text=text)


def _lost_in_few_rows(curve: Curve) -> Finding:
    """A fall that so few rewards prove: all but a tenth of the best is gone in the last two of three or more."""
    best, last = int(curve.reward.argmax()), float(curve.reward[-2:].max())
    if curve.reward.size < _THREE or curve.reward[best] <= 0 or not 0 <= last <= _NOTHING_LEFT * curve.reward[best]:
        return Finding("collapsed", None, missing=f"fewer than {FEWEST} rewards: a collapse cannot be judged")
    lost, window = float(1 - last / curve.reward[best]), (float(curve.step[best]), float(curve.step[-1]))
    text = f"the reward fell from {curve.reward[best]:.3g} to {last:.3g} in {curve.reward.size - 1 - best} rows"
    return Finding("collapsed", 1.0, (Evidence("collapse", window, lost, 1 - _NOTHING_LEFT, text, 1.0),))


def _drops(noise: Floats, width: int) -> Floats:
    """The largest fall of the running mean of every series of noise [some, n]."""
    means = chance.running_means(noise, width)
    return np.asarray((np.maximum.accumulate(means, axis=-1) - means).max(axis=-1))


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
    fall = fall if fall > _ROUNDING * float(np.ptp(reward)) else 0.0
    noise = max(noise_level(reward), 1e-6 * float(basis[low]))
    z = fall / (noise * np.sqrt(2 / width))
    back = float(means[low:].max() - means[low]) / fall if fall else 0.0
    score = min(float(lost[low]) / _DEEP, z / settings.collapse_z)
    score = min(score, 0.99) if back >= _REGAINED else score
    text = (
        f"the running mean of {width} points fell from {peak[low] + curve.scale.bottom:.3g} to "
        f"{means[low] + curve.scale.bottom:.3g} ({z:.1f} standard errors) and regained {back:.0%} of it"
        if fall
        else f"the running mean of {width} points never fell"
    )
    if score >= 1:
        drawn = chance.noise_alone(reward, settings.seed)
        p = chance.p_value(_drops(one, width) >= fall for one in drawn)
        score = chance.judged(score, p, settings.false_alarm)
        text += f"; p = {p:.2g} against its noise alone"
    also = f"and {settings.collapse_z:g} standard errors, and less than {_REGAINED:.0%} regained"
    window = (float(step[at[low] + width // 2]), float(step[min(low + width - 1, step.size - 1)]))
    return Evidence("deepest_fall", window, float(lost[low]), _DEEP, text, float(score), also)

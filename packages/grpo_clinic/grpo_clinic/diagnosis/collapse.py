"""Collapse: the reward falls from its best and does not come back, or ends in what is no number. The trough of a wave
is no collapse.
"""

from typing import TYPE_CHECKING

import numpy as np

from grpo_clinic.diagnosis import chance
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Evidence
from grpo_clinic.diagnosis.excursions import noise_level
from grpo_clinic.readers.record import Curve, Floats

if TYPE_CHECKING:
    from grpo_clinic.diagnosis.oscillation import Oscillation

_FEWEST = 3
"""Rows without a number at the end that mean divergence, where there were none before."""
_ROUNDING = 1e-9
"""Share of the height that is no fall."""
_ALONE = 0.25
"""Share that is lost without the lowest of the last rewards as well: one row is no collapse."""
_SHORT = 24
"""Rewards below which the last two of them may be the end: three of eight would hold what came before the fall."""


def nonfinite(curve: Curve) -> Evidence | None:
    """Rewards that are missing or not finite, told from those at the end; None where there are none.

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
    also = "rows at the end of the log"
    return Evidence("nonfinite", window, float(last), float(least), text, last / least, also)


def collapse(
    step: Floats, reward: Floats, settings: DiagnoseSettings, wave: "Oscillation | None" = None, bottom: float = 0.0
) -> Evidence:
    """A fall from the best running mean to the last points, with the step at which it set in.

    The peak is a running mean over a tenth of the points (3 to 20), the end a mean over the last 3, a twentieth and a
    tenth of them: a late collapse must not be averaged away. The fall counts against the climb before it, or half the
    height above `bottom` (`RewardScale.bottom`) where there was no climb, against its error from point-to-point
    noise, and against the falls of noise alone (`chance`).

    With a `wave` that was found, all means are over whole periods, which takes it out: a fall much shorter than a
    period cannot be told from a trough. The fall of the mean counts against the swing as well.
    """
    reward = reward - bottom
    width = int(np.clip(reward.size // 10, 3, 20))
    lasts = {2 if reward.size < _SHORT else 3, max(3, reward.size // 20), width}
    if wave is not None:
        period = wave.period / float(np.median(np.diff(step)))
        width, lasts = _whole(width, period), {_whole(last, period) for last in lasts}
    means = np.convolve(reward, np.ones(width) / width, mode="valid")
    peak = int(means.argmax())
    bases = {
        "its climb": float(means[peak] - means[: peak + 1].min()),
        "half its height": 0.5 * abs(float(means[peak])),
        "its swing": 0.0 if wave is None else wave.height,
    }
    basis = max(bases, key=lambda name: bases[name])
    size = max(bases[basis], 1e-300)
    noise = max(noise_level(reward), 1e-6 * size, 1e-300)
    best, share, z, end = -np.inf, 0.0, 0.0, width
    for last in sorted(lasts):
        fall = float(means[peak] - reward[-last:].mean())
        fall = fall if abs(fall) > _ROUNDING * size else 0.0
        here = (fall / size, fall / (noise * np.sqrt(1 / width + 1 / last)))
        others = float(means[peak] - np.sort(reward[-last:])[1:].mean()) / size
        score = min(here[0] / settings.collapse_share, here[1] / settings.collapse_z, others / _ALONE)
        if score > best:
            best, (share, z), end = score, here, last
    onset = _onset(step, means, peak, width)
    text = f"fell by {max(share, 0):.0%} of {basis} ({max(z, 0):.1f} standard errors)"
    text += "" if wave is None else f", by means over whole periods of {wave.period:.3g} steps"
    if best >= 1:
        drawn = chance.noise_alone(reward, settings.seed)
        p = chance.p_value(_falls(one, width, end) >= share * size for one in drawn)
        best = chance.judged(best, p, settings.false_alarm)
        text += f", setting in at step {onset:g}; p = {p:.2g} against its noise alone"
    window, also = (onset, float(step[-1])), f"and {settings.collapse_z:g} standard errors"
    return Evidence("fall", window, float(share), settings.collapse_share, text, max(float(best), 0.0), also)


def _falls(noise: Floats, width: int, last: int) -> Floats:
    """From the best running mean to the end, of every series of noise [some, n]."""
    return np.asarray(chance.running_means(noise, width).max(axis=-1) - noise[:, -last:].mean(axis=-1))


def _whole(points: int, period: float) -> int:
    """The smallest number of whole periods that holds so many points."""
    return round(float(np.ceil(points / period)) * period)


def _onset(step: Floats, means: Floats, peak: int, width: int) -> float:
    """The last step at which the running mean still stood within a fifth of the fall from its peak."""
    level = means[peak] - 0.2 * (means[peak] - means[-1])
    high = np.flatnonzero(means >= level)
    return float(step[min(int(high[-1]) + width // 2, step.size - 1)])

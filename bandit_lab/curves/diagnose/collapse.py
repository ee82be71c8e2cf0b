"""Collapse: the reward falls from its best and does not come back. The trough of a wave is none."""

import numpy as np

from bandit_lab.curves.diagnose.evidence import DiagnoseSettings, Evidence
from bandit_lab.curves.diagnose.oscillation import Oscillation
from bandit_lab.curves.diagnose.swings import noise_level
from bandit_lab.curves.record import Floats

_ROUNDING = 1e-9
"""Share of the height that is no fall."""


def collapse(
    step: Floats, reward: Floats, settings: DiagnoseSettings, wave: Oscillation | None = None, bottom: float = 0.0
) -> tuple[float, Evidence]:
    """(score, evidence) of a fall from the best running mean to the last points, with the step at which it set in.

    The peak is a running mean over a tenth of the points (3 to 20), the end a mean over the last 3, a twentieth and a
    tenth of them: a late collapse must not be averaged away. The fall counts against the climb before it, or half the
    height above `bottom` (`RewardScale.bottom`) where there was no climb, and against its error from point-to-point
    noise.

    With a `wave` that was found, all means are over whole periods, which takes it out: a fall much shorter than a
    period cannot be told from a trough. The fall of the mean counts against the swing as well.
    """
    reward = reward - bottom
    width = int(np.clip(reward.size // 10, 3, 20))
    lasts = {3, max(3, reward.size // 20), width}
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
    best, share, z = -np.inf, 0.0, 0.0
    for last in sorted(lasts):
        fall = float(means[peak] - reward[-last:].mean())
        fall = fall if abs(fall) > _ROUNDING * size else 0.0
        here = (fall / size, fall / (noise * np.sqrt(1 / width + 1 / last)))
        score = min(here[0] / settings.collapse_share, here[1] / settings.collapse_z)
        if score > best:
            best, (share, z) = score, here
    onset = _onset(step, means, peak, width)
    text = f"fell by {max(share, 0):.0%} of {basis} ({max(z, 0):.1f} standard errors)"
    text += "" if wave is None else f", by means over whole periods of {wave.period:.3g} steps"
    text += f", setting in at step {onset:g}" if best >= 1 else ""
    return max(float(best), 0.0), Evidence(
        "fall", (onset, float(step[-1])), float(share), settings.collapse_share, text
    )


def _whole(points: int, period: float) -> int:
    """The smallest number of whole periods that holds so many points."""
    return round(float(np.ceil(points / period)) * period)


def _onset(step: Floats, means: Floats, peak: int, width: int) -> float:
    """The last step at which the running mean still stood within a fifth of the fall from its peak."""
    level = means[peak] - 0.2 * (means[peak] - means[-1])
    high = np.flatnonzero(means >= level)
    return float(step[min(int(high[-1]) + width // 2, step.size - 1)])

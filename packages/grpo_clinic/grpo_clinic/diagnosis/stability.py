"""Dynamical instability: sustained oscillation or swings, growing fluctuations, or a collapse, each by its own test."""

import numpy as np
from scipy import special

from grpo_clinic.diagnosis import chance
from grpo_clinic.diagnosis.collapse import collapse, nonfinite
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Evidence, Finding
from grpo_clinic.diagnosis.excursions import BELOW, DIED_DOWN, swinging
from grpo_clinic.diagnosis.oscillation import Oscillation, oscillation_test
from grpo_clinic.readers.record import Curve, Floats

_FEWEST, _FEWEST_FOR_FALLS = 24, 8
"""Rewards that waves, swings and growing fluctuations take at least; and any judgement of stability."""
_GROWN = 4.0
"""Ratio of variances from which fluctuations count as grown."""
_GOES_ON = 0.5
"""Share of its early height that a wave has at the end, if it goes on."""


def judge(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    """All four tests, and rewards that are no numbers; the strongest decides. Below 24 points no waves are judged."""
    if curve.reward.size < _FEWEST_FOR_FALLS:
        return Finding(
            "dynamical_instability", None, missing=f"fewer than {_FEWEST_FOR_FALLS} rewards: stability cannot be judged"
        )
    found: list[Evidence] = []
    missing, wave = "", None
    lost = nonfinite(curve)
    found += [lost] if lost else []
    if curve.reward.size >= _FEWEST:
        test = _tested(curve, settings)
        wave = wave_of(curve, settings)
        found += [_oscillating(curve, test, settings), swinging(curve, settings), growth(curve.step, test, settings)]
    else:
        missing = f"fewer than {_FEWEST} rewards: oscillation, swings and growth of fluctuations cannot be judged"
    found.insert(0, collapse(curve.step, curve.reward, settings, wave, curve.scale.bottom))
    remark = next((_died_down(one) for one in found if DIED_DOWN in one.text), "")
    return Finding("dynamical_instability", max(one.score for one in found), tuple(found), missing, remark)


def _died_down(swings: Evidence) -> str:
    return f"the reward swung and recovered, and the swings died down: no instability ({swings.text})"


_LAST: list[tuple[Curve, DiagnoseSettings, Oscillation]] = []
"""The last test: instability and collapse both ask for it, and it takes most of the time of a diagnosis."""


def _tested(curve: Curve, settings: DiagnoseSettings) -> Oscillation:
    if not (_LAST and _LAST[0][0] is curve and _LAST[0][1] is settings):
        test = oscillation_test(curve.step, curve.reward, settings.surrogates, settings.seed)
        _LAST[:] = [(curve, settings, test)]
    return _LAST[0][2]


def wave_of(curve: Curve, settings: DiagnoseSettings) -> Oscillation | None:
    """The regular wave in a curve, if there is one; None below 24 points."""
    if curve.reward.size < _FEWEST:
        return None
    test = _tested(curve, settings)
    return test if wave_score(curve, test, settings) >= 1 else None


def wave_score(curve: Curve, test: Oscillation, settings: DiagnoseSettings) -> float:
    """Score of a regular wave, 1 and more: found. It must be larger than noise, and large: a wave that is significant
    because the log is long, but small beside the span of the curve, is no instability; nor is one that dies down."""
    score = float(min(settings.false_alarm / test.p_value, test.height / _span(curve) / settings.wave_share))
    return score if test.late >= _GOES_ON else min(score, BELOW)


def _oscillating(curve: Curve, test: Oscillation, settings: DiagnoseSettings) -> Evidence:
    score = wave_score(curve, test, settings)
    text = "no peak in the spectrum at periods from five rows of the log to a sixth of it"
    if np.isfinite(test.period):
        text = (
            f"spectral peak at a period of {test.period:.3g} steps holding {test.share:.0%} of the residual variance "
            f"({test.height:.2g} from peak to peak, {test.height / _span(curve):.0%} of the curve's span), "
            f"p = {test.p_value:.3g} against {test.law} with autocorrelated noise"
        )
        text += f"; {DIED_DOWN}" if score == BELOW else ""
    window = (float(curve.step[0]), float(curve.step[-1]))
    also = f"or below, and {settings.wave_share:.0%} of the span from peak to peak, and going on"
    return Evidence("oscillation_p", window, test.p_value, settings.false_alarm, text, score, also)


def _span(curve: Curve) -> float:
    """What the running mean over a tenth of the points spans, at least a third of the reward's scale."""
    width = max(curve.reward.size // 10, 3)
    means = np.convolve(curve.reward - curve.reward[0], np.ones(width) / width, mode="valid")
    return max(float(np.ptp(means)), (curve.scale.high - curve.scale.low) / 3, 1e-300)


def growth(step: Floats, test: Oscillation, settings: DiagnoseSettings) -> Evidence:
    """Larger fluctuations in the last third than in the middle third, by an F test and by the same residuals in
    random order.

    The F test's degrees of freedom are cut by (1 - rho^2)/(1 + rho^2) for autocorrelation; random order holds for
    skewed noise, too. The score needs a variance ratio of `_GROWN` as well: a significant but small growth is no
    instability.
    """
    n = test.residual.size
    middle, late = test.residual[n // 3 : 2 * n // 3], test.residual[2 * n // 3 :]
    ratio = float(np.sum(late**2) / late.size / max(float(np.sum(middle**2)) / middle.size, 1e-300))
    shrink = (1 - test.rho**2) / (1 + test.rho**2)
    p = float(special.fdtrc(max(late.size * shrink, 2), max(middle.size * shrink, 2), ratio))
    score = min(settings.false_alarm / max(p, 1e-12), ratio / _GROWN)
    if score >= 1:
        shuffled = _shuffled(np.concatenate((middle, late)), middle.size, settings.seed)
        by_order = chance.p_value(iter([shuffled >= ratio]))
        score, p = chance.judged(score, by_order, settings.false_alarm), max(p, by_order)
    text = f"residual variance of the last third over the middle third: {ratio:.3g}, p = {p:.2g}"
    window, also = (float(step[2 * n // 3]), float(step[-1])), f"and p of at most {settings.false_alarm:g}"
    return Evidence("variance_growth", window, ratio, _GROWN, text, score, also)


def _shuffled(residual: Floats, middle: int, seed: int) -> Floats:
    """Variance ratios of residuals [n] in random order [draws], the first `middle` of them below the rest."""
    rng = np.random.default_rng([seed, residual.size])
    drawn = (rng.permutation(residual) ** 2 for _ in range(chance.DRAWS))
    return np.array([one[middle:].mean() / max(float(one[:middle].mean()), 1e-300) for one in drawn])

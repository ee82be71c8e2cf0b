"""Plumbing: what no setting of the training mends, told from what cannot happen in a run that is wired as it should be.

- At learning rate 0 nothing can be unlearned: a reward that falls all the same comes from the engine or the checker.
  One that rises there was learned, at a rate that the log rounds to 0.
- Groups whose rewards differ have a gradient: where it is zero at every step, nothing is trained.
- The mean of log pi / pi_ref over the policy's own answers is a KL divergence, never below zero by more than engine
  and trainer lie apart. A mean that runs far below while nothing is learned is minimised instead of penalised.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from grpo_clinic.diagnosis.evidence import PLUMBING, Evidence, Finding
from grpo_clinic.diagnosis.mismatch import DISTANCE
from grpo_clinic.diagnosis.outcomes import CLEAR, gain_of
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Curve, Series

_FEWEST, _LONGEST = 10, 40
"""Rewards from which a fall is judged, and up to which a run counts as a control run, which takes twenty."""
_ADVICE = (
    "Change no setting of the training, which did not move here. Mend the engine, the weights that it is given, or the "
    "checker."
)
_MOST = 0.9
"""Share of the steps at which groups must differ."""


def is_control(curve: Curve) -> bool:
    """Whether the learning rate is logged, to the precision of the log, as zero at every step."""
    rate = curve.series.get("lr")
    return rate is not None and rate.value.size >= _FEWEST and not np.any(rate.value)


def is_short_control(curve: Curve) -> bool:
    """The same, and no longer than a control run: in a long log the rate is rounded, as it is where a gain shows."""
    return is_control(curve) and _FEWEST <= curve.reward.size <= _LONGEST and not gain_of(curve.reward).shows


class Held(NamedTuple):
    """What a quantity must do at learning rate 0, in words, and whether a series does."""

    must: str
    holds: Callable[[Series], bool]


def _level(series: Series) -> bool:
    """Whether the last fifth stands where the first does, within its error."""
    if series.value.size < _FEWEST:
        return True
    gain = gain_of(series.value)
    return bool(abs(gain.change[0]) <= 2 * CLEAR * max(float(gain.error[0]), 1e-12))


def _below(limit: float) -> Callable[[Series], bool]:
    return lambda series: bool(median(np.abs(series.value)) <= limit)


CONTROL_DISTANCE, CONTROL_RATIO = 0.1, 1.1
"""Nats per token, and mean ratio, that rounding alone may give engine and trainer of one policy: trainers warn at the
first, and public runs that learn stay below .11."""
HELD: dict[str, Held] = {
    "entropy": Held("stay near {start:.3g}, where this run began", _level),
    "length": Held("stay near {start:.3g}, where this run began", _level),
    "truncation": Held("stay near {start:.3g}, where this run began", _level),
    "kl": Held("stay at 0: the policy is its own reference", _below(0.01)),
    "clip_frac": Held("stay at 0: no ratio leaves 1", _below(0.001)),
    "grad_norm": Held(
        "be finite, and above 0 wherever the rewards of a group differ", lambda series: bool(median(series.value) > 0)
    ),
    "mismatch": Held(f"stay level, below {CONTROL_DISTANCE:g} nats per token", _below(CONTROL_DISTANCE)),
    "importance_ratio": Held(
        f"stay level, between {1 / CONTROL_RATIO:.2g} and {CONTROL_RATIO:g}",
        lambda series: bool(1 / CONTROL_RATIO <= median(series.value) <= CONTROL_RATIO),
    ),
}
"""What a control run must show, by quantity."""
_EITHER = ("mismatch", "importance_ratio")


def not_in_order(curve: Curve) -> tuple[str, ...]:
    """Why a control run gives no all-clear: what its log shows otherwise, and what it does not hold."""
    wrong = [
        f"'{one.key}' stands at {median(one.value):.3g} and must {held.must.format(start=one.value[:5].mean())}"
        for name, held in HELD.items()
        if (one := curve.series.get(name)) is not None and not held.holds(one)
    ]
    lacking = [name for name in HELD if name not in curve.series and name not in _EITHER]
    lacking += ["log-probabilities of engine and trainer"] if not set(_EITHER) & set(curve.series) else []
    missing = f"not logged: {', '.join(lacking).replace('_', ' ')}" if lacking else ""
    return (*wrong, *([missing] if missing else []))


def judge(curve: Curve) -> Finding | None:
    """What is impossible; None where none of it can be asked of this log."""
    found = [one for one in (_fell(curve), _without_gradient(curve), _below_zero(curve)) if one is not None]
    advice = _ADVICE if any(one.above and one.metric == "fall_at_rate_0" for one in found) else ""
    return Finding(PLUMBING, max(one.score for one in found), tuple(found), advice=advice) if found else None


def _fell(curve: Curve) -> Evidence | None:
    """The fall of the reward in a control run, over twice its error."""
    if not is_control(curve) or curve.reward.size < _FEWEST:
        return None
    gain = gain_of(curve.reward)
    change, error = float(gain.change[0]), float(gain.error[0])
    text = f"the learning rate is 0 throughout, if the log does not round it; the reward moved by {change:+.2g}"
    text += f", error {error:.2g}"
    score = min(max(-change, 0.0) / max(CLEAR * error, 1e-12), 1e3)
    return Evidence("fall_at_rate_0", _window(curve.reward_series), max(-change, 0.0), CLEAR * error, text, score)


def _without_gradient(curve: Curve) -> Evidence | None:
    """Share of the steps without a gradient, where groups differ."""
    norm, silent, spread = (curve.series.get(name) for name in ("grad_norm", "zero_std_frac", "reward_std"))
    if norm is None or norm.value.size < _FEWEST or is_control(curve):
        return None
    there = silent.at(norm.step) < 1 if silent is not None else spread.at(norm.step) > 0 if spread is not None else None
    if there is None or there.mean() < _MOST:
        return None
    share = float(np.mean(norm.value[there] == 0))
    text = f"'{norm.key}' is zero at {share:.0%} of the steps at which rewards differ"
    text += ": nothing is trained" if share == 1 else ""
    return Evidence("without_gradient", _window(norm), share, 1.0, text, share)


def _below_zero(curve: Curve) -> Evidence | None:
    """The median KL of the last fifth, where it is below zero and nothing shows a gain."""
    kl = curve.series.get("kl")
    if kl is None or kl.value.size < _FEWEST or curve.reward.size < _FEWEST:
        return None
    late = -median(kl.value[-(kl.value.size // 5) :])
    if late <= 0 or gain_of(curve.reward).shows:
        return None
    text = f"'{kl.key}' stands at {-late:.3g} over the last fifth, which no mean over the policy's own answers does"
    return Evidence("kl_below_zero", _window(kl), late, DISTANCE, text, late / DISTANCE, "below zero, without a gain")


def _window(series: Series) -> tuple[float, float]:
    return float(series.step[0]), float(series.step[-1])

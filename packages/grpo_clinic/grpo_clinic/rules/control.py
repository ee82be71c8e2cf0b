"""A control run, at learning rate 0: nothing can be learned, so what its recipe names must stay in order."""

from collections.abc import Callable, Mapping

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Curve, Series
from grpo_clinic.rules.base import Case, Fact, Rule, register_rule

_FEWEST, _LONGEST = 10, 40
_Must = tuple[str, Callable[[Series], bool]]
"""What a quantity must do at learning rate 0, in words, and whether a series does."""


def _level(series: Series) -> bool:
    if series.value.size < _FEWEST:
        return True
    gain = noise.gain_of(series.value)
    return bool(abs(gain.change[0]) <= 4 * max(float(gain.error[0]), 1e-12))


def _below(limit: float) -> Callable[[Series], bool]:
    return lambda series: bool(median(np.abs(series.value)) <= limit)


_RECIPE: Mapping[str, _Must] = {
    "entropy": ("stay level", _level),
    "length": ("stay level", _level),
    "truncation": ("stay level", _level),
    "kl": ("stay at 0: the policy is its own reference", _below(0.01)),
    "clip_frac": ("stay at 0: no ratio leaves 1", _below(0.001)),
    "grad_norm": ("be above 0 wherever rewards of a group differ", lambda series: bool(median(series.value) > 0)),
}
"""What a control run must log and show, by quantity; and one of `_ENGINE`."""
_ENGINE: Mapping[str, _Must] = {
    "engine_kl": ("stay below .1 nats per token", _below(0.1)),
    "engine_abs": ("stay below .1 nats per token", _below(0.1)),
    "importance_ratio": ("stay within a twentieth of 1", lambda one: bool(abs(median(one.value) - 1) <= 0.05)),
}


def _at_rate_zero(curve: Curve) -> bool:
    """Whether the learning rate is logged as zero at every step."""
    rate = curve.series.get("lr")
    return rate is not None and rate.value.size >= _FEWEST and not rate.value.any()


def not_in_order(case: Case) -> tuple[str, ...] | None:
    """Why a control run gives no all-clear: what its log shows otherwise, and what it does not hold. None: it is none.

    In a long log a rate of 0 is rounded, as it is where a gain shows.
    """
    curve = case.curve
    if not _at_rate_zero(curve) or not _FEWEST <= curve.reward.size <= _LONGEST or case.gain.shows:
        return None
    wrong = [
        f"'{one.key}' stands at {median(one.value):.3g} and must {text}"
        for name, (text, holds) in {**_RECIPE, **_ENGINE}.items()
        if (one := curve.series.get(name)) is not None and not holds(one)
    ]
    lacking = [name.replace("_", " ") for name in _RECIPE if name not in curve.series]
    lacking += [] if _ENGINE.keys() & curve.series.keys() else ["log-probabilities of engine and trainer"]
    return (*wrong, *([f"not logged: {', '.join(lacking)}"] if lacking else []))


@register_rule(
    "falls_at_rate_zero",
    verdict="plumbing",
    needs=("lr", "reward"),
    rows=_FEWEST,
    limit=2.0,
    unit="errors of the change",
    formula="fall of the reward / its error, at learning rate 0",
    source="at rate 0 nothing is unlearned",
    proves="the engine or the checker changes, not the policy",
)
def falls_at_rate_zero(case: Case, rule: Rule) -> Fact | None:
    """The fall of the reward in a control run."""
    if not _at_rate_zero(case.curve):
        return None
    gain = case.gain
    change, error = float(gain.change[0]), max(float(gain.error[0]), 1e-12)
    text = f"the learning rate is 0 throughout; the reward moved by {change:+.2g}, error {error:.2g}"
    then = "Change no setting of the training. Mend the engine, the weights that it is given, or the checker."
    window = (float(case.curve.step[0]), float(case.curve.step[-1]))
    return Fact(min(max(-change, 0.0) / error / rule.limit, 1e3), change, window, case.reward.size, text, then)

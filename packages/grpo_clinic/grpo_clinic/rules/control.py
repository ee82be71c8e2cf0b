"""A control run, at learning rate 0: nothing can be learned, so what its recipe names must stay in order."""

from collections.abc import Callable, Mapping

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Floats
from grpo_clinic.rules.base import Case, Fact, Rule, register_rule, where

_FEWEST, _LONGEST = 10, 40


def _level(value: Floats) -> bool:
    gain = noise.gain_of(value) if value.size >= _FEWEST else None
    return gain is None or bool(abs(gain.change[0]) <= 4 * max(float(gain.error[0]), 1e-12))


_Must = Mapping[str, tuple[str, Callable[[Floats], bool]]]
_RECIPE: _Must = {
    "entropy": ("stay level", _level),
    "length": ("stay level", _level),
    "truncation": ("stay level", _level),
    "kl": ("stay at 0: the policy is its own reference", lambda value: median(np.abs(value)) <= 0.01),
    "clip_frac": ("stay at 0: no ratio leaves 1", lambda value: median(np.abs(value)) <= 0.001),
    "grad_norm": ("be above 0 wherever rewards of a group differ", lambda value: median(value) > 0),
}
"""What a control run must log and show, by quantity; and one of `_ENGINE`."""
_ENGINE: _Must = {
    "engine_kl": ("stay below .1 nats per token", lambda value: median(np.abs(value)) <= 0.1),
    "engine_abs": ("stay below .1 nats per token", lambda value: median(np.abs(value)) <= 0.1),
    "importance_ratio": ("stay within a twentieth of 1", lambda value: abs(median(value) - 1) <= 0.05),
}


def _at_rate_zero(case: Case) -> bool:
    return case.rows.get("lr", 0) >= _FEWEST and not case.series("lr").value.any()


def not_in_order(case: Case) -> tuple[str, ...] | None:
    """Why a control run gives no all-clear: what its log shows otherwise, and what it does not hold. None: it is none.

    In a long log a rate of 0 is rounded, as it is where a gain shows.
    """
    series = case.curve.series
    if not _at_rate_zero(case) or not _FEWEST <= case.reward.size <= _LONGEST or case.gain.shows:
        return None
    wrong = [
        f"'{series[role].key}' stands at {median(series[role].value):.3g} and must {text}"
        for role, (text, holds) in {**_RECIPE, **_ENGINE}.items()
        if role in series and not holds(series[role].value)
    ]
    lacking = [role.replace("_", " ") for role in _RECIPE if role not in series]
    lacking += [] if _ENGINE.keys() & series.keys() else ["log-probabilities of engine and trainer"]
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
def _falls_at_rate_zero(case: Case, rule: Rule) -> Fact | None:
    if not _at_rate_zero(case):
        return None
    change, error = float(case.gain.change[0]), max(float(case.gain.error[0]), 1e-12)
    text = f"the learning rate is 0 throughout; the reward moved by {change:+.2g}, error {error:.2g}"
    then = "Change no setting of the training. Mend the engine, the weights that it is given, or the checker."
    return Fact(min(max(-change, 0.0) / error / rule.limit, 1e3), change, *where(case.curve.reward_series), text, then)

"""A control run, at learning rate 0: nothing can be learned, so what its recipe names must stay in order."""

from collections.abc import Callable, Mapping

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Floats
from grpo_clinic.rules.base import Case, Fact, Rule, register_rule, where
from grpo_clinic.rules.engine import strongest

_FEWEST, _LONGEST = 10, 40
_SPREADS = 6.0
"""Spreads from the median that are no noise, of rows running."""


def _level(value: Floats) -> bool:
    """No gain or loss by four errors, and no three rows running far from the others."""
    if value.size < _FEWEST:
        return True
    usual, spread = noise.usual(value)
    far = noise.least_running(np.abs(value - usual)).max()
    change, error = _change(value)
    return bool(far <= _SPREADS * spread) and abs(change) <= 4 * error


def _change(value: Floats) -> tuple[float, float]:
    """From the first fifth to the last, and its error: of few rows the noise is the larger of two estimates."""
    gain, part = noise.gain_of(value), value.size // 5
    error = max(float(gain.error[0]), 2 * noise.noise_level(value) * float(np.sqrt(2 / part)), 1e-12)
    return float(gain.change[0]), error


_Must = Mapping[str, tuple[str, Callable[[Floats], bool]]]
_RECIPE: _Must = {
    "entropy": ("stay level", _level),
    "length": ("stay level", _level),
    "truncation": ("stay level", _level),
    "kl": ("stay at 0: the policy is its own reference", lambda value: np.abs(value).max() <= 0.01),
    "clip_frac": ("stay at 0: no ratio leaves 1", lambda value: np.abs(value).max() <= 0.001),
    "grad_norm": ("be above 0 wherever rewards of a group differ", lambda value: median(value) > 0),
}
"""What a control run must log and show, by quantity; and one of `_ENGINE`."""
_ENGINE: _Must = {
    "engine_kl": ("stay below .1 nats per token", lambda value: abs(strongest(value)[0]) <= 0.1),
    "engine_abs": ("stay below .1 nats per token", lambda value: abs(strongest(value)[0]) <= 0.1),
    "importance_ratio": ("stay within a twentieth of 1", lambda value: abs(strongest(value - 1)[0]) <= 0.05),
}
_FURTHER: _Must = {
    "engine_k1": ("not be below 0", lambda value: median(value) >= -0.02),
    "ess": ("stay above .8 of the batch", lambda value: value.max() > 1 + 1e-6 or strongest(1 - value)[0] <= 0.2),
}
"""What must be in order where it is logged."""
_SILENT = {"zero_std_frac": 1.0, "reward_std": 0.0}
"""Where no rewards of a group differ."""


def not_in_order(case: Case) -> tuple[str, ...] | None:
    """Why a control run gives no all-clear: what its log shows otherwise, and what it does not hold. None: it is none.

    In a long log a rate of 0 is rounded.
    """
    series = case.curve.series
    if not case.at_rate_zero or not _FEWEST <= case.reward.size <= _LONGEST:
        return None
    wrong = [
        f"'{series[role].key}' lies at {series[role].value.min():.3g} to {series[role].value.max():.3g} and must {text}"
        for role, (text, holds) in {**_RECIPE, **_ENGINE, **_FURTHER}.items()
        if role in series and not holds(series[role].value)
    ]
    held = () if case.curve.eval is None else (case.curve.eval,)
    for one in (*held, *case.curve.parts.values()):
        if not _level(one.value):
            wrong.append(f"'{one.key}' lies at {one.value.min():.3g} to {one.value.max():.3g} and must stay level")
    if case.gain.shows:
        wrong.insert(0, f"the reward rose by {case.gain.best[1]:.2g}: the rate is rounded, or what is measured changes")
    if case.curve.gradient_lost.size:
        wrong.append(f"a gradient is not finite at step {case.curve.gradient_lost[0]:g}")
    if (norm := series.get("grad_norm")) is not None:
        silent = [series[role].at(norm.step) == value for role, value in _SILENT.items() if role in series]
        if (idle := norm.step[~np.any([norm.value > 0, *silent], axis=0)]).size:
            wrong.append(f"'{norm.key}' is 0 at step {idle[0]:g}, and no log says that no rewards of a group differ")
        if norm.value.size < case.reward.size:
            wrong.append(f"'{norm.key}' is a number on {norm.value.size} of {case.reward.size} rows")
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
    if not case.at_rate_zero:
        return None
    change, error = _change(case.reward)
    text = f"the learning rate is 0 throughout; the reward moved by {change:+.2g}, error {error:.2g}"
    then = "Change no setting of the training. Mend the engine, the weights that it is given, or the checker."
    errors, (window, rows) = -change / error, where(case.curve.reward_series)
    return Fact(min(max(errors, 0.0) / rule.limit, 1e3), errors, window, rows, text, then)

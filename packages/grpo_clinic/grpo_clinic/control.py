"""A control run, at learning rate 0: nothing can be learned, so what its recipe names must stay in order."""

from collections.abc import Callable, Mapping

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Floats, Series
from grpo_clinic.rules.base import Case, strongest
from grpo_clinic.timing import ENGINE

_FEWEST, _LONGEST = 10, 40
_SPREADS = 6.0
"""Spreads from the median that are no noise, of rows running."""


def _level(value: Floats) -> bool:
    """No gain, no loss, and no three rows running far from the others."""
    if value.size < _FEWEST:
        return True
    usual, spread = noise.usual(value)
    far = noise.least_running(np.abs(value - usual)).max()
    gain = noise.gain_of(value)
    return bool(far <= _SPREADS * spread) and not gain.shows and not gain.falls


MUST: Mapping[str, tuple[str, Callable[[Floats], bool]]] = {
    "entropy": ("stay level", _level),
    "length": ("stay level", _level),
    "truncation": ("stay level", _level),
    "kl": ("stay at 0: the policy is its own reference", lambda value: np.abs(value).max() <= 0.01),
    "clip_frac": ("stay at 0: no ratio leaves 1", lambda value: np.abs(value).max() <= 0.001),
    "grad_norm": ("be above 0: rewards of some group differ", lambda value: value.min() > 0),
    "engine_abs": ("stay below .1 nats per token", lambda value: abs(strongest(value)[0]) <= 0.1),
    "importance_ratio": ("stay within a twentieth of 1", lambda value: abs(strongest(value - 1)[0]) <= 0.05),
    "engine_k1": ("not be below 0", lambda value: median(value) >= -0.02),
    "ess": ("stay above .8 of the batch", lambda value: value.max() > 1 + 1e-6 or strongest(1 - value)[0] <= 0.2),
}
"""What a control run must show, by quantity; the rules ask for the rest."""
_NAMED = tuple(MUST)[:6]
"""What it must log, and something of the engine."""


def not_in_order(case: Case) -> tuple[str, ...] | None:
    """Why a control run gives no all-clear: what its log shows otherwise, and what it does not hold. None: it is none.

    In a long log a rate of 0 is rounded.
    """
    curve, series = case.curve, case.curve.series
    if not case.at_rate_zero or not _FEWEST <= case.reward.size <= _LONGEST:
        return None
    results = (curve.reward_series, *([] if curve.eval is None else [curve.eval]), *curve.parts.values())
    judged: list[tuple[Series, str, Callable[[Floats], bool]]] = [(one, "stay level", _level) for one in results]
    judged += [(series[role], *must) for role, must in MUST.items() if role in series]
    wrong = [
        f"'{one.key}' lies at {one.value.min():.3g} to {one.value.max():.3g} and must {text}"
        for one, text, holds in judged
        if not holds(one.value)
    ]
    if curve.gradient_lost.size:
        wrong.append(f"a gradient is not finite at step {curve.gradient_lost[0]:g}")
    lacking = [role.replace("_", " ") for role in _NAMED if case.rows.get(role, 0) < case.reward.size]
    lacking += [] if {*ENGINE} & series.keys() else ["log-probabilities of engine and trainer"]
    return (*wrong, *([f"not logged on every row: {', '.join(lacking)}"] if lacking else []))

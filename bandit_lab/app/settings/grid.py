"""Axes of a grid: from `sweep.<name>` to sorted values."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bandit_lab import _checks
from bandit_lab._text import did_you_mean
from bandit_lab.app.settings.config import SCHEMAS, TRACED

SPACED = ("start", "stop", "num", "scale")
MAX_POINTS = 1_000_000


def check_sweepable(name: str) -> None:
    """Raise ValueError unless `sweep.<name>` is a traced setting; a static one is told to use -m."""
    static = name in {key for schema in SCHEMAS.values() for key in schema.__dataclass_fields__}
    hint = f" ('{name}' recompiles: use -m {name}=a,b)" if static else did_you_mean(name, TRACED)
    _checks.require(name in TRACED, f"sweep.{name}", f"one of {', '.join(TRACED)}{hint}", name)


class IntervalRule(NamedTuple):
    """Limits of a refresh interval: its least value, and whether it is a whole number of steps."""

    least: int = 1
    whole: bool = True


ANY_INTERVAL = IntervalRule()


def value_of(key: str, name: str, value: Any, rule: IntervalRule = ANY_INTERVAL) -> float:
    """One value of a traced setting, checked. Raises ValueError that names `key`."""
    if name == "learning_rate":
        low, high = 1e-300, _checks.LARGEST
        _checks.require(low <= _checks.positive(key, value) <= high, key, f"a number from {low:g} to {high:g}", value)
        return float(value)
    if name == "momentum":
        return _checks.momentum(key, value)
    if name == "refresh_interval":
        return _checks.integer(key, value, rule.least) if rule.whole else _checks.non_negative(key, value)
    _checks.require(_checks.non_negative(key, value) <= _checks.LARGEST, key, f"a number <= {_checks.LARGEST:g}", value)
    return float(value)


def axis(key: str, name: str, spec: Any, default: Mapping[str, Any], rule: IntervalRule = ANY_INTERVAL) -> np.ndarray:
    """Sorted distinct values of one axis: float64, or int64 for refresh intervals in whole steps.

    spec: a list of values, or a mapping with start, stop, num, scale (linear or log; what is left out comes from
      `default`). Spaced refresh intervals are rounded to whole steps.

    Raises:
      ValueError: neither a list nor a mapping, an empty list, unknown keys, a log range that does not start above 0,
        or a value outside the setting's range; the message names `key`.
    """
    steps = name == "refresh_interval" and rule.whole
    if isinstance(spec, Mapping):
        values: Iterable[Any] = _spaced(key, steps, {**default, **spec})
        checked = [value_of(key, name, v, rule) for v in values]
    else:
        is_list = isinstance(spec, Iterable) and not isinstance(spec, str)
        _checks.require(is_list, key, "a list or {start, stop, num, scale}", spec)
        checked = [value_of(f"{key}[{i}]", name, v, rule) for i, v in enumerate(spec)]
    _checks.require(len(checked) > 0, key, "at least one value (the grid is empty)", list(checked))
    return np.unique(np.array(checked, dtype=np.int64 if steps else np.float64))


def _spaced(key: str, steps: bool, spec: Mapping[str, Any]) -> list[Any]:
    for entry in spec:
        _checks.choice(key, entry, SPACED)
    for entry in SPACED:
        _checks.require(entry in spec, key, "{start, stop, num, scale}", dict(spec))
    scale = _checks.choice(f"{key}.scale", spec["scale"], ("linear", "log"))
    check = _checks.positive if scale == "log" else _checks.finite_number
    start, stop = check(f"{key}.start", spec["start"]), check(f"{key}.stop", spec["stop"])
    num = _checks.integer(f"{key}.num", spec["num"], 1)
    _checks.require(num <= MAX_POINTS, f"{key}.num", f"at most {MAX_POINTS} values", num)
    space = np.geomspace if scale == "log" else np.linspace
    values = space(start, stop, num)
    return [round(v) for v in values] if steps else [float(v) for v in values]


def log_spaced_choice(values: np.ndarray, count: int) -> np.ndarray:
    """Up to `count` of the sorted `values`, close to log-spaced between the first and the last."""
    if len(values) <= count:
        return values
    wanted = np.geomspace(max(values[0], 1), values[-1], count)
    return np.unique([values[np.argmin(np.abs(values - w))] for w in wanted])


def learning_rate_range(thresholds: Iterable[float]) -> tuple[float, float]:
    """A range of learning rates that holds all positive finite `thresholds` with room on both sides, two digits."""
    known = [t for t in thresholds if math.isfinite(t) and t > 0]
    if not known:
        return 1e-3, 10.0
    return float(f"{min(known) / 2:.1e}"), float(f"{max(known) * 2:.1e}")

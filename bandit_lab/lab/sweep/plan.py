"""A checked sweep: its axes, its learner, its size."""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandit_lab import _checks
from bandit_lab.app import engine
from bandit_lab.app.settings.config import (
    ANY_INTERVAL,
    TRACED,
    IntervalRule,
    SweepSettings,
    check_sweepable,
    value_of,
)
from bandit_lab.grpo import Hyper, Learner, Schedule
from bandit_lab.lab.predict import build
from bandit_lab.simulation import UNIT, route
from bandit_lab.simulation.engine import WIDTH

GIB = 2**30
BYTES_PER_CELL = 100  # of the fine grid: growth, ringing and outcome, once more while they are written
BYTES_PER_ROW = 8000  # predictions and the entries of summary.json
CHUNK_RUNS = 2**20  # sampled runs of a chunk
KEPT_RUNS = 2**24  # single runs that a sweep keeps unless told otherwise; beyond, counts and means of them
AXIS_DEFAULTS: dict[str, dict[str, Any]] = {
    "refresh_interval": {"start": 1, "stop": 64, "num": 64, "scale": "linear"},
    "learning_rate": {"num": 64, "scale": "log"},
    "momentum": {"start": 0.0, "stop": 0.9, "num": 10, "scale": "linear"},
    "kl_weight": {"num": 5, "scale": "log"},
}
STUDY_MOMENTA = (0.0, 0.9)
STARTS = ("fixed_point", "initial")
SPACING = {"start": 0.02, "stop": 1.5, "num": 12, "scale": "log"}
SPACED = ("start", "stop", "num", "scale")
MAX_POINTS = 1_000_000
CURVE = 24  # refresh intervals of a drawn line, beside those of the grid
DIAGRAMS = 3  # phase diagrams of a sweep at most, one for each momentum
PERIODS = 30  # least length of a sampled run in units of N + 1/(1 - mu), unless its steps are given


@dataclass(frozen=True)
class SweepPlan:
    """A checked sweep. Axes are sorted arrays; the learning rates are None where they follow from the thresholds.

    learner: as it is at step 0, without a schedule; trained: what runs, with it. curves: [steps] factors of every
    setting on a schedule, at most 1; the values of its axis are the largest ones. peaks: [P] learning rates of a row of
    sampled runs where they are those of the schedule or the one that was given, or None.
    drifts: dynamics whose drift is measured, the first one on the whole grid. multiples: [P] learning rates of a row of
    sampled runs in units of the row's threshold; the sampled axes are empty unless dynamics=sampled. no_finite_group:
    why the finite-group drift cannot be computed, or None.
    """

    settings: SweepSettings
    learner: Learner
    momentum: np.ndarray
    kl_weight: np.ndarray
    refresh_interval: np.ndarray
    learning_rate: np.ndarray | None
    learning_rate_spec: dict[str, Any]
    drifts: tuple[str, ...]
    no_finite_group: str | None
    sampled_momentum: np.ndarray
    sampled_interval: np.ndarray
    multiples: np.ndarray
    steps_given: bool
    trained: Learner
    curves: Mapping[str, np.ndarray]
    peaks: np.ndarray | None

    @property
    def unjudged(self) -> str | None:
        """Why no run is given an outcome, or None."""
        return build.ON_A_SCHEDULE if self.curves else None

    @property
    def rows(self) -> Hyper:
        """The rows of the grid: every combination [R], refresh interval fastest; the learning rate is left at 1."""
        return _combined(self.momentum, self.kl_weight, self.refresh_interval)

    @property
    def sampled_rows(self) -> Hyper:
        """The same of the sampled grid [Q]."""
        return _combined(self.sampled_momentum, self.kl_weight, self.sampled_interval)

    @property
    def drawn_rows(self) -> Hyper:
        """The same of the lines of the diagrams, at the first KL weight: they bend between intervals of a sparse list.

        Empty where the grid has as many intervals as a curve needs.
        """
        grid = self.refresh_interval
        between = np.round(np.geomspace(max(grid[0], 1), max(grid[-1], 1), CURVE)).astype(grid.dtype)
        every = np.unique(np.concatenate([grid, between[between <= grid[-1]]]))
        needed = len(every) > len(grid) and not np.any(grid != np.round(grid))
        return _combined(drawn_momenta(self.momentum), self.kl_weight[:1], every if needed else every[:0])

    @property
    def sampled_steps(self) -> np.ndarray:
        """Length [Q] of the sampled runs of a row: long enough in blocks to show growth just above the threshold."""
        steps, rows = self.settings.steps, self.sampled_rows
        memory = rows.refresh_interval + 1 / (1 - np.asarray(rows.momentum))
        needed = np.zeros(len(memory)) if self.steps_given else PERIODS * memory
        return steps * np.maximum(1, np.ceil(needed / steps)).astype(int)

    @property
    def longest(self) -> int:
        """Steps of the longest sampled run."""
        return int(self.sampled_steps.max(initial=0))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the rows of the grid: momenta, KL weights, refresh intervals."""
        return len(self.momentum), len(self.kl_weight), len(self.refresh_interval)

    @property
    def sampled_shape(self) -> tuple[int, int, int]:
        """The same of the sampled grid."""
        return len(self.sampled_momentum), len(self.kl_weight), len(self.sampled_interval)

    @property
    def keeps_runs(self) -> bool:
        """Whether every sampled run's summary is kept."""
        runs = math.prod(self.sampled_shape) * len(self.multiples) * self.settings.seeds
        return runs <= KEPT_RUNS if self.settings.keep_runs is None else self.settings.keep_runs


def _combined(momenta: np.ndarray, weights: np.ndarray, intervals: np.ndarray) -> Hyper:
    """Every combination, refresh interval fastest; the learning rate is left at 1."""
    mesh = np.meshgrid(momenta, weights, intervals, indexing="ij")
    momentum, weight, interval = (m.ravel() for m in mesh)
    return Hyper(np.ones(len(momentum)), momentum, interval, weight)


def prepare(settings: SweepSettings, explicit: frozenset[str]) -> SweepPlan:
    """Check everything. Raises ValueError; does no work."""
    build.check_runs(settings)
    schedules = build.scheduled(settings)
    _checks.choice("boundary", settings.boundary, ("learning_rate", "refresh_interval"))
    _checks.choice("sampled.start", settings.sampled.start, STARTS)
    engine.chosen(settings)
    if settings.memory_limit is not None:
        _checks.positive("memory_limit", settings.memory_limit)
    _check_chunks(settings)
    for name in settings.sweep:
        check_sweepable(name)
        both = f"one of {name} and sweep.{name}"
        _checks.require(name not in explicit or name in schedules, name, both, getattr(settings, name))
    asked = settings
    largest, curves = build.largest_and_factors(schedules)
    settings = replace(settings, **largest)  # the axis of what is on a schedule has its largest values
    rule = build.interval_rule(settings)
    axes = {name: _axis(settings, name, explicit, rule) for name in TRACED if name != "learning_rate"}
    rates, spec = _learning_rates(settings, explicit)
    sampling = settings.dynamics == "sampled"
    intervals, momenta, multiples = _sampled_axes(settings, axes, rule) if sampling else (np.empty(0),) * 3
    own_rates = "learning_rate" in {*schedules, *explicit}
    peaks = rates if sampling and own_rates and "sampled.multiple" not in explicit else None
    multiples = multiples if peaks is None else peaks / peaks.max()
    everything = np.concatenate([axes["refresh_interval"], intervals])
    trained = build.build_learner(settings, float(everything.max()))
    learner = trained
    if curves:
        trained = replace(trained, schedule=Schedule(**curves))
    if sampling:
        route(trained, "sampled", settings.path)
    reason = build.check_drift(learner, settings.dynamics)
    drifts = (settings.dynamics,) if not sampling else ("mean_field",) if reason else ("mean_field", "finite_group")
    steps_given = "steps" in explicit or bool(curves)
    plan = SweepPlan(
        asked, learner, **axes, learning_rate=rates, learning_rate_spec=spec, drifts=drifts, no_finite_group=reason,
        sampled_momentum=momenta, sampled_interval=intervals, multiples=multiples, steps_given=steps_given,
        trained=trained, curves=curves, peaks=peaks,
    )  # fmt: skip
    _check_memory(plan)
    return plan


def _check_chunks(settings: SweepSettings) -> None:
    chosen = settings.chunk
    for name, step in (("seeds", UNIT), ("cells", WIDTH["sampled"].cells), ("rows", 1)):
        value = getattr(chosen, name)
        if value is not None:
            _checks.integer(f"chunk.{name}", value, 1)
            _checks.require(value % step == 0, f"chunk.{name}", f"a multiple of {step}", value)


def _axis(settings: SweepSettings, name: str, explicit: frozenset[str], rule: IntervalRule) -> np.ndarray:
    key, spec = f"sweep.{name}", settings.sweep.get(name)
    if spec is not None:
        return axis(key, name, spec, AXIS_DEFAULTS[name], rule)
    if name in explicit or name == "kl_weight":
        return axis(name, name, [getattr(settings, name)], {}, rule)
    if name == "momentum":
        return np.array(STUDY_MOMENTA)
    return axis(key, name, {}, AXIS_DEFAULTS[name], rule)


def _learning_rates(settings: SweepSettings, explicit: frozenset[str]) -> tuple[np.ndarray | None, dict[str, Any]]:
    """Learning rates of the fine grid, or None and the spacing if their range is to be found from the thresholds."""
    spec = settings.sweep.get("learning_rate")
    default = AXIS_DEFAULTS["learning_rate"]
    if spec is None:
        given = "learning_rate" in explicit
        return (np.array([float(settings.learning_rate)]), {}) if given else (None, dict(default))
    if isinstance(spec, Mapping) and not {"start", "stop"} <= set(spec):
        merged = {**default, **spec}
        axis("sweep.learning_rate", "learning_rate", {"start": 1e-3, "stop": 1.0, **merged}, {})
        return None, merged
    return axis("sweep.learning_rate", "learning_rate", spec, default), {}


def _sampled_axes(settings: SweepSettings, axes: dict[str, np.ndarray], rule: IntervalRule) -> tuple[np.ndarray, ...]:
    """(refresh intervals, momenta, multiples of the threshold) of the sampled grid."""
    chosen = settings.sampled
    intervals = _log_spaced_choice(axes["refresh_interval"], 4)
    if chosen.refresh_interval is not None:
        intervals = axis("sampled.refresh_interval", "refresh_interval", chosen.refresh_interval, {}, rule)
    momenta = axes["momentum"]
    if chosen.momentum is not None:
        momenta = axis("sampled.momentum", "momentum", chosen.momentum, {}, rule)
    return intervals, momenta, axis("sampled.multiple", "learning_rate", chosen.multiple, SPACING)


def _bytes_needed(plan: SweepPlan) -> int:
    """A generous estimate of the memory that the sweep will take: tables, and one chunk of sampled runs."""
    settings, parameters = plan.settings, len(plan.learner.bandit.initial_parameters)
    rates = plan.learning_rate_spec["num"] if plan.learning_rate is None else len(plan.learning_rate)
    fine = math.prod(plan.shape) * (BYTES_PER_ROW + int(rates) * (BYTES_PER_CELL + 16 * parameters))
    rows = math.prod(plan.sampled_shape)
    if not rows:
        return fine
    seeds = min(settings.chunk.seeds or CHUNK_RUNS, settings.seeds)
    cells = min(settings.chunk.cells or max(1, CHUNK_RUNS // seeds), rows * len(plan.multiples))
    chunk = cells * (seeds * 200 + -(-seeds // UNIT) * (plan.longest + 1) * 64)
    width = WIDTH["sampled"]
    state = 16 * parameters * (plan.learner.horizon + 4) + 12 * (plan.longest + 1)
    runs = 2 * width.cells * width.seeds  # two blocks in flight
    jobs = rows * len(plan.multiples) * -(-settings.seeds // CHUNK_RUNS)
    return fine + chunk + jobs * 500 + runs * state


def _free_bytes() -> int:
    """Free memory of this machine, or 8 GiB where that is not known."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 * GIB


def _check_memory(plan: SweepPlan) -> None:
    """Raise ValueError if the sweep would not fit, saying how large it is and what to do."""
    limit, needed = plan.settings.memory_limit, _bytes_needed(plan)
    allowed = int(limit * GIB) if limit is not None else int(0.8 * _free_bytes())
    if needed > allowed:
        raise ValueError(
            f"sweep: expected a grid that needs at most {allowed / GIB:.3g} GiB, got one that needs about "
            f"{needed / GIB:.3g} GiB; sweep fewer values, lower seeds or steps, split it, or raise memory_limit"
        )


def drawn_momenta(momenta: np.ndarray) -> np.ndarray:
    """Momenta of a sweep that have a phase diagram: all, or three from the first to the last."""
    places = np.linspace(0, len(momenta) - 1, DIAGRAMS).round().astype(int)
    return momenta if len(momenta) <= DIAGRAMS else momenta[places]


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


def _log_spaced_choice(values: np.ndarray, count: int) -> np.ndarray:
    """Up to `count` of the sorted `values`, close to log-spaced between the first and the last."""
    if len(values) <= count:
        return values
    wanted = np.geomspace(max(values[0], 1), values[-1], count)
    return np.unique([values[np.argmin(np.abs(values - w))] for w in wanted])

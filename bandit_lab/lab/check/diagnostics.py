"""Is a failure found where it was planted, and only there, and does a diagnostic stand every log?"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from bandit_lab.lab.check.result import Failed, NotApplicable, check
from bandit_lab.lab.check.subject import Subject
from bandit_lab.lab.sick_runs.effects import effects, label
from bandit_lab.lab.sick_runs.logs import as_curve
from bandit_lab.lab.sick_runs.plant import load, plant_one
from bandit_lab.lab.sick_runs.simulate import simulate_all
from bandit_lab.runs.diagnose import FAILURES, DiagnoseSettings, Finding
from bandit_lab.runs.read import Curve, RewardScale, Series

QUICK = DiagnoseSettings(surrogates=99)
RECIPES = ("healthy", "exploit", "split_prompts", "early_certainty", "cycles")
EACH = 6
FOUND, ALARMS = 0.6, 0.2  # least share of planted failures, most of healthy runs
POINTS = 120


@lru_cache(maxsize=1)
def _simulated(seed: int) -> tuple[tuple[Curve, frozenset[str], bool], ...]:
    """Logs of the training recipes: (curve, failures that are present, whether no failure is, even weakly)."""
    ranges, about = load("training"), load("effects")
    ranges["log"] |= {"batch": {"one_of": [[16, 8]]}, "points": float(POINTS)}
    planted = [plant_one(ranges, recipe, seed, number) for recipe in RECIPES for number in range(EACH)]
    found = []
    for run in simulate_all(planted):
        labels = label(effects(run, about), about)
        present = frozenset(name for name in FAILURES if labels[name] == "present")
        found.append((as_curve(run), present, set(labels.values()) == {"absent"}))
    return tuple(found)


def _ask(subject: Subject, curve: Curve) -> Finding:
    """The finding, if it is one. Raises `Failed`."""
    finding = subject.variant(curve, QUICK)
    if not isinstance(finding, Finding):
        raise Failed(f"{curve.name}: expected a Finding, got {type(finding).__name__}")
    if finding.failure != subject.name:
        raise Failed(f"{curve.name}: expected the failure {subject.name}, got {finding.failure!r}")
    if finding.score is None and not finding.missing:
        raise Failed(f"{curve.name}: expected a score, or what is missing, got neither")
    if finding.score is not None and (not finding.score >= 0 or not finding.evidence):
        raise Failed(f"{curve.name}: expected a score >= 0 with evidence, got {finding.score} with {finding.evidence}")
    return finding


@check("planted failures are found", "diagnostic")
def planted(subject: Subject) -> str:
    """Simulated runs in which the failure is present by their hidden state; or the curves of `planted`."""
    own = getattr(subject.variant.func, "planted", None)
    if own is None and subject.name not in FAILURES:
        raise NotApplicable("nobody can plant it: the function has no attribute planted")
    if own is not None:
        curves = [own(subject.seed + number) for number in range(EACH)]
    else:
        curves = [curve for curve, present, _ in _simulated(subject.seed) if subject.name in present]
    if not curves:
        raise NotApplicable(f"no run of seed {subject.seed} has it")
    count = sum(_ask(subject, curve).present for curve in curves)
    line = f"{count} of {len(curves)}, expected at least {FOUND:.0%}"
    if count < FOUND * len(curves):
        raise Failed(line)
    return line


@check("healthy runs are left alone", "diagnostic")
def healthy(subject: Subject) -> str:
    """Simulated runs whose hidden state shows none of the known failures."""
    curves = [curve for curve, _, none in _simulated(subject.seed) if none]
    if not curves:
        raise NotApplicable(f"no run of seed {subject.seed} is free of all known failures")
    count = sum(_ask(subject, curve).present for curve in curves)
    line = f"{count} of {len(curves)} called {subject.name}, allowed {ALARMS:.0%}"
    if count > ALARMS * len(curves):
        raise Failed(line)
    return line


def _hostile(curve: Curve) -> Iterator[Curve]:
    """Logs that lack what the diagnostic may want, or hold what it may not expect."""
    step, rng = curve.step, np.random.default_rng(0)
    bare = replace(curve, series={}, parts={}, eval=None, settings={})
    for length in (1, 2, 3, 5, 9):
        yield replace(_cut(bare, length), name=f"{length} points")
    yield replace(bare, name="no metric but the reward")
    for name in (*curve.series, "evaluations"):
        kept = {key: series for key, series in curve.series.items() if key != name}
        lacks: dict[str, Any] = {"eval": None} if name == "evaluations" else {"series": kept}
        yield replace(curve, name=f"no {name}", **lacks)
    gone = {key: Series(step, np.full(step.size, np.nan), key) for key in curve.series}
    yield replace(curve, name="NaN in every metric but the reward", series=gone)
    early = {key: Series(step[:2], series.value[:2], key) for key, series in curve.series.items()}
    yield replace(curve, name="metrics that end early", series=early)
    yield replace(bare, name="huge steps", reward_series=Series(step * 1e12, curve.reward, "reward"))
    scale = RewardScale(-1e300, 1e300, True)
    yield replace(
        bare, name="huge rewards", scale=scale, reward_series=Series(step, 1e300 * rng.normal(size=step.size), "r")
    )


def _cut(curve: Curve, length: int) -> Curve:
    return replace(curve, reward_series=Series(curve.step[:length], curve.reward[:length], "reward"))


@check("any log is judged without an error", "diagnostic")
def hostile(subject: Subject) -> str:
    """Short logs, missing and empty metrics, huge numbers; a constant reward alone is none of the known failures."""
    curve = _simulated(subject.seed)[0][0]
    names = []
    for one in _hostile(curve):
        try:
            with np.errstate(all="ignore"):
                _ask(subject, one)
        except Failed:
            raise
        except Exception as error:
            raise Failed(f"{one.name}: expected a finding, got {type(error).__name__}: {error}") from error
        names.append(one.name)
    level = replace(_cut(curve, 0), series={}, parts={}, eval=None, settings={}, name="constant")
    constant = replace(level, reward_series=Series(curve.step, np.full(POINTS, 0.5), "reward"))
    if _ask(subject, constant).present and subject.name in FAILURES and subject.name != "advantage_degeneracy":
        raise Failed(f"{subject.name} reported for a constant reward")
    return f"{len(names) + 1} logs"


@check("the same log, the same finding", "diagnostic")
def repeated(subject: Subject) -> str:
    """Asked twice, with other logs in between; the log itself is left as it was."""
    curve, other = (_simulated(subject.seed)[place][0] for place in (0, -1))
    before = curve.reward.copy()
    first = _ask(subject, curve)
    _ask(subject, other)
    if _ask(subject, curve) != first:
        raise Failed("expected the finding of the first time, got another one")
    if not np.array_equal(before, curve.reward):
        raise Failed("expected a log that is only read, got a changed reward")
    return f"score {first.score if first.score is None else round(first.score, 3)} twice"

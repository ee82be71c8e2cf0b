"""`check`: the conformance suite for the variants of a module, for the ones chosen, or for all."""

import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from bandit_lab import _checks
from bandit_lab._registry import Registry
from bandit_lab.bandits import BANDITS
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, KL_ESTIMATORS, STALENESS, Learner, Optimizer
from bandit_lab.study.check.result import FAIL, Result, run_checks
from bandit_lab.study.check.subject import KINDS, Subject, subject_of
from bandit_lab.study.folder.clock import CompileClock
from bandit_lab.study.folder.manifest import manifest
from bandit_lab.study.folder.store import RunFolder
from bandit_lab.study.plugins import registries
from bandit_lab.study.settings.check import CheckSettings
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.errors import Incomplete
from bandit_lab.study.terminal.progress import Progress


@dataclass(frozen=True)
class Plan:
    """Checked settings and what they ask for."""

    settings: CheckSettings
    subjects: tuple[Subject, ...]


def prepare(settings: CheckSettings, explicit: frozenset[str]) -> Plan:
    """Build every variant that is to be checked. Raises ValueError."""
    _checks.integer("seed", settings.seed, 0)
    _checks.positive("kl_weight", settings.kl_weight)
    chosen = [kind for kind in KINDS if any(key.split(".")[0] == kind for key in explicit)]
    learner = _learner(settings)
    names = {kind: _name(getattr(settings, kind)) for kind in KINDS}
    wanted: dict[tuple[str, str], dict[str, Any] | None] = {
        (kind, names[kind]): None if kind == "diagnostic" else _options(getattr(settings, kind)) for kind in chosen
    }
    for kind, registry in registries().items():
        for name in _registered_by(registry, settings.plugins) if settings.plugins else () if chosen else registry:
            wanted.setdefault((kind, name), None)
    _checks.require(bool(wanted), "plugins", "modules that register a variant", settings.plugins)
    more: dict[str, Any] = {"kl_weight": settings.kl_weight, "seed": settings.seed}
    return Plan(settings, tuple(subject_of(*what, options, learner, **more) for what, options in wanted.items()))


def execute(plan: Plan, folder: RunFolder, progress: Progress) -> None:
    """Put every question to every variant, print the table, write the run folder. Raises `Incomplete` for failures."""
    start = time.perf_counter()
    settings = asdict(plan.settings)
    folder.open(report.as_yaml(settings))
    results: dict[tuple[str, str], list[Result]] = {}
    with CompileClock() as clock:
        for subject in plan.subjects:
            with progress.stage(f"{subject.kind} {subject.name}"):
                results[subject.kind, subject.name] = run_checks(subject)
    rows = [{"kind": kind, "variant": name} | row._asdict() for (kind, name), part in results.items() for row in part]
    failed = sum(row["status"] == FAIL for row in rows)
    folder.write_summary({"checks": rows, "failed": failed})
    folder.write_manifest(manifest("check", settings, {}, clock.split(time.perf_counter() - start)))
    report.show(*(_table(*key, part) for key, part in results.items()))
    if failed:
        raise Incomplete(f"{failed} of {len(rows)} checks failed")


def _table(kind: str, name: str, rows: Iterable[Result]) -> Any:
    table = report.new_table(f"{kind} {name}", "check", "result", "what was seen")
    for row in rows:
        table.add_row(*row)
    return table


def _learner(settings: CheckSettings) -> Learner:
    def build(registry: Registry[Any], chosen: Any) -> Any:
        return registry.build(_name(chosen), _options(chosen))

    optimizer = Optimizer(_name(settings.optimizer), tuple(sorted((settings.optimizer.get("options") or {}).items())))
    return Learner(
        build(BANDITS, settings.bandit),
        build(ADVANTAGES, settings.advantage),
        build(ESTIMATORS, settings.estimator),
        build(STALENESS, settings.staleness),
        optimizer,
        settings.group_size,
        kl_estimator=build(KL_ESTIMATORS, settings.kl_estimator),
    )


def _name(chosen: Any) -> str:
    return chosen.get("name", "") if isinstance(chosen, dict) else str(chosen)


def _options(chosen: Any) -> dict[str, Any]:
    return {key: value for key, value in chosen.items() if key != "name"} if isinstance(chosen, dict) else {}


def _registered_by(registry: Registry[Any], modules: list[str]) -> list[str]:
    """What these modules, or modules inside them, registered."""
    inside = [name for name in modules if name in sys.modules]
    return [name for name in registry if any(f"{registry[name].__module__}.".startswith(f"{one}.") for one in inside)]

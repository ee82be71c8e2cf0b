"""`check`: the conformance suite for the variants of a module, for the ones chosen, or for all."""

import sys
from dataclasses import dataclass
from typing import Any

from bandit_lab import _checks
from bandit_lab._registry import Registry
from bandit_lab.app.plugins import registries
from bandit_lab.app.progress import Progress
from bandit_lab.app.result import Result, Table
from bandit_lab.app.settings.config import CheckSettings
from bandit_lab.grpo import Learner, NoCorrection, OwnLaw
from bandit_lab.lab.check.result import FAIL, run_checks
from bandit_lab.lab.check.subject import LEARNS, Subject, subject_of
from bandit_lab.lab.predict import build


@dataclass(frozen=True)
class _CheckPlan:
    """Checked settings and what they ask for."""

    settings: CheckSettings
    subjects: tuple[Subject, ...]
    precision: str | None = None


def prepare(settings: CheckSettings, explicit: frozenset[str]) -> _CheckPlan:
    """Build every variant that is to be checked. Raises ValueError."""
    _checks.integer("seed", settings.seed, 0)
    _checks.positive("kl_weight", settings.kl_weight)
    chosen = [kind for kind in LEARNS if any(key.split(".")[0] == kind for key in explicit)]
    rules = {**build.variants(settings), "sampler": OwnLaw(), "correction": NoCorrection()}
    learner = Learner(**rules, group_size=settings.group_size)
    names = {kind: _name(getattr(settings, kind)) for kind in LEARNS}
    wanted: dict[tuple[str, str], dict[str, Any] | None] = {
        (kind, names[kind]): _options(getattr(settings, kind)) for kind in chosen
    }
    for kind, registry in registries().items():
        for name in _registered_by(registry, settings.plugins) if settings.plugins else () if chosen else registry:
            wanted.setdefault((kind, name), None)
    _checks.require(bool(wanted), "plugins", "modules that register a variant", settings.plugins)
    more: dict[str, Any] = {"kl_weight": settings.kl_weight, "seed": settings.seed}
    return _CheckPlan(settings, tuple(subject_of(*what, options, learner, **more) for what, options in wanted.items()))


def compute(plan: _CheckPlan, progress: Progress) -> Result:
    """Put every question to every variant."""
    rows = []
    for subject in plan.subjects:
        with progress.stage(f"{subject.kind} {subject.name}"):
            about = {"kind": subject.kind, "variant": subject.name}
            rows += [about | {"check": r.check, "status": r.status, "detail": r.detail} for r in run_checks(subject)]
    failed = sum(row["status"] == FAIL for row in rows)
    message = f"{failed} of {len(rows)} checks failed"
    shown = (message, Table("", rows))
    return Result("Checks", {"checks": rows, "failed": failed}, shown, incomplete=message if failed else "")


def _name(chosen: Any) -> str:
    return chosen.get("name", "") if isinstance(chosen, dict) else str(chosen)


def _options(chosen: Any) -> dict[str, Any]:
    return {key: value for key, value in chosen.items() if key != "name"} if isinstance(chosen, dict) else {}


def _registered_by(registry: Registry[Any], modules: list[str]) -> list[str]:
    inside = [name for name in modules if name in sys.modules]
    return [name for name in registry if any(f"{registry[name].__module__}.".startswith(f"{one}.") for one in inside)]

"""The settings of `diagnose`: which logs, how they are read, the thresholds of the diagnostics; or the benchmark."""

from dataclasses import dataclass, fields
from typing import Any

from bandit_lab import _checks
from bandit_lab.curves.diagnose import DiagnoseSettings
from bandit_lab.study.settings.log import LogSettings
from bandit_lab.study.settings.schema import LEARNER, OUTPUT, PROBLEM, RUN, setting

_DEFAULT = DiagnoseSettings()
THRESHOLDS = tuple(one.name for one in fields(DiagnoseSettings) if one.name != "options")


@dataclass
class DiagnosisSettings(LogSettings):
    """Settings of `diagnose`."""

    config: str | None = setting(
        None, "path", "the trainer's configuration (YAML, JSON, TOML, a script): its traps, G and K_ref", PROBLEM
    )
    false_alarm: float = setting(_DEFAULT.false_alarm, "", "of the oscillation test, and of that of growing variance")
    surrogates: int = setting(_DEFAULT.surrogates, "curves", "simulated at most for the oscillation test")
    wave_share: float = setting(_DEFAULT.wave_share, "share of the span", "of an oscillation from peak to peak")
    silent_share: float = setting(_DEFAULT.silent_share, "share of groups", "without signal: degenerate from here on")
    solved_share: float = setting(_DEFAULT.solved_share, "share of the scale", "reward above it: silence is success")
    entropy_share: float = setting(_DEFAULT.entropy_share, "share of the first entropy", "concentrated below it")
    coupling_z: float = setting(_DEFAULT.coupling_z, "standard errors", "by which the held-out result falls behind")
    collapse_share: float = setting(_DEFAULT.collapse_share, "share of the climb", "lost at the end: a collapse")
    collapse_z: float = setting(_DEFAULT.collapse_z, "standard errors", "of the fall")
    swing_share: float = setting(_DEFAULT.swing_share, "share of the span", "fallen and regained twice: swings")
    swing_z: float = setting(_DEFAULT.swing_z, "standard errors", "of the swings")
    diagnostic: dict[str, Any] = setting(
        {}, "", "options of a plug-in's diagnostic: diagnostic.<failure>.<option>=value", LEARNER
    )
    simulated: str | None = setting(
        None,
        "",
        "training | held_out: score the diagnostics on simulated runs of known failure instead of logs",
        PROBLEM,
    )
    runs: int | None = setting(None, "runs", "of the benchmark; null: as conf/benchmark says", RUN)
    pictures: bool = setting(True, "", "draw diagnoses.png (several runs as small multiples)", OUTPUT)
    report: bool = setting(
        True, "", "write report/<run>.html, .md and .png, ready to paste; simulated runs: recall.png", OUTPUT
    )
    seed: int = setting(0, "", "root of the random numbers (the oscillation test's simulated null)", RUN)


def thresholds(settings: DiagnosisSettings) -> DiagnoseSettings:
    """The diagnostics' thresholds and options. Raises ValueError for values out of range and unknown options."""
    from bandit_lab.curves.diagnose import DIAGNOSTICS  # imports JAX

    for name, options in settings.diagnostic.items():
        _checks.require(isinstance(options, dict), f"diagnostic.{name}", "its options", options)
        DIAGNOSTICS.build(name, options)
    for name in DIAGNOSTICS:
        if DIAGNOSTICS.is_outside(name):
            DIAGNOSTICS.look_at(name, DIAGNOSTICS.build(name, settings.diagnostic.get(name, {})))
    known = {name: getattr(settings, name) for name in THRESHOLDS}
    return DiagnoseSettings(**known, options=settings.diagnostic)

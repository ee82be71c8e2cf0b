"""What the log tells: how fast the reward answers, how often answers succeed, how many groups are silent."""

import math
import re
from dataclasses import dataclass, field, fields, replace

import numpy as np

from bandit_lab.runs.advise import has_fallen
from bandit_lab.runs.diagnose import DiagnoseSettings, Diagnosis, diagnose
from bandit_lab.runs.diagnose.collapse import collapse, nonfinite
from bandit_lab.runs.diagnose.evidence import Evidence
from bandit_lab.runs.diagnose.oscillation import Oscillation, oscillation_test
from bandit_lab.runs.diagnose.stability import wave_score
from bandit_lab.runs.fit import LawFit, fit_curve
from bandit_lab.runs.fit.quality import LITTLE, noise_variance
from bandit_lab.runs.logs.gather import Log, gather
from bandit_lab.runs.logs.settings import AdviseSettings, LogSettings, ReadSettings
from bandit_lab.runs.read import Curve
from bandit_lab.runs.read.limits import FEWEST_POINTS
from bandit_lab.runs.trainers import TRAINERS, Fact, Setup
from bandit_lab.runs.trainers.base import number_text

FEWEST_FOR_WAVES = 24
LATE = 0.8
"""The last fifth of the steps is "now"."""
FAILURES = ("collapsed", "diverging", "dynamical_instability")
"""Verdicts of `diagnose` after which nothing more is permitted."""


@dataclass(frozen=True)
class DelayEstimate:
    """Mean delay of the reward's answer [optimiser steps] with its interval (ends 0 and infinity where open), where it
    comes from, and what weakens it."""

    value: float
    low: float
    high: float
    source: str
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogEvidence:
    """What one log says; None with a reason beside it where it does not.

    `schedule` is the largest logged learning rate over the mean one. `answers` seen in the last fifth of the run, at
    least one group per row. `scatter` is the standard deviation of one logged reward around its slow course, from
    differences of neighbours; `wave` the test for oscillation beyond noise. `fall` is a collapse, if there was
    one: all else is then read from the part before it. `diagnosis` is that of `diagnose`, `failed` says how the
    run failed, if it did, and `declined` that its reward ends lower than it was.
    """

    curve: Curve | None = None
    delay: DelayEstimate | None = None
    delay_reason: str = "no log and no stiffness given"
    success: float | None = None
    success_reason: str = "no log; give success=..."
    success_source: str = ""
    silent: float | None = None
    answers: int = 0
    learning_rate: float | None = None
    schedule: float = 1.0
    scatter: float | None = None
    wave: Oscillation | None = None
    fall: Evidence | None = None
    failed: str = ""
    diagnosis: Diagnosis | None = None
    declined: bool = False
    notes: tuple[str, ...] = field(default=())


def read_logs(settings: AdviseSettings, given_as: str = "log") -> list[Log]:
    """The one run of the log, and what beside it could not be read; nothing without a log.

    `given_as` is the setting that the user gave it in. Raises ValueError where it holds no run or several.
    """
    if settings.log is None:
        return []
    asked = {one.name: getattr(settings, one.name) for one in fields(ReadSettings)}
    logs = gather(LogSettings(**asked, paths=[settings.log]), lambda done, total: None, given_as)
    runs = [log for log in logs if log.curve is not None]
    if len(runs) > 1:
        names = ", ".join(log.name for log in runs[:4])
        raise ValueError(f"{given_as}: expected one run, got {len(runs)} ({names}, ...); give run=...")
    return logs


def look(log: Log | None, setup: Setup) -> LogEvidence:
    """Everything that a log tells about a run with these settings."""
    if log is None or log.curve is None:
        return LogEvidence()
    fall = _fall(log.curve)
    curve = log.curve if fall is None else _until(log.curve, fall.window[0])
    delay, reason = _delay(curve, setup)
    late = curve.step >= curve.step[0] + LATE * (curve.step[-1] - curve.step[0])
    low, high, why, source = _scale(curve)
    now = None if why else float(np.clip((curve.reward[late].mean() - low) / (high - low), 0, 1))
    rate, schedule = _schedule(curve)
    seen = _answers(int(late.sum()), curve, setup)
    found = diagnose(log.curve, None, int(setup.number("group_size") or 0) or None)
    scatter = float(np.sqrt(noise_variance(curve.reward[None])[0]))
    return LogEvidence(
        log.curve, delay, reason, now, why, source, _silent(curve), seen, rate, schedule, scatter, _wave(curve),
        fall, _failed(found, fall), found, has_fallen(log.curve.reward, scatter),
        _notes(log.curve, rate, setup),
    )  # fmt: skip


def _fall(curve: Curve) -> Evidence | None:
    """A collapse, or a reward that ends as no number at all."""
    lost = nonfinite(curve)
    if lost is not None and lost.above and curve.step.size >= FEWEST_POINTS:
        return lost
    if curve.step.size < 2 * FEWEST_POINTS:
        return None
    thresholds = DiagnoseSettings()
    found = collapse(curve.step, curve.reward, thresholds, bottom=curve.scale.bottom)
    if found.above and (wave := _wave(curve)) is not None and wave_score(curve, wave, thresholds) >= 1:
        found = collapse(curve.step, curve.reward, thresholds, wave, curve.scale.bottom)
    before = int(np.sum(curve.step <= found.window[0]))
    return found if found.above and before >= FEWEST_POINTS else None


def _failed(found: Diagnosis, fall: Evidence | None) -> str:
    """How the run failed, in words; nothing where it did not."""
    if fall is not None:
        return f"the reward {fall.text}"
    failures = [name.replace("_", " ") for name in FAILURES if name in found.verdict]
    return f"diagnose finds {' and '.join(failures)}" if failures else ""


def _until(curve: Curve, last: float) -> Curve:
    kept = curve.step <= last
    series = replace(curve.reward_series, step=curve.step[kept], value=curve.reward[kept])
    columns = {
        name: replace(one, step=one.step[one.step <= last], value=one.value[one.step <= last])
        for name, one in curve.series.items()
    }
    return replace(curve, reward_series=series, series=columns)


def _wave(curve: Curve) -> Oscillation | None:
    if curve.step.size < FEWEST_FOR_WAVES or float(np.ptp(curve.reward)) == 0:
        return None
    return oscillation_test(curve.step, curve.reward)


def _delay(curve: Curve, setup: Setup) -> tuple[DelayEstimate | None, str]:
    """(delay in optimiser steps, why there is none)."""
    per_step, why = _steps_per_unit(curve, setup)
    if why:
        return None, why
    fit = fit_curve(curve)
    best = fit.best
    if best.law == "constant":
        return None, "the log's reward does not change in a way that any law describes better than a constant"
    share = best.r_squared_explainable
    if share < LITTLE:
        return None, f"the best law explains {100 * max(share, 0):.0f} % of what changes slowly in this curve"
    law = next(fit.laws[name] for name in (best.law, "oscillator") if "delay" in fit.laws[name].parameters)
    if law.parameters["amplitude"].value <= 0:
        return None, "the reward falls: its speed is not an answer to training"
    found = law.parameters["delay"]
    if not found.low > 0:
        return None, "the curve does not bound the reward's delay from below: fast and slow rises fit alike"
    source = f"mean delay of the {law.law.replace('_', ' ')} fitted to the log, 90 % interval"
    value, low, high = (end * per_step for end in (found.value, found.low, found.high))
    return DelayEstimate(value, low, high, source, _cautions(best, law)), ""


def _cautions(best: LawFit, law: LawFit) -> tuple[str, ...]:
    found = []
    if best.law != law.law:
        found.append(
            f"the {best.law.replace('_', ' ')} fits better: the geometry of softmax shapes this curve in part, and "
            "the delay of its whole rise is not that near the plateau"
        )
    if not np.isfinite(law.parameters["delay"].high):
        found.append("the curve does not bound the delay from above, so the margins are lower bounds")
    if "plateau" in law.status:
        found.append("the curve does not show its plateau: the delay is that of the rise so far")
    return tuple(found)


def _steps_per_unit(curve: Curve, setup: Setup) -> tuple[float, str]:
    """(optimiser steps per step of the log, why it is not known)."""
    block = max(setup.loop.block, 1.0)
    unit = curve.step_unit if curve.step_unit != "unknown" else setup.trainer.step_unit
    if unit == "optimiser step" or block == 1:
        return 1.0, ""
    if unit == "rollout cycle":
        return block, ""
    return 1.0, "the log does not tell whether it counts optimiser steps or rollout cycles: give step_unit=..."


def _scale(curve: Curve) -> tuple[float, float, str, str]:
    """(lowest, highest reward, why p is not known, how p was read)."""
    if curve.scale.given:
        low, high = curve.scale.low, curve.scale.high
        return low, high, "", f"mean reward on the given scale {low:g} to {high:g}, last fifth of the log"
    if curve.reward.min() >= 0 and curve.reward.max() <= 1:
        return 0.0, 1.0, "", "mean reward of the last fifth of the log, read as 0/1"
    why = "rewards go beyond 0 to 1, so that the mean is no success probability: give success=... or reward_scale=[...]"
    return 0.0, 1.0, why, ""


def _silent(curve: Curve) -> float | None:
    seen = curve.series.get("zero_std_frac")
    if seen is None or not seen.value.size:
        return None
    late = seen.step >= seen.step[0] + LATE * (seen.step[-1] - seen.step[0])
    return float(np.clip(seen.value[late].mean(), 0, 1))


def _answers(rows: int, curve: Curve, setup: Setup) -> int:
    prompts = setup.reading.prompts or 1.0
    per_batch = 1.0 if curve.step_unit == "rollout cycle" else max(setup.loop.block, 1.0)
    return int(rows * curve.log_every / per_batch * prompts * (setup.number("group_size") or 1))


def _schedule(curve: Curve) -> tuple[float | None, float]:
    seen = curve.series.get("lr")
    if seen is None or not seen.value.size or not seen.value.max() > 0:
        return None, 1.0
    return float(seen.value.max()), float(seen.value.max() / seen.value.mean())


def with_logged_rate(setup: Setup, log: Log | None) -> Setup:
    """The settings with the largest learning rate that the log has, unless one was given as a setting."""
    series = None if log is None or log.curve is None else log.curve.series.get("lr")
    asked = setup.facts.get("learning_rate")
    if series is None or not series.value.size or not series.value.max() > 0:
        return setup
    if asked is not None and asked.origin == "option":
        return setup
    largest = float(series.value.max())
    found = setup.number("learning_rate")
    beside = ""
    if asked is not None and not asked.assumed and found and abs(largest / found - 1) > 0.02:
        beside = f"configured: {found:g}"
    fact = Fact(largest, "log", series.key, beside)
    return replace(setup, facts={**setup.facts, "learning_rate": fact})


def with_logged_ages(setup: Setup, log: Log | None) -> Setup:
    """The settings of an asynchronous run with the lag that its log has, where that is more than is known otherwise.

    Logged is a mean over the samples of a step, in versions of the policy. The ages of one step lie between 0 and twice
    their mean where they are spread evenly, so that twice the largest mean is the conservative side. A version is
    K_ref optimiser steps, the last of which adds K_ref - 1. It makes margins smaller; nobody has said that the ages
    stay so, hence nothing above what ran is permitted by it.
    """
    series, loop = None if log is None or log.curve is None else log.curve.series.get("age"), setup.loop
    if series is None or not series.value.size or not loop.late:
        return setup
    largest, block = 2 * float(series.value.max()), max(math.ceil(loop.block - 1e-9), 1)
    steps = math.ceil(largest * block - 1e-9) + block - 1
    if loop.model == "lag" and loop.interval >= steps:
        return setup
    why = f"{loop.why}; samples up to {number_text(largest)} versions old, twice the largest mean '{series.key}'"
    fact = Fact(float(series.value.max()), "log", series.key)
    terms = {**loop.terms, "age": fact}
    loop = replace(loop, model="lag", interval=steps, why=why, terms=terms)
    return replace(setup, reading=replace(setup.reading, loop=loop))


def _notes(curve: Curve, rate: float | None, setup: Setup) -> tuple[str, ...]:
    """What the log and the settings say against each other."""
    names = {one.name for one in TRAINERS.values()} - {"own loop"}
    found = []
    if {curve.framework, setup.trainer.name} <= names and curve.framework != setup.trainer.name:
        found.append(f"the log looks like one of {curve.framework}, the configuration is of {setup.trainer.name}")
    fact = setup.facts.get("learning_rate")
    if fact is not None and rate is not None and fact.source.startswith("configured: "):
        found.append(
            f"the largest learning rate in the log is {rate:g}, the configuration has "
            f"{fact.source.removeprefix('configured: ')}: margins are for the log's"
        )
    elif fact is not None and fact.origin == "option" and rate and fact.value and abs(rate / fact.value - 1) > 0.02:
        found.append(f"the largest learning rate in the log is {rate:g}, given is {fact.value:g}: margins are for that")
    return (*found, *filter(None, (clip_contradicts(curve, setup), kl_contradicts(curve, setup))))


def clip_contradicts(curve: Curve, setup: Setup) -> str:
    """What a clipped fraction above zero says against K_ref = 1; nothing where it does not."""
    series, loop = curve.series.get("clip_frac"), setup.loop
    if series is None or not series.value.size or not series.value.max() > 0 or loop.block > 1 or loop.late:
        return ""
    given = "assumed" if loop.assumed else "read"
    return (
        f"'{series.key}' goes up to {series.value.max():.3g}, which contradicts K_ref = 1 ({given}): nothing "
        "can be clipped at the only update of a batch. Either there are more updates per batch (give "
        "refresh_interval=...), or the sampler and the trainer disagree"
    )


def kl_contradicts(curve: Curve, setup: Setup) -> str:
    """What a logged KL to the reference says against a KL weight of zero; nothing where it does not."""
    series, weight = curve.series.get("kl"), setup.reading.kl_weight
    if series is None or weight is None or weight > 0:
        return ""
    to_the_reference = not re.search("ppo_kl|approx|mismatch|old policy", f"{series.key} {series.meaning}")
    if not to_the_reference or not series.value.size or not np.abs(series.value).max() > 0:
        return ""
    fact = setup.facts.get("kl_weight")
    how = "assumed" if fact is None or fact.assumed else "read"
    return (
        f"the KL term is taken as off ({how}), but the log has '{series.key}', up to {series.value.max():.3g}: a "
        "reference policy was loaded. Give kl_weight=... if it has a weight"
    )

"""The numbers of `advise`: stiffness, margins, largest safe settings, groups; no text beyond reasons."""

from dataclasses import dataclass

import numpy as np

from bandit_lab.runs import advise
from bandit_lab.runs.advise import REACH, DifficultySpread, Limit, Permit, StabilityMargin, StalenessLoop
from bandit_lab.runs.advise.evidence import DelayEstimate, LogEvidence, clip_contradicts
from bandit_lab.runs.diagnose.evidence import MISMATCH, PLUMBING
from bandit_lab.runs.logs.settings import AdviseSettings
from bandit_lab.runs.trainers import Setup
from bandit_lab.theory import as_convention

DELAYS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
SIZES = (2, 4, 8, 16, 32, 64)
INTERVALS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


@dataclass(frozen=True)
class LoopGain:
    """kappa = learning rate * stiffness at the peak learning rate: best value, the end that counts for safety, and the
    far end; `delay` it comes from, if it does."""

    kappa: float
    upper: float
    lower: float
    source: str
    delay: DelayEstimate | None = None


@dataclass(frozen=True)
class Limits:
    """A setting's threshold at the best value, and what is safe (upper end of kappa, safety factor)."""

    threshold: Limit
    safe: Limit


@dataclass(frozen=True)
class DelayRow:
    """What a response time [optimiser steps] would mean for this loop."""

    delay: float
    kappa: float
    margin: StabilityMargin
    safe_interval: Limit


@dataclass(frozen=True)
class GroupRow:
    """One group size: least share of silent groups, share with the spread seen, c_G, noise over today's."""

    size: int
    silent: float
    silent_spread: float | None
    factor: float | None
    temperature: float | None


@dataclass(frozen=True)
class GroupSizes:
    """What group sizes do at success probability `success` (and at the start of the log), and what is wished for."""

    success: float
    rows: tuple[GroupRow, ...]
    now: GroupRow | None
    spread: DifficultySpread | None
    for_signal: int | None
    for_signal_spread: int | None
    for_factor: int | None
    for_temperature: int | None
    observed: float | None = None
    rare: float | None = None


@dataclass(frozen=True)
class Advice:
    """Everything."""

    setup: Setup
    evidence: LogEvidence
    loop: StalenessLoop
    rate: float | None
    gain: LoopGain | None
    strength_reason: str
    margin: StabilityMargin | None
    margin_upper: StabilityMargin | None
    intervals: Limits | None
    rates: Limits | None
    delays: tuple[DelayRow, ...]
    groups: GroupSizes | None
    groups_reason: str
    permit: Permit


def work(setup: Setup, evidence: LogEvidence, settings: AdviseSettings) -> Advice:
    """All numbers of one run."""
    found = setup.loop
    loop = StalenessLoop(found.model, found.interval, setup.momentum, as_convention(setup.convention))
    fact = setup.facts.get("learning_rate")
    rate = None if fact is None or fact.assumed else setup.number("learning_rate") or None
    gain, why = (None, found.why) if found.unbounded else _loop_gain(loop, rate, evidence, settings)
    margins = (None, None) if gain is None else tuple(advise.margin(loop, k) for k in (gain.kappa, gain.upper))
    groups, no_groups = _groups(setup, evidence, settings)
    return Advice(
        setup,
        evidence,
        loop,
        rate,
        gain,
        why,
        margins[0],
        margins[1],
        None if gain is None else _intervals(loop, gain, settings.safety),
        None if gain is None else _rates(loop, gain, settings.safety),
        () if found.unbounded else tuple(_delay_row(loop, delay, settings.safety) for delay in DELAYS),
        groups,
        no_groups,
        permit(loop, gain, why, setup, evidence, settings),
    )


def permit(
    loop: StalenessLoop, gain: LoopGain | None, reason: str, setup: Setup, evidence: LogEvidence,
    settings: AdviseSettings,
) -> Permit:  # fmt: skip
    """How far the settings may move: by what is known of the stiffness, and never further after a failure, nor where
    nobody knows how old the samples are."""
    found = _by_stiffness(loop, gain, reason, setup, evidence, settings)
    if not setup.loop.late or found.factor < 1:
        return found
    return advise.keep(loop, "ages not known", f"asynchronous, ages not known ({setup.loop.late})")


def _by_stiffness(
    loop: StalenessLoop, gain: LoopGain | None, reason: str, setup: Setup, evidence: LogEvidence,
    settings: AdviseSettings,
) -> Permit:  # fmt: skip
    if evidence.diagnosis is not None and PLUMBING in evidence.diagnosis.verdict:
        return advise.keep(loop, "failed run", "the log shows what no run that is wired as it should be can show")
    if evidence.failed:
        return advise.after_failure(loop, evidence.failed)
    if evidence.diagnosis is not None and MISMATCH in evidence.diagnosis.verdict:
        return advise.keep(loop, "failed run", "the engine does not sample from the policy that is trained: mend that")
    if evidence.declined:
        return advise.keep(loop, "failed run", "the reward ends lower than it was, by more than noise does")
    if gain is None:
        return advise.keep(loop, "no evidence", reason)
    if gain.source == "given":
        return advise.from_stiffness(loop, gain.kappa, settings.safety)
    told = any(fact.origin == "option" for fact in setup.loop.terms.values())
    if evidence.curve is not None and not told and clip_contradicts(evidence.curve, setup):
        return advise.keep(loop, "no evidence", "the clipped fraction contradicts K_ref, so that it is not known")
    return advise.from_curve(loop, gain.upper, settings.safety)


def _loop_gain(
    loop: StalenessLoop, rate: float | None, evidence: LogEvidence, settings: AdviseSettings
) -> tuple[LoopGain | None, str]:
    if settings.stiffness is not None:
        if rate is None:
            return None, "stiffness is given but no learning rate: give learning_rate=..."
        kappa = rate * settings.stiffness
        return LoopGain(kappa, kappa, kappa, "given"), ""
    if settings.delay is not None:
        kappa = advise.kappa_of_delay(loop, settings.delay)
        given = DelayEstimate(settings.delay, settings.delay, settings.delay, "given")
        return LoopGain(kappa, kappa, kappa, "response time given", given), ""
    delay = evidence.delay
    if delay is None:
        return None, evidence.delay_reason
    seen = evidence.learning_rate
    to_peak = evidence.schedule * (rate / seen if rate and seen else 1.0)
    best, upper = (advise.kappa_of_delay(loop, value) * to_peak for value in (delay.value, delay.low))
    lower = advise.kappa_of_delay(loop, delay.high) * to_peak if np.isfinite(delay.high) else 0.0
    return LoopGain(best, upper, lower, delay.source, delay), ""


def _intervals(loop: StalenessLoop, gain: LoopGain, safety: float) -> Limits:
    safe = advise.largest_safe_interval(loop, gain.upper, safety)
    if gain.delay is not None:
        safe = safe.within(REACH * max(loop.interval, 1))
    return Limits(advise.largest_safe_interval(loop, gain.kappa, 1.0), safe)


def _rates(loop: StalenessLoop, gain: LoopGain, safety: float) -> Limits:
    """Learning rates over the present one."""
    threshold, safe = advise.largest_safe_kappa(loop, 1.0), advise.largest_safe_kappa(loop, safety)
    far = safe.in_units_of(gain.upper)
    return Limits(threshold.in_units_of(gain.kappa), far if gain.delay is None else far.within(REACH))


def _delay_row(loop: StalenessLoop, delay: float, safety: float) -> DelayRow:
    kappa = advise.kappa_of_delay(loop, delay)
    return DelayRow(delay, kappa, advise.margin(loop, kappa), advise.largest_safe_interval(loop, kappa, safety))


def _groups(setup: Setup, evidence: LogEvidence, settings: AdviseSettings) -> tuple[GroupSizes | None, str]:
    success = evidence.success if settings.success is None else settings.success
    if success is None:
        return None, evidence.success_reason
    size, rule = int(setup.number("group_size") or 0), setup.reading.rule.name or "dr_grpo"
    seen = evidence.silent if settings.success is None else None
    spread = None if seen is None or size < 2 else advise.spread_from_silence(success, size, seen)

    def row(group: int) -> GroupRow:
        return GroupRow(
            group,
            advise.silent_share(success, group),
            None if spread is None else spread.silent(group),
            advise.group_factor(rule, success, group),
            size / group if size else None,
        )

    rows = tuple(row(group) for group in sorted({*SIZES, *([size] if size > 1 else [])}))
    rare = (
        1 - 0.05 ** (1 / evidence.answers) if success == 0 and settings.success is None and evidence.answers else None
    )
    return GroupSizes(
        success,
        rows,
        row(size) if size > 1 else None,
        spread,
        advise.group_for_signal(rare if rare else success, settings.signal),
        None if spread is None else advise.group_for_signal(success, settings.signal, spread),
        advise.group_for_factor(rule, success, settings.group_factor),
        int(np.ceil(size / settings.temperature - 1e-9)) if size else None,
        seen,
        rare,
    ), ""

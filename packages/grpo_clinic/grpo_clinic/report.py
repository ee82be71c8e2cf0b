"""What is said of a run: the outcome, the facts, what to do, what was not looked at. A finding is said once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grpo_clinic import noise, timing
from grpo_clinic.control import MUST, not_in_order
from grpo_clinic.law import stable_up_to
from grpo_clinic.outcome import Outcome, outcome_of
from grpo_clinic.readers.record import Curve
from grpo_clinic.rules import Case, Fact, Missing, rules

FAILURES = ("reward_hacking", "advantage_degeneracy", "policy_concentration", "dynamical_instability")
"""The four failures of arXiv 2606.30789."""
_MEANS = ("policy_concentration", "advantage_degeneracy", "clipped", "truncated_answers")
"""No harm by themselves: a policy that has settled on the right answer is certain, too."""
_OF_TRAINING = (*FAILURES, "collapsed", "stalled")
"""What nothing at learning rate 0 can bring about."""
_FURTHER = {"zero_std_frac", "reward_std", "lr", "engine_k1", "grad_norm"}
"""Columns that rules look at without needing them."""
_SAID_BY = {"fell": "collapsed", "flat": "stalled", "swings": "dynamical_instability", "ended": "diverging"}
"""Outcome -> the verdict whose fact says it."""
_THEN = {
    "misreported_probabilities": (
        "Let the engine report the probabilities that it sampled from: same temperature, top-p and top-k on both sides."
    ),
    "sampler_mismatch": (
        "Look at the engine: weights that were not handed over, precision, or another kernel. "
        "No learning rate mends it."
    ),
    "stale_answers": "Look at the queue: it hands over answers that the recipe forbids.",
    "truncated_answers": "Allow longer answers, or penalise length.",
    "diverging": "Restart from a checkpoint before it, with half the learning rate or a larger KL weight.",
    "dynamical_instability": "Halve the learning rate, or take fresher answers.",
    "reward_hacking": "Read ten answers of high reward, and mend the reward before training on.",
    "policy_concentration": "Add entropy, raise the temperature, or stop here.",
    "clipped": "Take fewer updates per batch, or a smaller learning rate.",
    "advantage_degeneracy": "Take prompts of middling difficulty, or larger groups.",
    "collapsed": "Restart from a checkpoint before the fall, with half the learning rate.",
    "stalled": "Check that some groups differ; then take easier prompts, more of them, or a larger learning rate.",
}
"""What to do, by verdict."""
ORDER = tuple(_THEN)
"""The order of a verdict: a cause stands before its effects."""


@dataclass(frozen=True)
class Report:
    """One run. `facts`: all that rules saw, those that fire first. `notes`: verdict -> why it is no failure by itself.

    `not_logged`: what rules needed and the log lacks. `not_judged`: what is there and too short or unfit, and columns
    that no rule looks at. `moved`: the series that left their range, the first one first; those up to step `until` did
    so before the reward fell, or with it. `control`: why a control run gives no all-clear; None: it is none.
    """

    name: str
    outcome: Outcome
    facts: tuple[Fact, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    traps: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    not_logged: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()
    moved: tuple[timing.Move, ...] = ()
    until: float = math.nan
    control: tuple[str, ...] | None = None

    @property
    def fired(self) -> tuple[Fact, ...]:
        """The facts beyond their limit, the strongest of each verdict first in the verdict's order."""
        return tuple(one for one in self.facts if one.fires)

    @property
    def verdict(self) -> tuple[str, ...]:
        """Names of what was found, causes first, those that are notes last; empty where nothing was."""
        names = dict.fromkeys(one.verdict for one in self.fired)
        return tuple(sorted(names, key=lambda name: name in self.notes))

    @property
    def harms(self) -> tuple[str, ...]:
        """The verdict without notes."""
        return tuple(name for name in self.verdict if name not in self.notes)

    @property
    def scores(self) -> dict[str, float]:
        """Verdict -> largest score of its facts, 1 and more: beyond the limit."""
        names = dict.fromkeys(one.verdict for one in self.facts)
        return {name: max(0.0, *(float(one.score) for one in self.facts if one.verdict == name)) for name in names}

    @property
    def moved_first(self) -> timing.Move | None:
        """The series that moved first, if it did by the time that the reward fell."""
        return self.moved[0] if self.moved and self.moved[0].step <= self.until else None

    @property
    def next(self) -> str:
        """What to do, in one sentence or two."""
        if self.control is not None and not self.harms:
            wrong = "; ".join(self.control)
            return f"No all-clear from this control run: {wrong}." if wrong else "What a control run tests is in order."
        first = self.moved_first
        by_engine = first and first.role in timing.ENGINE
        for name in self.harms:
            windows = [one.window for one in self.fired if one.verdict == name]
            elsewhere = all(begin > self.until or end < 0.5 * self.until for begin, end in windows)
            if elsewhere and name in ("misreported_probabilities", "sampler_mismatch"):
                continue
            if by_engine and name in ("collapsed", "dynamical_instability"):
                return "Look at the engine first: it moved no later than the reward. No learning rate mends it."
            own = next((one.then for one in self.fired if one.verdict == name and one.then), "")
            return own or _THEN.get(name, f"Look at {name.replace('_', ' ')}.")
        if self.outcome.what == "fell":
            why = "The reward went down, and no rule says why: read ten answers of the beginning and ten of now."
            return next((one.then for one in self.facts if one.verdict == "collapsed" and one.then), why)
        if self.outcome.what in ("too short", "not logged"):
            return "Log the reward at every step, and run longer: then more can be said."
        found = "What is noted asks for no change by itself" if self.notes else "No rule asks for a change"
        return f"{found}. That does not prove that all is well."


def report(
    case: Case,
    name: str = "run",
    limits: Mapping[str, float] | None = None,
    errors: Mapping[str, float] | None = None,
    traps: tuple[str, ...] = (),
) -> Report:
    """Put all rules to one run. limits, errors: of rules, by name, in place of theirs.

    Raises:
      ValueError: for the name of no rule.
    """
    curve, asked = case.curve, rules(limits, errors)
    answers = [rule(case) for rule in asked]
    missing = [one for one in answers if isinstance(one, Missing)]
    facts = [one for one in answers if isinstance(one, Fact)]
    control = not_in_order(case)
    if any(one.verdict == "misreported_probabilities" and one.fires for one in facts):
        facts = [one.unless(one.verdict == "sampler_mismatch", "; misreported: this is no distance") for one in facts]
    if control is not None:
        facts = [one.unless(one.verdict in _OF_TRAINING) for one in facts]
    if any(one.fires and one.verdict == "collapsed" for one in facts):
        facts = [one.unless(one.verdict == "stalled") for one in facts]
    facts.sort(key=lambda one: (not one.score >= 1, [*ORDER, one.verdict].index(one.verdict), -one.score))
    short = {one.what: one for one in sorted(missing, key=lambda one: -one.rows) if one.logged}
    unfit = [
        f"{what} ({one.count} values, a rule needs {one.rows})" if one.count else what for what, one in short.items()
    ]
    fired = [one for one in facts if one.fires]
    onset = next((one.window[0] for one in fired if one.verdict in ("collapsed", "dynamical_instability")), None)
    used = {role for rule in asked for role in rule.needs} | _FURTHER | ({*MUST} if control is not None else set())
    return Report(
        name,
        outcome_of(case, facts),
        tuple(facts),
        _notes(case, fired),
        (*traps, *_traps(case)),
        (*curve.notes, *_ages(curve)),
        tuple(dict.fromkeys(one.what for one in missing if not one.logged)),
        (*unfit, *[one.key for role, one in curve.series.items() if role not in used], *curve.unread),
        () if onset is None else tuple(timing.moves(curve, onset)),
        math.nan if onset is None else timing.known_to(curve, onset),
        control,
    )


def _notes(case: Case, fired: list[Fact]) -> dict[str, str]:
    """Verdict -> why it is a note: every fact of it says so, or it is a means and no harm shows."""
    own: dict[str, list[str]] = {}
    for one in fired:
        own.setdefault(one.verdict, []).append(one.note)
    notes = {name: why[0] for name, why in own.items() if all(why)}
    harm = any(name not in (*notes, *_MEANS, "stalled") for name in own)
    harm = harm or any(one and noise.fallen(one.value) for one in (case.curve.reward_series, case.curve.eval))
    for name in [name for name in own if name in _MEANS]:
        why = notes.pop(name, "") or _no_harm(case, name)
        notes |= {name: why} if why and not harm else {}
    return notes


def _no_harm(case: Case, name: str) -> str:
    """Why a means does no harm, "" where it may."""
    reward, width = case.reward, max(case.reward.size // 10, 3)
    if not reward.size:
        return "without a reward nobody can tell whether that is harm"
    before, behind = np.array_split(reward[reward.size // 2 :], 2)
    error = noise.noise_level(reward) * float(np.sqrt(2 / before.size))
    if behind.size and behind.mean() - before.mean() > noise.CLEAR * error:
        return "the reward still rises"
    first, last = case.height(reward[:width]), case.height(reward[-width:])
    if name != "advantage_degeneracy" and last > 0.5 and case.sure_of_its_scale(first, last):
        return "the reward holds in the upper half of its scale"
    return ""


def _traps(case: Case) -> tuple[str, ...]:
    curve, interval = case.curve, case.refresh_interval or case.curve.settings.get("refresh_interval")
    still = [key for key, one in curve.parts.items() if one.value.size >= 20 and not np.ptp(one.value)]
    traps = [f"'{key}' is one number throughout: this part of the reward teaches nothing" for key in still]
    clipped = curve.series.get("clip_frac")
    if clipped is not None and not clipped.value.any() and interval in (1, None):
        traps.append("the clipped fraction is 0, as it must be with one update per batch: the ratio is always 1")
    if "reward_std" in curve.series and curve.framework == "TRL":
        traps.append("TRL's reward_std is the mean within-group std up to v0.24 and the std of the batch from v1.0")
    return tuple(traps)


def _ages(curve: Curve) -> tuple[str, ...]:
    """What the logged ages do to the edge of stability, as plain numbers."""
    bounds = []
    for role, word, largest in (("age", "mean", 0), ("age_max", "largest", 1)):
        if (ages := curve.series.get(role)) is not None:
            age = float(ages.value.max() if largest else ages.value.mean())
            bounds.append(f"{stable_up_to(age, age)[largest]:.3g} by the {word} age, {age:.3g}")
    edge = "learning rate times stiffness without momentum: stable up to"
    return (f"{edge} {', and '.join(bounds)} (2 with fresh answers)",) if bounds else ()


def text(judged: Report, curve: Curve, whole: bool = False) -> str:
    """The first screen, at most eight lines; `whole`: every fact with its limit, and what was read."""
    outcome, count = judged.outcome, curve.counted or curve.reward.size
    what = "a control run, at learning rate 0" if judged.control is not None else outcome.what
    facts = judged.fired
    shown = facts if whole else list({one.verdict: one for one in reversed(facts)}.values())[::-1][:3]
    said = _SAID_BY.get(outcome.what) in [one.verdict for one in shown] and judged.control is None
    lines = [f"{judged.name}, {count} reward{'s' * (count != 1)}: {what}."]
    lines[0] += "" if said else f" {outcome.text[:1].upper()}{outcome.text[1:]}."
    lines += [f"  {_fact_text(one, judged.notes, whole)}" for one in shown]
    if hidden := {one.verdict for one in facts} - {one.verdict for one in shown}:
        lines[-1] += f" ({len(hidden)} more: -v)"
    if first := judged.moved_first:
        lines.append(f"  Moved first, or with it: '{first.key}' at step {first.step:g}, by {first.times:.3g} spreads.")
    lines.append(f"Next: {judged.next}")
    most, between = (None, "; ") if whole else (5, ", ")
    if whole:
        lines += [f"  no finding: {_fact_text(one, {}, True)}" for one in judged.facts if not one.fires]
    for title, names in (("Not logged", judged.not_logged), ("Logged and not judged", judged.not_judged)):
        more = f", and {len(names) - 5} more" if most and len(names) > most else ""
        lines += [f"{title}: {between.join(names[:most])}{more}."] if names else []
    if whole:
        lines += [f"Beware: {one}." for one in judged.traps]
        lines += [f"Note: {one}." for one in judged.remarks]
        lines.append(f"Read: {'; '.join(curve.recognised)}.")
    return "\n".join(lines)


def _fact_text(one: Fact, notes: Mapping[str, str], whole: bool) -> str:
    limit = f" [{one.rule}: {one.value:.4g}, limit {one.limit:.4g} {one.unit}]" if whole else ""
    note = f"; a note: {notes[one.verdict]}" if one.verdict in notes else ""
    name = one.verdict.replace("_", " ")
    return f"{name}, steps {one.window[0]:g} to {one.window[1]:g}: {one.text}{note}{limit}."


def row(judged: Report, curve: Curve) -> dict[str, Any]:
    """The same as numbers; what is no finite number is null."""
    said = {rule.name: {"formula": rule.formula, "source": rule.source} for rule in rules()}
    numbers: dict[str, Any] = plain(
        {
            "log": judged.name,
            "path": curve.source,
            "reward_key": curve.reward_series.key or None,
            "n_points": curve.reward.size,
            "outcome": vars(judged.outcome),
            "verdict": judged.verdict,
            "notes": judged.notes,
            "evidence": [{**one._asdict(), "fires": one.fires, **said[one.rule]} for one in judged.facts],
            "moved_first": [{"key": one.key, "step": one.step} for one in judged.moved if one.step <= judged.until],
            "control": judged.control,
            "traps": judged.traps,
            "remarks": judged.remarks,
            "logged_and_not_judged": judged.not_judged,
            "not_logged": judged.not_logged,
            "next": judged.next,
            "recognised": curve.recognised,
        }
    )
    return numbers


def plain(value: Any) -> Any:
    """As JSON has it: lists, dictionaries, Python's numbers; None for what is no finite number."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value

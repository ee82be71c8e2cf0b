"""What a diagnostic says: a score, the numbers behind it, and what it would have needed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grpo_clinic import _checks

Failure = Literal["reward_hacking", "advantage_degeneracy", "policy_concentration", "dynamical_instability"]
FAILURES: tuple[Failure, ...] = (
    "reward_hacking",
    "advantage_degeneracy",
    "policy_concentration",
    "dynamical_instability",
)
NO_REWARD, CONTROL = "no reward", "a control run, at learning rate 0"
"""What a run may be that no public run of known outcome was."""
WITHOUT_REWARD = ("advantage_degeneracy", "policy_concentration", "diverging", "truncated_answers")
"""What can be told of a log that holds no reward."""
OUTCOMES = ("stalled", "collapsed", "diverging", "truncated_answers")
"""What became of a run, whatever the cause. Judged like the failures, and part of the verdict."""
MISMATCH = "sampler_mismatch"
"""The engine samples from another policy than the one that is trained: told only where a log has its distance."""
PLUMBING = "plumbing"
"""What is impossible in a run that is wired as it should be: told only where a log holds what is asked."""
FORMAT_ONLY = "format_only"
"""The gain is that of the answers' form: told only where a log has the shares of the form and of right answers."""
LENGTH = "answer_length"
"""The answers are much shorter or longer than they were: told only where a log has their length."""
CAUSES_FIRST = (
    PLUMBING,
    MISMATCH,
    "truncated_answers",
    "diverging",
    "dynamical_instability",
    "reward_hacking",
    FORMAT_ONLY,
    "policy_concentration",
    LENGTH,
    "advantage_degeneracy",
    "collapsed",
    "stalled",
)
"""The order of a verdict: a cause stands before its effects."""
_EFFECTS = ("policy_concentration", LENGTH, "advantage_degeneracy")
"""What follows a collapse where it sets in behind it."""
_SAME = {"diverging", "dynamical_instability", "collapsed"}
"""Answered alike: a step was too large for the samples that it was taken on."""
_METRICS = {
    "reward_hacking": "held-out results",
    "policy_concentration": "the entropy",
    "advantage_degeneracy": "the share of silent groups",
    "dynamical_instability": "the reward at every step",
    "diverging": "KL or gradient norm",
    "stalled": "more steps or more prompts per step",
}


@dataclass(frozen=True)
class Evidence:
    """One number against its threshold: `metric` over `window` (first and last step) was `value`, limit `threshold`.

    `score` is how far it is beyond the threshold, in the right direction: 1 and more means the failure. `also` is what
    must hold besides: a number may be beyond its threshold and mean nothing.
    """

    metric: str
    window: tuple[float, float]
    value: float
    threshold: float
    text: str
    score: float = 0.0
    also: str = ""

    @property
    def above(self) -> bool:
        """Whether this number alone means the failure."""
        return self.score >= 1


@dataclass(frozen=True)
class Finding:
    """One diagnostic's result.

    `score` is the value of the strongest evidence over its threshold, oriented so that >= 1 means the failure; None
    if it could not be judged, with what was `missing` and what that rules out. `remark`: what was seen and is no
    failure. `advice`: what to do next, where the evidence asks for something else than the failure's name does.
    `wanted`: what a log would have to hold to be judged, where that is not what such logs mostly lack.
    `note`: why it is a note as long as nothing else is wrong, or nothing.
    """

    failure: str
    score: float | None
    evidence: tuple[Evidence, ...] = ()
    missing: str = ""
    remark: str = ""
    advice: str = ""
    wanted: str = ""
    note: str = ""

    @property
    def present(self) -> bool:
        """Whether the failure is there."""
        return self.score is not None and self.score >= 1

    @property
    def onset(self) -> float:
        """First step of the evidence that the failure rests on; infinite without any."""
        return min((one.window[0] for one in self.evidence if one.above), default=float("inf"))


@dataclass(frozen=True)
class DiagnoseSettings:
    """Thresholds of the diagnostics, all dimensionless unless said.

    `false_alarm` rate of the oscillation test and of each test of variance growth; `surrogates` simulated for it;
    `wave_share` of the curve's span that an oscillation must have from peak to peak;
    `silent_share` of groups without signal that counts as degenerate, as long as the reward stands below
    `solved_share` of its scale; `entropy_share` of the early entropy below which the policy counts as concentrated;
    `coupling_z` standard errors by which the held-out slope must fall short; `collapse_share` of the gain that must be
    lost, by at least `collapse_z` standard errors; `swing_share` of its span by which the running mean must fall and
    come back twice, by at least `swing_z` standard errors; `truncated_share` of the answers that the length limit may
    cut off; `seed` of the surrogates. `options` of further diagnostics,
    by name.

    Tuned on the training runs of `conf/benchmark`.
    """

    false_alarm: float = 0.005
    surrogates: int = 499
    wave_share: float = 0.1
    silent_share: float = 0.7
    solved_share: float = 0.85
    entropy_share: float = 0.15
    coupling_z: float = 2.25
    collapse_share: float = 0.5
    collapse_z: float = 5.0
    swing_share: float = 0.4
    swing_z: float = 5.5
    truncated_share: float = 0.9
    seed: int = 0
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (
            "false_alarm",
            "silent_share",
            "solved_share",
            "entropy_share",
            "collapse_share",
            "swing_share",
            "wave_share",
            "truncated_share",
        ):
            _checks.require(0 < getattr(self, name) < 1, name, "a number in (0, 1)", getattr(self, name))
        _checks.integer("surrogates", self.surrogates, 19)
        _checks.positive("coupling_z", self.coupling_z)
        _checks.positive("collapse_z", self.collapse_z)
        _checks.positive("swing_z", self.swing_z)


@dataclass(frozen=True)
class Diagnosis:
    """All findings on one run, traps of its configuration and remarks that are no failure.

    `severity` grades every failure of the verdict: (`failure` or `note`, reason). `gained` is false where the reward
    shows nothing learned. `first_step` of the log: no checkpoint lies before it. `unlike`: what sets the run apart
    from others (`NO_REWARD`, `CONTROL`), or nothing. `not_in_order`: why a control run gives no all-clear. `looked_at`:
    what was judged; `not_judged`: columns that are logged and that no rule judges.
    """

    name: str
    findings: tuple[Finding, ...]
    traps: tuple[str, ...] = ()
    remarks: tuple[str, ...] = field(default=())
    severity: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    gained: bool = True
    first_step: float = -math.inf
    unlike: str = ""
    not_in_order: tuple[str, ...] = ()
    looked_at: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()

    @property
    def verdict(self) -> tuple[str, ...]:
        """The failures present, causes before effects; or `not_judged` where more than half could not be, or
        nothing shows that the run learned; or `healthy`.

        Silent groups and lost entropy that set in behind a collapse are its effects.
        """
        present = {f.failure: f.onset for f in self.findings if f.present}
        if not present:
            little = 2 * len(self.unjudged) > len(self.findings)
            return ("not_judged",) if little or not self.gained else ("healthy",)
        order = list(CAUSES_FIRST)
        if "collapsed" in present:
            for name in _EFFECTS:
                if name in present and present[name] >= present["collapsed"]:
                    order.remove(name)
                    order.append(name)
        return tuple(sorted(present, key=lambda name: order.index(name) if name in order else -1))

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Failures and outcomes that could not be judged."""
        return tuple(f.failure for f in self.findings if f.score is None)

    @property
    def next(self) -> str:
        """What to do next, in one line."""
        return next_step(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """Failures of the verdict that have done no harm that shows."""
        return tuple(name for name, (grade, _) in self.severity.items() if grade == "note")

    @property
    def scores(self) -> dict[str, float | None]:
        """Failure -> score; None where it could not be judged."""
        return {f.failure: f.score for f in self.findings}

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Everything that was measured."""
        return tuple(e for f in self.findings for e in f.evidence)

    @property
    def missing(self) -> tuple[str, ...]:
        """What the log lacks, and what could not be judged for it."""
        return tuple(f.missing for f in self.findings if f.missing)


_SHOWN = 6
"""Columns that a line names."""


def _wanted(found: Diagnosis) -> list[str]:
    """What a log would have to hold for the rest to be judged."""
    lacking = (one.wanted or _METRICS.get(one.failure, "") for one in found.findings if one.score is None)
    return list(dict.fromkeys(text for text in lacking if text))


def next_step(found: Diagnosis) -> str:
    """The answer to the first cause, with the step to go back to. For a user's own diagnostic: look at its evidence."""
    first = next((name for name in found.verdict if name not in found.notes), "")
    present = {finding.failure: finding for finding in found.findings if finding.present}
    if first in present and present[first].advice:
        return present[first].advice
    if first in _SAME:
        onset = min(present[name].onset for name in _SAME & set(present))
        back = f"from a checkpoint before step {onset:g}" if math.isfinite(onset) else "from an earlier checkpoint"
        back, again = ("", "start again") if onset <= found.first_step else (f" {back}", "restart")
        stop = f"Stop and {again}" if "collapsed" in present or "diverging" in present else again.capitalize()
        return f"{stop}{back} with half the learning rate, or half the updates per batch; change one of the two."
    if first in present:
        return {
            "reward_hacking": f"Stop; read answers from step {present[first].onset:g} on, and mend the reward before "
            "training goes on.",
            MISMATCH: "Run the same settings at learning rate 0 and compare the log-probabilities of engine and "
            "trainer: mend what gives the engine its weights before any other setting.",
            PLUMBING: "Change no setting of the training. Run the same settings at learning rate 0, where nothing may "
            "move: `diagnose LOG control=true` writes down how.",
            FORMAT_ONLY: "Read ten answers: they have the form and not the answer. Pay less for the form, or take "
            "easier prompts; more steps of this do not help.",
            LENGTH: f"Read ten answers from step {present[first].onset:g} on, beside ten from the start. Where they "
            "gave up or ramble, go back behind that step, and bound or pay for the length.",
            "truncated_answers": "Raise the length limit of the answers, or shorten what the prompts ask for: nearly "
            "no answer reaches its end.",
            "policy_concentration": "Raise the sampling temperature, the upper clip or the KL weight"
            + (
                "."
                if present[first].onset <= found.first_step
                else f"; go back to a checkpoint before step {present[first].onset:g}."
            ),
            "advantage_degeneracy": "Choose prompts that are solved sometimes, or enlarge the groups: silent groups "
            "teach nothing.",
            "stalled": "Do not wait. Read ten answers and their rewards; then raise the learning rate, or choose "
            "easier prompts.",
        }.get(first, f"Look at the evidence for {first.replace('_', ' ')}.")
    if found.unlike == CONTROL:
        if found.not_in_order:
            return f"No all-clear from this control run: {'; '.join(found.not_in_order)}."
        return "The plumbing that a control run tests is in order. Look for the run's own failure in its dynamics."
    lacking, noted = _wanted(found), " Watch what is noted." if found.notes else ""
    if found.verdict == ("not_judged",) or found.unlike:
        return f"Log {', '.join(lacking) or 'a longer run'}: then more can be judged.{noted}"
    more = f" Not logged: {', '.join(lacking)}." if lacking else ""
    rest = len(found.not_judged) - _SHOWN
    others = ", ".join(found.not_judged[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
    beside = f" Logged and not judged: {others}." if others else ""
    return f"Nothing that was looked at asks for a change: {', '.join(found.looked_at)}.{noted}{beside}{more}"

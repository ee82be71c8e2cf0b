"""The questions that people ask, answered in words from the numbers."""

import numpy as np

from bandit_lab.app.document.value import number
from bandit_lab.runs.advise import SCATTER, SPREAD
from bandit_lab.runs.advise.words import INTERVAL, LETTERS, limit_text, rate_at, short
from bandit_lab.runs.advise.work import Advice, GroupSizes
from bandit_lab.runs.diagnose import DiagnoseSettings
from bandit_lab.runs.diagnose.evidence import Evidence
from bandit_lab.runs.logs.settings import AdviseSettings
from bandit_lab.runs.trainers import Setup

ALARM = DiagnoseSettings().false_alarm
WASTED = 0.6
"""Share of silent groups from which signal, not stability, is the first thing to mend."""
ALL_SILENT = 0.98
SOLVED = 0.9

Answer = tuple[str, str]


def answers(advice: Advice, settings: AdviseSettings) -> list[Answer]:
    """(question, answer) pairs, the most asked first."""
    found = [
        ("Which single knob?", _knob(advice, settings)),
        ("How stale is too stale?", _stale(advice, settings)),
        ("How large must G be?", _group(advice, settings)),
    ]
    if advice.evidence.curve is not None:
        found.append(("Noise or instability?", _noise(advice)))
    return [(question, answer.rstrip(". ") + ".") for question, answer in found]


def unsaid(advice: Advice, settings: AdviseSettings) -> list[Answer]:
    """The answers without what the headline and the severe traps above them say already; some are then empty."""
    above = [_permission(advice), *(f"First of all: {trap.text}" for trap in advice.setup.traps if trap.severe)]
    fall, again = advice.evidence.fall, [_bring(advice)]
    if fall is not None and fall.text in above[0]:
        again += [f": the reward {fall.text}", f" with half, {' or '.join(_ways(advice))}"]

    def rest(answer: str) -> str:
        for one in above:
            answer = answer.removeprefix(one.rstrip(". ")).lstrip(". ")
        for one in again:
            answer = answer.replace(one, "")
        return f"{kept}." if (kept := answer.rstrip(". ")) else ""

    return [(question, rest(answer)) for question, answer in answers(advice, settings)]


def _knob(advice: Advice, settings: AdviseSettings) -> str:
    severe = [trap for trap in advice.setup.traps if trap.severe]
    if severe:
        return f"First of all: {severe[0].text}"
    if advice.evidence.fall is not None:
        return _collapsed(advice, advice.evidence.fall)
    groups = advice.groups
    if groups is not None and groups.success == 1:
        return f"None: {_never(groups, settings)}"
    if groups is not None and groups.success < SOLVED:
        share = groups.observed
        if share is None and settings.success is not None and groups.now is not None:
            share = groups.now.silent
        if share is not None and share >= WASTED:
            waste = f"{share:.0%} of the groups are silent and teach nothing"
            return f"The signal, not stability: {waste}. {_more(groups, settings)}"
    if advice.permit.basis == "failed run":
        return _permission(advice)
    if advice.margin_upper is None:
        return _unknown(advice)
    if advice.margin_upper.exact >= settings.safety:
        return f"{_permission(advice)} If the curve is restless, suspect noise: a larger G or more prompts per step"
    return _mend(advice, settings)


def _collapsed(advice: Advice, fall: Evidence) -> str:
    """What to try after a collapse: a rule of thumb, and said to be one."""
    first = f"This run {'diverged' if fall.metric == 'nonfinite' else 'collapsed'}: the reward {fall.text}"
    known = "what came before does not tell a margin"
    if advice.margin is not None and advice.margin.exact < 1:
        known = f"the part before it reads as unstable, margin {short(advice.margin.exact)}"
    elif advice.margin is not None:
        margins = f"{short(advice.margin.exact)} (law {short(advice.margin.law)})"
        known = (
            f"the part before it reads a margin of {margins} for the softest mode, so that a stiffer one, noise or a "
            "missing clip explains it"
        )
    return f"{first}; {known}. A rule of thumb: start again from before it with half, {' or '.join(_ways(advice))}"


def _ways(advice: Advice, suffix: str = "", named: bool = False) -> list[str]:
    """The moves that are permitted: those that leave a setting as it is are left out."""
    permit, loop = advice.permit, advice.loop
    fact = advice.setup.facts.get("learning_rate")
    key = f" ({'learning_rate' if fact is None else fact.key})" if named else ""
    found = [] if permit.factor == 1 else [f"the learning rate{key} to {rate_at(advice, permit.factor)}{suffix}"]
    if permit.interval != loop.interval:
        knobs = ", ".join(advice.setup.loop.knobs)
        found.append(f"the {INTERVAL[loop.model]} ({knobs}) to {permit.interval}{suffix}")
    return found


def headline(advice: Advice) -> str:
    """What may be run next, in one or two sentences, and how much of it rests on assumptions: never more than there is
    evidence for."""
    every, assumed = counted(advice)
    names = f": {', '.join(assumed)}" if assumed else ""
    return f"{_permission(advice)} {len(assumed) or 'None'} of {len(every)} settings assumed{names}."


def counted(advice: Advice) -> tuple[list[str], list[str]]:
    """(settings that the advice rests on, those among them that nobody told)."""
    setup = advice.setup
    facts = {"learning_rate": "learning rate", "group_size": "group size", "optimizer": "optimiser",
             "beta1": "momentum", "clip_high": "clip range"}  # fmt: skip
    if setup.adaptive:
        facts["beta2"] = "beta2"
    told = {name: (fact := setup.facts.get(key)) is not None and fact.value is not None and not fact.assumed
            for key, name in facts.items()}  # fmt: skip
    told |= {"staleness": not (setup.loop.assumed or setup.loop.late), "KL weight": not weight_assumed(setup)}
    return list(told), [name for name, known in told.items() if not known]


def weight_assumed(setup: Setup) -> bool:
    """Whether the KL weight rests on defaults alone."""
    keys = ("kl_weight", "use_kl_loss", "kl_loss_coef", "use_kl_in_reward", "kl_coef")
    known = [setup.facts[key] for key in keys if key in setup.facts]
    return all(fact.assumed for fact in known)


def _permission(advice: Advice) -> str:
    permit = advice.permit
    if permit.basis == "ages not known":
        return f"Keep what you have, and raise nothing: this run is {permit.reason}."
    if permit.basis == "no evidence":
        return f"Keep what you have. Nothing here says that more would be stable: {permit.reason}."
    if permit.basis == "failed run" and permit.factor == 1:
        return f"Keep what you have, and raise nothing: {permit.reason}."
    if permit.basis == "failed run":
        half = " or ".join(_ways(advice))
        return f"Raise nothing: this run failed ({permit.reason}). Start again with half: {half}."
    if permit.factor < 1:
        return f"Go down: {' or '.join(_ways(advice))}. {permit.reason[0].upper()}{permit.reason[1:]}."
    ways = _ways(advice, " at most")
    if not ways:
        return f"Keep what you have: the margin that this curve shows is used up by {_allowance(advice)}."
    text = f"One of these may go up: {', or '.join(ways)}."
    if permit.basis == "measured stiffness":
        return f"{text} This is the exact threshold at the measured stiffness, over {permit.divisor:g}."
    return f"{text} More needs a measured stiffness (stiffness=...): {permit.reason}."


def _allowance(advice: Advice) -> str:
    divisor = advice.permit.divisor or SPREAD * SCATTER
    return f"the stiffer modes that it does not show and the scatter of equal runs (together a factor of {divisor:g})"


def _unknown(advice: Advice) -> str:
    """What can be said without a stiffness."""
    if advice.setup.loop.unbounded:
        return _permission(advice)
    loop = advice.loop
    wave = advice.evidence.wave
    if wave is not None and wave.p_value < ALARM:
        return (
            f"{_permission(advice)} The reward swings with a period of {number(wave.period, 3)} steps, more than noise "
            "does: a smaller learning rate is the first thing to try"
        )
    if loop.mean_age > 0:
        knobs = ", ".join(advice.setup.loop.knobs)
        return (
            f"{_permission(advice)} The {INTERVAL[loop.model]} ({knobs}) is the knob with the least doubt, and the "
            "table by response time says what it would do"
        )
    fresh = "K_ref is 1 if the defaults hold, which nobody said" if advice.setup.loop.assumed else "K_ref is 1"
    return f"{_permission(advice)} {fresh}; against noise, a larger G or more prompts per step is the knob"


def _mend(advice: Advice, settings: AdviseSettings) -> str:
    assert advice.margin_upper is not None
    state = "beyond the threshold" if advice.margin_upper.exact < 1 else f"inside the safety factor {settings.safety:g}"
    lowest = number(advice.margin_upper.exact, 3)
    return f"Stability: the margin may be as low as {lowest}, {state}.{_bring(advice)}"


def _bring(advice: Advice) -> str:
    return f" Bring {' or '.join(_ways(advice, named=True))}"


def _stale(advice: Advice, settings: AdviseSettings) -> str:
    if advice.setup.loop.unbounded:
        return (
            f"Not known: this run is {advice.setup.loop.why}. Permitted: what was run. With "
            "staleness=lag refresh_interval=<largest age in optimiser steps> it is judged by that age"
        )
    loop, name = advice.loop, INTERVAL[advice.loop.model]
    age = f"mean age {number(loop.mean_age, 3)} updates"
    assumed = ", assumed" if advice.setup.loop.assumed else ""
    about = f"Model {LETTERS[loop.model]} ({loop.model}), {name} {loop.interval}{assumed}, {age}"
    if advice.intervals is None:
        there = loop.at(max(loop.interval, 4))
        ratio = number(there.exact.kappa / there.law, 3)
        return (
            f"{about}. Not known from this run. If the mode that the reward shows were the stiffest, the {name} could "
            "grow by the law until it reaches the reward's response time plus that age, and exactly until "
            f"{ratio} times that (at {there.interval}). The table by response time has the numbers"
        )
    limits, permit = advice.intervals, advice.permit
    shown = f"{limit_text(limits.threshold, 'law')} by the law, {limit_text(limits.threshold)} exactly"
    if permit.basis == "measured stiffness":
        return f"{about}. Stability is lost beyond {shown}. Permitted: up to {permit.interval}, all else equal"
    return (
        f"{about}. For the softest mode, which is what a curve shows, stability is lost beyond {shown}; stiffer ones "
        f"lose it before. Permitted: up to {permit.interval}, all else equal"
    )


def _group(advice: Advice, settings: AdviseSettings) -> str:
    if advice.groups is None:
        return f"Not known without a success probability: {advice.groups_reason}"
    if advice.setup.reading.rule.name is None:
        return f"Not for this advantage ({advice.setup.reading.rule.text}); the table is for a group baseline"
    return _more(advice.groups, settings)


def _more(groups: GroupSizes, settings: AdviseSettings) -> str:
    """What a wished-for signal needs."""
    if groups.success in (0.0, 1.0):
        return _never(groups, settings)
    if groups.observed is not None and groups.observed > ALL_SILENT and groups.success < SOLVED:
        return (
            f"No G mends this: {groups.observed:.0%} of the groups were silent, so that nearly all answers to a prompt "
            "get the same reward. Look at the reward (does it tell answers apart?), the sampling temperature, and take "
            "prompts of middle difficulty"
        )
    alike = "no G up to 4096" if groups.for_signal is None else f"G = {groups.for_signal}"
    text = f"At p = {number(groups.success, 3)}, {settings.signal:.0%} of groups with signal take "
    if groups.spread is None:
        text += f"{alike} if all prompts are alike, more otherwise"
    else:
        wide = groups.for_signal_spread
        text += "no G up to 4096" if wide is None else f"G = {wide}"
        text += f" with the spread over prompts that the log shows ({alike} if all prompts were alike)"
    if groups.for_factor is not None:
        text += f"; {settings.group_factor:.0%} of the full gradient takes G = {groups.for_factor}"
    if groups.for_temperature is not None:
        text += f"; noise variance times {settings.temperature:g} takes G = {groups.for_temperature}"
        text += " or as many times more prompts per step"
    return text


def _never(groups: GroupSizes, settings: AdviseSettings) -> str:
    if not groups.rare:
        what = "always" if groups.success else "never"
        return f"The reward is {what} given: every group is silent at any G; change the prompts or the reward"
    size = "no G up to 4096" if groups.for_signal is None else f"G = {groups.for_signal} at least"
    return (
        f"No success was seen; p is below {number(groups.rare, 2)} (95 %), and {settings.signal:.0%} of groups with "
        f"signal would need {size} even there: easier prompts or a finer reward, not a larger G"
    )


def _noise(advice: Advice) -> str:
    """What the log's scatter and the test for oscillation say."""
    seen = advice.evidence
    if seen.fall is not None:
        if seen.fall.metric == "nonfinite":
            return f"Neither: the reward {seen.fall.text}"
        return f"A collapse: the reward {seen.fall.text}, more than noise does"
    if seen.curve is not None and float(np.ptp(seen.curve.reward)) == 0:
        return "Neither: the reward is the same at every step"
    if seen.wave is None:
        parts = ["Too few points to tell oscillation from noise"]
    else:
        wave = seen.wave.p_value < ALARM
        what = f"A wave of period {number(seen.wave.period, 3)} steps" if wave else "No oscillation"
        parts = [f"{what} beyond autocorrelated noise (p = {number(seen.wave.p_value, 2)})"]
    if seen.scatter and seen.success is not None and 0 < seen.success < 1:
        count = seen.success * (1 - seen.success) / seen.scatter**2
        parts.append(
            f"one logged reward scatters by {number(seen.scatter, 2)}, as the mean of {count:.3g} independent 0/1 "
            "answers would"
        )
    if advice.margin is not None:
        rings = advice.margin.onset < 1 <= advice.margin.exact
        state = "rings and decays" if rings else "grows" if advice.margin.exact < 1 else "decays without ringing"
        parts.append(f"a disturbance {state} in the linear response")
    return "; ".join(parts)

"""The questions that people ask, answered in words from the numbers."""

import numpy as np

from bandit_lab.curves.diagnose import DiagnoseSettings
from bandit_lab.curves.diagnose.evidence import Evidence
from bandit_lab.study.advise.settings import AdviseSettings
from bandit_lab.study.advise.words import INTERVAL, LETTERS, limit_text, lost, rate_text, short
from bandit_lab.study.advise.work import REACH, Advice, Groups
from bandit_lab.study.document.value import number

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
    if advice.margin_upper is None:
        return _unknown(advice)
    if advice.margin_upper.exact >= settings.safety:
        return _comfortable(advice, settings)
    return _mend(advice, settings)


def _collapsed(advice: Advice, fall: Evidence) -> str:
    """What to try after a collapse: a rule of thumb, and said to be one."""
    first = f"This run {'diverged' if fall.metric == 'nonfinite' else 'collapsed'}: the reward {fall.text}"
    if advice.margin is None:
        known = "what came before does not tell a margin"
    elif advice.margin.exact < 1:
        known = f"the part before it reads as unstable, margin {short(advice.margin.exact)}"
    else:
        margins = f"{short(advice.margin.exact)} (law {short(advice.margin.law)})"
        known = (
            f"the part before it reads a margin of {margins}, so that the linear response does not explain it: noise, "
            "a mode that the reward does not show, or a missing clip may"
        )
    knobs = ", ".join(advice.setup.loop.knobs)
    halved = "half the learning rate and a larger G"
    if advice.loop.mean_age > 0:
        least = 0 if advice.loop.model == "lag" else 1
        halved = (
            f"the {INTERVAL[advice.loop.model]} ({knobs}) at {least}, which takes staleness out of it, else {halved}"
        )
    return f"{first}; {known}. A rule of thumb: start again from before it with {halved}"


def _unknown(advice: Advice) -> str:
    loop, why = advice.loop, advice.strength_reason
    if loop.mean_age == 0:
        suspect = "noise is the first suspect, and a larger G or more prompts per step its knob"
        wave = advice.evidence.wave
        if wave is not None and wave.p_value < ALARM:
            suspect = (
                f"but the reward swings with a period of {number(wave.period, 3)} steps, more than noise does, and a "
                "smaller learning rate is the first thing to try"
            )
        return (
            "Not staleness: every gradient is taken at the policy that acted. Whether the learning rate is near its "
            f"limit is not known ({why}); {suspect}"
        )
    knobs = ", ".join(advice.setup.loop.knobs)
    return (
        f"Not known from this: {why}. The {INTERVAL[loop.model]} ({knobs}) is the knob with the least doubt; the table "
        "by response time says how far it may go"
    )


def _comfortable(advice: Advice, settings: AdviseSettings) -> str:
    assert advice.margin_upper is not None
    assert advice.intervals is not None
    assert advice.rates is not None
    text = (
        f"Not stability: the margin is {short(advice.margin_upper.exact)} at the stiff end of what is known. As far as "
        f"this run shows, the learning rate may go to {rate_text(advice, advice.rates.safe)}, or the "
        f"{INTERVAL[advice.loop.model]} to {limit_text(advice.intervals.safe)}, before the margin falls below "
        f"{settings.safety:g}"
    )
    if advice.intervals.safe.capped or advice.rates.safe.capped:
        text += f" (more than {REACH:g} times a setting that was run is not judged from its curve)"
    return f"{text}. If the curve is restless, it is noise: a larger G or more prompts per step"


def _mend(advice: Advice, settings: AdviseSettings) -> str:
    assert advice.margin_upper is not None
    assert advice.intervals is not None
    assert advice.rates is not None
    fact = advice.setup.facts.get("learning_rate")
    key = "learning_rate" if fact is None else fact.key
    ways = [f"the learning rate ({key}) to {rate_text(advice, advice.rates.safe)}"]
    least = 0 if advice.loop.model == "lag" else 1
    if advice.loop.interval > least and advice.intervals.safe.exact is not None:
        knobs = ", ".join(advice.setup.loop.knobs)
        ways.insert(0, f"the {INTERVAL[advice.loop.model]} ({knobs}) to {limit_text(advice.intervals.safe)}")
    state = "beyond the threshold" if advice.margin_upper.exact < 1 else f"inside the safety factor {settings.safety:g}"
    lowest = number(advice.margin_upper.exact, 3)
    return f"Stability: the margin may be as low as {lowest}, {state}. Bring {' or '.join(ways)}"


def _stale(advice: Advice, settings: AdviseSettings) -> str:
    loop, name = advice.loop, INTERVAL[advice.loop.model]
    age = f"mean age {number(loop.mean_age, 3)} updates"
    about = f"Model {LETTERS[loop.model]} ({loop.model}), {name} {loop.interval}, {age}"
    if loop.mean_age == 0:
        about += ": no staleness at all, only the plain limit of the learning rate"
    if advice.intervals is None:
        there = loop.at(max(loop.interval, 4))
        ratio = number(there.exact.kappa / there.law, 3)
        return (
            f"{about}. By the law the {name} may grow until it reaches the response time of the reward plus that "
            f"age; exactly until {ratio} times that (at {there.interval}, this model and momentum). The table by "
            "response time has the numbers"
        )
    limits = advice.intervals
    law, safe_law = (limit_text(limit, "law") for limit in (limits.threshold, limits.safe))
    return (
        f"{about}. Stability is {lost(limits.threshold)} ({law} by the law); with a margin of {settings.safety:g} the "
        f"{name} may be up to {limit_text(limits.safe)} ({safe_law} by the law), at the present learning rate"
    )


def _group(advice: Advice, settings: AdviseSettings) -> str:
    if advice.groups is None:
        return f"Not known without a success probability: {advice.groups_reason}"
    if advice.setup.reading.rule.name is None:
        return f"Not for this advantage ({advice.setup.reading.rule.text}); the table is for a group baseline"
    return _more(advice.groups, settings)


def _more(groups: Groups, settings: AdviseSettings) -> str:
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


def _never(groups: Groups, settings: AdviseSettings) -> str:
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

"""The questions that people ask, answered from the numbers in words; and what the numbers assume."""

from bandit_lab.curves.advise import Limit
from bandit_lab.study.advise.settings import AdviseSettings
from bandit_lab.study.advise.work import REACH, Advice, Groups
from bandit_lab.study.report import number

LETTERS = {"refresh": "A", "lag": "B", "pipeline": "C"}
WASTED = 0.6
"""Share of silent groups from which signal, not stability, is the first thing to mend."""
SOLVED = 0.9
INTERVAL = {"refresh": "refresh interval", "lag": "lag", "pipeline": "refresh interval"}

Answer = tuple[str, str]


def answers(advice: Advice, settings: AdviseSettings) -> list[Answer]:
    """(question, answer) pairs, the most asked first."""
    found = [("Which single knob?", _knob(advice, settings)), ("How stale is too stale?", _stale(advice, settings))]
    found.append(("How large must G be?", _group(advice, settings)))
    return found


def short(value: float | None) -> str:
    """A number with three digits, without exponent where it is large."""
    return "-" if value is None else "over 1000" if value > 1000 else number(value, 3)


def limit_text(limit: Limit, which: str = "exact", whole: bool = True) -> str:
    """One end of a limit for people; `whole` where it counts steps."""
    value, capped = (limit.law, limit.law_capped) if which == "law" else (limit.exact, limit.capped)
    if value is None:
        return "none"
    return (f"{value:.0f}" if whole and which == "exact" else short(value)) + (" or more" if capped else "")


def rate_text(advice: Advice, limit: Limit, which: str = "exact") -> str:
    """A largest learning rate in the trainer's own unit, or as a multiple where that is not known."""
    value, capped = (limit.law, limit.law_capped) if which == "law" else (limit.exact, limit.capped)
    if value is None:
        return "no bound"
    text = f"{number(value, 3)} times" if advice.rate is None else number(value * advice.rate, 3)
    return text + (" or more" if capped else "")


def _knob(advice: Advice, settings: AdviseSettings) -> str:
    severe = [trap for trap in advice.setup.traps if trap.severe]
    if severe:
        return f"First of all: {severe[0].text}."
    groups = advice.groups
    share = None if groups is None else advice.evidence.silent
    if groups is not None and groups.now is not None and settings.success is not None:
        share = groups.now.silent
    if groups is not None and share is not None and share >= WASTED and groups.success < SOLVED:
        waste = f"{share:.0%} of the groups are silent and teach nothing"
        return f"The signal, not stability: {waste}. {_more(groups, settings)}"
    if advice.margin_upper is None or advice.intervals is None or advice.rates is None:
        return (
            f"Not known from this: {advice.strength_reason}. The {INTERVAL[advice.loop.model]} is the knob with the "
            f"least doubt ({', '.join(advice.setup.loop.knobs)}); the table by response time says how far it may go"
        )
    name, safe = INTERVAL[advice.loop.model], rate_text(advice, advice.rates.safe)
    if advice.margin_upper.exact >= settings.safety:
        text = (
            f"Not stability: the margin is {short(advice.margin_upper.exact)} at the stiff end of what is known. As "
            f"far as this run shows, the learning rate may go to {safe}, or the {name} to "
            f"{limit_text(advice.intervals.safe)}, before the margin falls below {settings.safety:g}"
        )
        if advice.intervals.safe.capped or advice.rates.safe.capped:
            text += f" (more than {REACH:g} times a setting that was run is not judged from its curve)"
        return f"{text}. If the curve is restless, it is noise: a larger G or more prompts per step"
    ways = [f"the learning rate ({_rate_key(advice)}) to {safe}"]
    least = 0 if advice.loop.model == "lag" else 1
    if advice.loop.interval > least and advice.intervals.safe.exact is not None:
        knobs = ", ".join(advice.setup.loop.knobs)
        ways.insert(0, f"the {name} ({knobs}) to {limit_text(advice.intervals.safe)}")
    state = "beyond the threshold" if advice.margin_upper.exact < 1 else f"inside the safety factor {settings.safety:g}"
    lowest = number(advice.margin_upper.exact, 3)
    return f"Stability: the margin may be as low as {lowest}, {state}. Bring {' or '.join(ways)}"


def _rate_key(advice: Advice) -> str:
    found = advice.setup.facts.get("learning_rate")
    return "learning_rate" if found is None else found.key


def _stale(advice: Advice, settings: AdviseSettings) -> str:
    loop, name = advice.loop, INTERVAL[advice.loop.model]
    age = f"mean age {number(loop.mean_age, 3)} updates"
    about = f"Model {LETTERS[loop.model]} ({loop.model}), {name} {loop.interval}, {age}"
    if loop.model == "refresh" and loop.interval == 1:
        about += ": no staleness at all, only the plain limit of the learning rate"
    if advice.intervals is None:
        ratio = loop.exact.kappa / loop.law if loop.interval else None
        rule = "by the law, as soon as it exceeds the response time of the reward plus the mean age"
        exactly = "" if ratio is None else f"; exactly at {number(ratio, 3)} times that for this model here"
        return f"{about}. The {name} is too long, {rule}{exactly}. The table by response time has the numbers"
    limits = advice.intervals
    return (
        f"{about}. Stability is lost above {limit_text(limits.threshold)} exactly "
        f"({limit_text(limits.threshold, 'law')} by the law); with a margin of {settings.safety:g} it may be up to "
        f"{limit_text(limits.safe)} ({limit_text(limits.safe, 'law')} by the law), at the present learning rate"
    )


def _group(advice: Advice, settings: AdviseSettings) -> str:
    groups = advice.groups
    if groups is None:
        return f"Not known without a success probability: {advice.groups_reason}"
    if advice.setup.reading.rule.name is None:
        return f"Not for this advantage ({advice.setup.reading.rule.text}); the table is for a group baseline"
    return _more(groups, settings)


def _more(groups: Groups, settings: AdviseSettings) -> str:
    """What a wished-for signal needs."""
    if groups.success in (0.0, 1.0):
        if groups.rare:
            size = "no G up to 4096" if groups.for_signal is None else f"G = {groups.for_signal} at least"
            return (
                f"No success was seen; p is below {number(groups.rare, 2)} (95 %), and {settings.signal:.0%} of groups "
                f"with signal would need {size} even there: easier prompts or a finer reward, not a larger G"
            )
        what = "always" if groups.success else "never"
        return f"The reward is {what} given: every group is silent at any G; change the prompts or the reward"
    wish = "no G up to 4096 is enough" if groups.for_signal is None else f"G = {groups.for_signal} or more"
    text = f"At p = {number(groups.success, 3)}, {settings.signal:.0%} of groups with signal need {wish}"
    text += " if all prompts are alike"
    if groups.spread is not None:
        wide = groups.for_signal_spread
        text += f", {'no G up to 4096' if wide is None else f'G = {wide}'} with the spread over prompts seen in the log"
    if groups.for_factor is not None:
        text += f"; {settings.group_factor:.0%} of the full gradient needs G = {groups.for_factor}"
    if groups.for_temperature is not None:
        text += f"; noise variance times {settings.temperature:g} needs G = {groups.for_temperature}"
        text += " or as many times more prompts per step"
    return text


def assumptions(advice: Advice, settings: AdviseSettings) -> list[str]:
    """What the numbers rest on, the weightiest first."""
    setup, loop, found = advice.setup, advice.loop, []
    if advice.strength is not None:
        found.append(
            f"Safe means a margin of at least {settings.safety:g}"
            + (
                " at the lower end of the delay's 90 % interval"
                if advice.strength.delay and advice.evidence.delay
                else ""
            )
            + ": one curve shows the mode that carries the reward, a stiffer one may hide behind it; runs with small "
            "groups leave the fixed point before the threshold; stiffness changes along a run"
        )
        if advice.strength.delay is not None:
            found.append(f"Settings more than {REACH:g} times those of the run are not judged from its curve")
    found.append("Thresholds are those of the linear response near a fixed point, with the mean update")
    if loop.mean_age > 0:
        found.append(
            "The whole gradient is taken as stale. Importance ratios make its reward part fresh again as long as "
            "nothing is clipped, so that true thresholds lie higher: these margins are on the careful side"
        )
    if loop.model == "lag" and loop.interval > 1:
        found.append("All samples are taken to be as old as the oldest allowed; most are younger")
    if setup.adaptive:
        found.append(
            f"{setup.optimizer}: read as momentum in EMA form with mu = beta1 = {setup.momentum:g} and the stiffness "
            "divided by the square root of the second moment, held at its stationary value, which gradient noise sets; "
            "a larger G lowers it, and the largest safe learning rate with it, about as 1/sqrt(G); beta2 does not enter"
        )
    else:
        found.append(f"{setup.optimizer}: momentum {setup.momentum:g} in {setup.convention.replace('_', ' ')} form")
    weight = setup.reading.kl_weight
    if weight:
        found.append(
            f"KL weight {weight:g} ({setup.reading.kl_text}) stays as it is; a larger one moves the plateau and "
            "makes the policy stiffer, which lowers the thresholds rather than raising them"
        )
    if advice.evidence.schedule > 1.01:
        found.append(
            f"The logged learning rate is {advice.evidence.schedule:.3g} times its mean at its peak; margins are for "
            "the peak"
        )
    if advice.groups is not None:
        found.append(
            "Shares of silent groups are for 0/1 rewards with all prompts alike; with prompts of different difficulty "
            "the share is larger (Jensen), so they are lower bounds"
        )
        if advice.groups.spread is not None:
            found.append("The spread over prompts is read off the logged share of silent groups, as a Beta law")
    return found

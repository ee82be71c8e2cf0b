"""Numbers of `advise` as people read them, and what they rest on."""

from bandit_lab.app.document.value import number
from bandit_lab.runs.advise import REACH, SCATTER, SPREAD, Limit
from bandit_lab.runs.advise.work import Advice
from bandit_lab.runs.logs.settings import AdviseSettings

LETTERS = {"refresh": "A", "lag": "B", "pipeline": "C"}
INTERVAL = {"refresh": "refresh interval", "lag": "lag", "pipeline": "refresh interval"}


def short(value: float | None) -> str:
    """A number with three digits, without exponent where it is large."""
    if value is None:
        return "-"
    return "no bound" if value == float("inf") else "over 1000" if value >= 999.5 else number(value, 3)


def limit_text(limit: Limit, which: str = "exact") -> str:
    """A largest interval: whole if exact, real by the law."""
    value, capped = (limit.law, limit.law_capped) if which == "law" else (limit.exact, limit.capped)
    if value is None:
        return "none"
    return (short(value) if which == "law" else f"{value:.0f}") + (" or more" if capped else "")


def rate_text(advice: Advice, limit: Limit, which: str = "exact") -> str:
    """A largest learning rate in the trainer's own unit, or as a multiple where that is not known."""
    value, capped = (limit.law, limit.law_capped) if which == "law" else (limit.exact, limit.capped)
    if value is None:
        return "no bound"
    text = f"{number(value, 3)} times the present one" if advice.rate is None else number(value * advice.rate, 3)
    return text + (" or more" if capped else "")


def rate_at(advice: Advice, factor: float) -> str:
    """A learning rate at a multiple of the present one; the multiple alone where that rate is not known."""
    if advice.rate is None:
        return "the present one" if factor == 1 else f"{number(factor, 2)} times the present one"
    return number(factor * advice.rate, 3)


_WHOLE_RISE = (
    "Stiffness is read from the delay of the whole rise: on simulated two-arm runs from a uniform start that is 1.1 to "
    "2.3 times the stiffness at the plateau; a long slow start errs the other way"
)
_SOFTEST = (
    "A reward curve answers with the time of its softest mode. Stability is lost in the stiffest, and a network's "
    "stiffness rises while it trains. So the margins are upper bounds"
)
_SPREAD = (
    f"What is permitted from a curve is the smaller of law and exact margin, over {SPREAD:g} times {SCATTER:g}. The "
    "first is the spread of stiffness, calibrated on public runs of one origin in which the learning rate or the "
    "updates per batch was changed (ShibukiZero/assignment5-alignment), and scored on runs of other origins. The "
    "second is how much longer the response time of one run may be than that of its equals, from 30 public runs: "
    "experiment 'advice'"
)


def assumptions(advice: Advice, settings: AdviseSettings) -> list[str]:
    """What is assumed, the weightiest first."""
    return [*_stability(advice, settings), *_optimiser(advice), *_groups(advice)]


def _stability(advice: Advice, settings: AdviseSettings) -> list[str]:
    loop, found = advice.loop, []
    if advice.gain is not None:
        where = " at the lower end of the delay's 90 % interval" if advice.gain.upper > advice.gain.kappa else ""
        found.append(
            f"Safe in the table of margins means a margin of at least {settings.safety:g}{where}. Runs with small "
            "groups leave the fixed point before the threshold"
        )
        if advice.gain.delay is not None:
            found[:0] = [_SOFTEST, _SPREAD]
            found += [_WHOLE_RISE, f"Settings more than {REACH:g} times those of the run are not judged from its curve"]
    found.append("Thresholds are those of the linear response near a fixed point, with the mean update")
    if loop.mean_age > 0:
        found.append(
            "The whole gradient is taken as stale. Importance ratios make its reward part fresh again as long as "
            "nothing is clipped, so that true thresholds lie higher: these margins are on the conservative side"
        )
    if loop.model == "lag" and loop.interval > 1:
        found.append("All samples are taken to be as old as the oldest allowed; most are younger")
    return found


def _optimiser(advice: Advice) -> list[str]:
    setup = advice.setup
    form = setup.convention.replace("_", " ")
    if setup.adaptive:
        found = [
            f"{setup.optimizer}: read as momentum in EMA form with mu = beta1 = {setup.momentum:g} and the stiffness "
            "divided by the square root of the second moment, held at its stationary value, which gradient noise sets; "
            "a larger G lowers it, and the largest safe learning rate with it, about as 1/sqrt(G); beta2 does not enter"
        ]
    else:
        found = [f"{setup.optimizer}: momentum {setup.momentum:g} in {form} form"]
    if weight := setup.reading.kl_weight:
        found.append(
            f"KL weight {weight:g} ({setup.reading.kl_text}) stays as it is; a larger one moves the plateau and makes "
            "the policy stiffer, which lowers the thresholds rather than raising them"
        )
    if advice.evidence.schedule > 1.01:
        times = f"{advice.evidence.schedule:.3g}"
        found.append(f"The logged learning rate is {times} times its mean at its peak; margins are for the peak")
    return found


def _groups(advice: Advice) -> list[str]:
    if advice.groups is None:
        return []
    found = [
        "Shares of silent groups are for 0/1 rewards with all prompts alike; with prompts of different difficulty the "
        "share is larger (Jensen), so they are lower bounds"
    ]
    if advice.groups.spread is not None:
        found.append("The spread over prompts is read off the logged share of silent groups, as a Beta law")
    if advice.setup.reading.rule.ddof == 1 and advice.setup.reading.rule.std == "group":
        found.append(
            "c_G is for the std with n in it; this trainer's n - 1 multiplies the gradient by sqrt((G-1)/G) besides"
        )
    return found

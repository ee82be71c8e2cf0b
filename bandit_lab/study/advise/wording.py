"""Numbers of `advise` as people read them."""

from bandit_lab.curves.advise import Limit
from bandit_lab.study.advise.work import Advice
from bandit_lab.study.terminal.report import number

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


def lost(limit: Limit) -> str:
    """From which interval on stability is lost."""
    if limit.exact is None:
        return "lost at every one exactly"
    return f"kept up to {limit.exact:.0f} and beyond" if limit.capped else f"lost above {limit.exact:.0f} exactly"

"""What `advise` prints: what was read, the margins, the groups, the answers."""

from typing import Any

from bandit_lab.study.advise.answers import answers
from bandit_lab.study.advise.settings import AdviseSettings
from bandit_lab.study.advise.wording import LETTERS, limit_text, rate_text, short
from bandit_lab.study.advise.work import Advice
from bandit_lab.study.terminal.report import new_table, number, show

_NAMES = {
    "group_size": "group size G",
    "learning_rate": "learning rate",
    "beta1": "beta1 (momentum)",
    "beta2": "beta2",
    "clip_low": "clip range, low",
    "clip_high": "clip range, high",
}


def settings_rows(advice: Advice) -> list[list[str]]:
    """(quantity, value, where from) of what was read, K_ref first."""
    setup, loop = advice.setup, advice.setup.loop
    terms = ", ".join(f"{name} = {_value(fact.value)}" for name, fact in loop.terms.items())
    name = "K_ref" if loop.model == "refresh" else "K_ref, per cycle"
    rows = [[name, f"{loop.block:g}", f"{loop.formula}: {terms}"]]
    letter = f"{LETTERS[loop.model]} ({loop.model}), {'lag' if loop.model == 'lag' else 'N ='} {loop.interval}"
    rows.append(["staleness model", letter, loop.why])
    for quantity, label in _NAMES.items():
        fact = setup.facts.get(quantity)
        if fact is not None and fact.value is not None and (setup.adaptive or not quantity.startswith("beta")):
            rows.append([label, _value(fact.value), fact.text])
    origin = setup.facts["optimizer"].text if "optimizer" in setup.facts else "assumed"
    form = {"ema": "EMA", "heavy_ball": "heavy-ball", "nesterov": "Nesterov"}[setup.convention]
    rows.append(["optimiser", f"{setup.optimizer}, mu = {setup.momentum:g}", f"{origin}; momentum in {form} form"])
    rows.append(["advantage", setup.reading.rule.name or "none known", setup.reading.rule.text])
    weight = setup.reading.kl_weight
    rows.append(["KL weight", "not known" if weight is None else f"{weight:g}", setup.reading.kl_text])
    return rows


def _value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:g}"


def margin_rows(advice: Advice) -> list[list[str]]:
    """(what, law, exact) at this run's stiffness; empty where it is not known."""
    if advice.margin is None or advice.margin_upper is None or advice.intervals is None or advice.rates is None:
        return []
    worst, limits, rates = advice.margin_upper, advice.intervals, advice.rates
    rows = [["margin to instability", short(advice.margin.law), short(advice.margin.exact)]]
    if worst.exact != advice.margin.exact:
        rows.append(["  at the stiff end of the interval", short(worst.law), short(worst.exact)])
    what = "lag" if advice.loop.model == "lag" else "refresh interval"
    rows.append([f"largest stable {what}", limit_text(limits.threshold, "law"), limit_text(limits.threshold)])
    rows.append([f"largest safe {what}", limit_text(limits.safe, "law"), limit_text(limits.safe)])
    for label, limit in (
        ("threshold of the learning rate", rates.threshold),
        ("largest safe learning rate", rates.safe),
    ):
        rows.append([label, rate_text(advice, limit, "law"), rate_text(advice, limit)])
    rows.append(["margin to the first ringing", "-", short(advice.margin.onset)])
    return rows


def delay_rows(advice: Advice) -> list[list[str]]:
    """What each response time would mean, head first."""
    rows = [["response time", "kappa", "margin, law", "margin, exact", "safe N, law", "safe N, exact"]]
    for row in advice.delays:
        margins = [short(row.margin.law), short(row.margin.exact)]
        limits = [limit_text(row.safe_interval, "law"), limit_text(row.safe_interval)]
        rows.append([f"{row.delay:g}", number(row.kappa, 3), *margins, *limits])
    return rows


def group_rows(advice: Advice) -> list[list[str]]:
    """Group sizes, head first; empty without a success probability."""
    groups = advice.groups
    if groups is None:
        return []
    spread = groups.spread is not None
    rows = [["G", "silent, at least", *(["silent, with spread"] if spread else []), "gradient (c_G)", "noise / now"]]
    for row in groups.rows:
        mark = " (this run)" if groups.now is not None and row.size == groups.now.size else ""
        cells = [f"{row.size}{mark}", _percent(row.silent)]
        cells += [_percent(row.silent_spread)] if row.silent_spread is not None else []
        rows.append([*cells, number(row.factor, 3), number(row.temperature, 3)])
    return rows


def _percent(share: float) -> str:
    return "below 0.1 %" if 0 < share < 1e-3 else f"{100 * share:.3g} %"


def group_title(advice: Advice) -> str:
    """What the table of groups is for."""
    assert advice.groups is not None
    seen, source = advice.evidence.silent, advice.evidence.success_source
    source += ", before the collapse" if advice.evidence.fall is not None and source else ""
    observed = "" if seen is None else f"; {seen:.0%} of the groups were silent there"
    origin = f" ({source}{observed})" if source else ""
    return f"Groups at success probability {number(advice.groups.success, 3)}{origin}"


def stiffness_line(advice: Advice) -> str:
    """Where the stiffness comes from, in one sentence."""
    strength = advice.strength
    if strength is None:
        return f"Stiffness: not known ({advice.strength_reason})."
    text = f"Learning rate times stiffness: {number(strength.kappa, 3)}"
    if strength.upper != strength.lower:
        text += f" [{number(strength.lower, 3)}, {number(strength.upper, 3)}]"
    if strength.delay is not None:
        text += f", from a response time of {number(strength.delay.value, 3)} optimiser steps"
    return f"{text} ({strength.source})."


def print_advice(advice: Advice, settings: AdviseSettings) -> None:
    """The tables and sentences of one run."""
    setup = advice.setup
    show("; ".join(setup.recognised))
    read = _table("", ["quantity", "value", "from"], settings_rows(advice))
    read.columns[1].justify = read.columns[2].justify = "left"
    show(read)
    show(stiffness_line(advice))
    rows = margin_rows(advice)
    if rows:
        show(_table("", ["", "law", "exact"], rows))
    else:
        head, *body = delay_rows(advice)
        show(_table("If the reward responds within ... optimiser steps", head, body))
    if advice.groups is not None:
        head, *body = group_rows(advice)
        show(_table(group_title(advice), head, body))
    for caution in () if advice.strength is None or advice.strength.delay is None else advice.strength.delay.cautions:
        show(f"Caution: {caution}.")
    for note in advice.evidence.notes:
        show(f"Note: {note}.")
    for trap in setup.traps:
        show(f"Beware: {trap.text}.")
    if settings.report:
        show("What this assumes (optimiser, KL, staleness, safety) stands in report/advice.md and in summary.json.")
    for question, answer in answers(advice, settings):
        show(f"{question} {answer}")


def _table(title: str, head: list[str], rows: list[list[str]]) -> Any:
    table = new_table(title, *head)
    for row in rows:
        table.add_row(*row)
    return table

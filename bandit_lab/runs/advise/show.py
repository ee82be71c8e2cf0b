"""What `advise` shows of one run: its tables, on the terminal and on the page to paste into an issue."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bandit_lab._version import __version__
from bandit_lab.app.document import Block, Column, Document, Figure, On, Table, Value
from bandit_lab.app.document.value import number
from bandit_lab.runs.advise import Limit, StabilityMargin
from bandit_lab.runs.advise.answers import answers, headline, unsaid, weight_assumed
from bandit_lab.runs.advise.words import LETTERS, assumptions, limit_text, rate_at, rate_text, short
from bandit_lab.runs.advise.work import SIZES, Advice, DelayRow, GroupRow
from bandit_lab.runs.logs.findings import details, judged, paragraphs, run_drawn, verdict_lines, verdict_text
from bandit_lab.runs.logs.settings import AdviseSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

ALT = "stability margin against refresh interval, this run marked: law dashed, exact solid"
NO_SPREAD = "needs a logged share of silent groups above the bound"
NO_SIZE = "G of the run is not known"
_NAMES = {
    "group_size": "group size G",
    "learning_rate": "learning rate",
    "beta1": "beta1 (momentum)",
    "beta2": "beta2",
    "clip_low": "clip range, low",
    "clip_high": "clip range, high",
}
ThreeCells = tuple[str, str, str]


def three_columns(rows: Sequence[ThreeCells], heads: ThreeCells, left: bool = False) -> Table[ThreeCells]:
    """A table of words."""
    return Table(rows, [
        Column("what", heads[0], lambda row: row[0]),
        Column("first", heads[1], lambda row: row[1], left=left),
        Column("second", heads[2], lambda row: row[2], left=left),
    ], on=On.SHOWN)  # fmt: skip


def settings_table(advice: Advice) -> Table[ThreeCells]:
    """What was read and where from, K_ref first."""
    setup, loop = advice.setup, advice.setup.loop
    terms = ", ".join(f"{name} = {_told(fact.value, fact.assumed)}" for name, fact in loop.terms.items())
    name = "K_ref" if loop.model == "refresh" else "K_ref, per cycle"
    rows = [(name, _told(loop.block, loop.assumed), f"{loop.formula}: {terms}")]
    letter = f"{LETTERS[loop.model]} ({loop.model}), {'lag' if loop.model == 'lag' else 'N ='} {loop.interval}"
    letter = "not known" if loop.unbounded else f"at most {letter}" if loop.late and loop.model == "lag" else letter
    why = f"if K_ref is as assumed: {loop.why}" if loop.assumed and not loop.late else loop.why
    rows.append(("staleness model", letter, why))
    for quantity, label in _NAMES.items():
        fact = setup.facts.get(quantity)
        if fact is not None and fact.value is not None and (setup.adaptive or not quantity.startswith("beta")):
            rows.append((label, _told(fact.value, fact.assumed), fact.text))
    origin = setup.facts["optimizer"].text if "optimizer" in setup.facts else "assumed"
    form = {"ema": "EMA", "heavy_ball": "heavy-ball", "nesterov": "Nesterov"}[setup.convention]
    mu = _told(setup.momentum, "beta1" not in setup.facts or setup.facts["beta1"].assumed)
    rows.append(("optimiser", f"{setup.optimizer}, mu = {mu}", f"{origin}; momentum in {form} form"))
    rows.append(("advantage", setup.reading.rule.name or "none known", setup.reading.rule.text))
    weight = setup.reading.kl_weight
    kl = "not known" if weight is None else _told(weight, weight_assumed(setup))
    rows.append(("KL weight", kl, setup.reading.kl_text))
    return three_columns(rows, ("quantity", "value", "from"), left=True)


def _value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:g}"


def _told(value: Any, assumed: bool) -> str:
    """A value, marked where nobody gave it."""
    return f"{_value(value)} (assumed)" if assumed else _value(value)


def margin_table(advice: Advice) -> Table[ThreeCells]:
    """By the law and exactly, at this run's stiffness; no rows where it is not known."""
    rows: list[ThreeCells] = []
    if not (advice.margin is None or advice.margin_upper is None or advice.intervals is None or advice.rates is None):
        worst, limits, rates = advice.margin_upper, advice.intervals, advice.rates
        rows = [("margin to instability", short(advice.margin.law), short(advice.margin.exact))]
        if worst.exact != advice.margin.exact:
            rows.append(("  at the stiff end of the interval", short(worst.law), short(worst.exact)))
        what = "lag" if advice.loop.model == "lag" else "refresh interval"
        rows.append((f"largest stable {what}", limit_text(limits.threshold, "law"), limit_text(limits.threshold)))
        law, exact = (rate_text(advice, rates.threshold, which) for which in ("law", "exact"))
        rows.append(("threshold of the learning rate", law, exact))
        rows.append(("margin to the first ringing", "-", short(advice.margin.onset)))
    curve = advice.gain is not None and advice.gain.delay is not None
    return three_columns(rows, ("of the softest mode: upper bounds" if curve else "", "law", "exact"))


def margin_values(margin: StabilityMargin) -> dict[str, Any]:
    """A margin for JSON."""
    law = Value.of(margin.law, "the law has no bound without lag")
    return {"law": law, "exact": margin.exact, "onset_of_oscillation": margin.onset, "bifurcation": margin.bifurcation}


def limit_values(limit: Limit, scale: float = 1.0) -> dict[str, Any]:
    """A largest setting for JSON."""

    def scaled(value: float | None, reason: str) -> Value:
        return Value.of(None if value is None else value * scale, reason)

    return {
        "law": scaled(limit.law, "no bound by the law, or below the smallest"),
        "exact": scaled(limit.exact, "not even the smallest is safe"),
        "at_least": limit.capped,
        "law_at_least": limit.law_capped,
    }


def delay_table(advice: Advice) -> Table[DelayRow]:
    """What each response time would mean."""
    columns: list[Column[DelayRow]] = [
        Column("delay", "response time", lambda row: row.delay, text=lambda row: f"{row.delay:g}"),
        Column("unit", "unit", lambda row: "optimiser steps", on=On.JSON),
        Column("kappa", "kappa", lambda row: row.kappa, digits=3),
        Column("margin", "margin", lambda row: margin_values(row.margin), on=On.JSON),
        Column("margin_law", "margin, law", lambda row: short(row.margin.law), on=On.SHOWN),
        Column("margin_exact", "margin, exact", lambda row: short(row.margin.exact), on=On.SHOWN),
        Column("safe_refresh_interval", "safe N", lambda row: limit_values(row.safe_interval), on=On.JSON),
        Column("safe_law", "safe N, law", lambda row: limit_text(row.safe_interval, "law"), on=On.SHOWN),
        Column("safe_exact", "safe N, exact", lambda row: limit_text(row.safe_interval), on=On.SHOWN),
    ]
    return Table(advice.delays, columns)


def group_table(advice: Advice) -> Table[GroupRow]:
    """What group sizes do; no rows without a success probability."""
    groups = advice.groups
    now = None if groups is None or groups.now is None else groups.now.size
    spread = On.SHOWN if groups is not None and groups.spread is not None else On(0)
    columns: list[Column[GroupRow]] = [
        Column("group_size", "G", lambda row: row.size,
               text=lambda row: f"{row.size}{' (this run)' if row.size == now else ''}"),
        Column("silent_share_at_least", "silent, at least", lambda row: row.silent,
               text=lambda row: percent(row.silent)),
        Column("signal_share_at_most", "signal", lambda row: 1 - row.silent, on=On.JSON),
        Column("silent_share_with_spread", "silent, with spread", lambda row: Value.of(row.silent_spread, NO_SPREAD),
               text=lambda row: percent(row.silent_spread or 0.0), on=On.JSON | spread),
        Column("group_factor", "gradient (c_G)", lambda row: Value.of(row.factor, "none at p = 0 or 1"), digits=3),
        Column("temperature_over_now", "noise / now", lambda row: Value.of(row.temperature, NO_SIZE), digits=3),
    ]  # fmt: skip
    return Table(() if groups is None else groups.rows, columns)


def percent(share: float) -> str:
    """A share as people read it."""
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
    gain = advice.gain
    if gain is None:
        return f"Stiffness: not known ({advice.strength_reason})."
    text = f"Learning rate times stiffness: {number(gain.kappa, 3)}"
    if gain.upper != gain.lower:
        text += f" [{number(gain.lower, 3)}, {number(gain.upper, 3)}]"
    if gain.delay is not None:
        text += f", from a response time of {number(gain.delay.value, 3)} optimiser steps"
    return f"{text} ({gain.source})."


def on_terminal(advice: Advice, settings: AdviseSettings) -> list[Block]:
    """What may be run next, why, and what is to be settled before; with `verbose` everything, the answers last."""

    def titled(table: Table[Any], title: str = "") -> Table[Any]:
        return replace(table, title=title, on=On.TERMINAL)

    first: list[Block] = [*paragraphs([headline(advice)], On.TERMINAL), titled(next_table(advice))]
    told = [f"{question} {answer}" if answer else "" for question, answer in unsaid(advice, settings)]
    if not settings.verbose:
        few = [*state(advice), *doubts(advice)[:1], told[0], "-v prints margins, groups, answers and assumptions"]
        return [*first, *paragraphs([*filter(None, few)], On.TERMINAL)]
    setup, margins = advice.setup, margin_table(advice)
    by_delay = titled(delay_table(advice), "If the reward responds within ... optimiser steps")
    lines = [f"Caution: {caution}." for caution in _cautions(advice)]
    lines += [f"Note: {note}." for note in advice.evidence.notes]
    lines += [f"Beware: {trap.text}." for trap in setup.traps]
    lines += [f"Assumed: {text}." for text in assumptions(advice, settings)]
    return [
        *first,
        *paragraphs(state(advice), On.TERMINAL),
        *details(paragraphs(["; ".join(setup.recognised)], On.TERMINAL)),
        titled(settings_table(advice)),
        *paragraphs([stiffness_line(advice)], On.TERMINAL),
        titled(margins) if margins.rows else by_delay,
        *([] if advice.groups is None else [titled(group_table(advice), group_title(advice))]),
        *paragraphs([*lines, *filter(None, told)], On.TERMINAL),
    ]


def next_table(advice: Advice) -> Table[ThreeCells]:
    """The three settings: what this run had, and what may be run next."""
    setup, permit = advice.setup, advice.permit
    sizes = group_sizes(advice)
    size = setup.facts.get("group_size")
    known = size is not None and size.value is not None
    now = int(setup.number("group_size") or 0)
    group = f"up to {sizes[-1]}" if sizes and sizes[0] == now else f"{sizes[0]} to {sizes[-1]}" if sizes else ""
    group = "as it is" if len(sizes) < 2 else group
    rate = "not known" if advice.rate is None else number(advice.rate, 3)
    knob = setup.loop.knobs[0].rpartition(".")[2]
    rows: list[ThreeCells] = [
        ("learning rate", rate, rate_at(advice, permit.factor)),
        (f"K_ref ({knob})" if advice.loop.model != "lag" else f"lag ({knob})",
         _told(advice.loop.interval, setup.loop.assumed), str(permit.interval)),
        ("group size", _told(size.value, size.assumed) if size is not None and known else "not known", group),
    ]  # fmt: skip
    return three_columns(rows, ("change one of these", "this run", "at most"), left=True)


def group_sizes(advice: Advice) -> list[int]:
    """Group sizes that this run permits, among the usual ones."""
    now = int(advice.setup.number("group_size") or 0)
    return [size for size in sorted({*SIZES, now}) if now and advice.permit.group(now, size, advice.setup.adaptive)]


def state(advice: Advice) -> list[str]:
    """What `diagnose` says of the run."""
    found = advice.evidence.diagnosis
    if found is None:
        return []
    if found.verdict == ("not_judged",):
        return ["State of this run: not judged; the evidence says what is missing."]
    return [f"State of this run: {verdict_text(found, short=False)}."]


def doubts(advice: Advice) -> list[str]:
    """What is to be settled before anything is changed: severe traps, and where log and settings disagree."""
    found = [trap.text for trap in advice.setup.traps if trap.severe] + list(advice.evidence.notes)
    return [f"First: {text}." for text in found]


def _cautions(advice: Advice) -> Sequence[str]:
    return () if advice.gain is None or advice.gain.delay is None else advice.gain.delay.cautions


def page(advice: Advice, settings: AdviseSettings) -> Document:
    """The page: answers, margins, groups, what was read and assumed, one picture."""
    setup, curve, found = advice.setup, advice.evidence.curve, advice.evidence.diagnosis
    traps = [f"{trap.text} ({trap.source})." for trap in setup.traps]
    notes = [f"{text}." for text in (*advice.evidence.notes, *setup.loop.notes)]
    read = [] if curve is None else list(curve.recognised)
    sources = [f"K_ref: {setup.loop.source}.", f"Advantage: {setup.reading.rule.source}."]
    margins = [stiffness_line(advice), *(f"Caution: {text}." for text in _cautions(advice))]
    sections: dict[str, Sequence[Block]] = {
        "": [
            *paragraphs([headline(advice)]),
            next_table(advice),
            *paragraphs([*state(advice), *doubts(advice)[:1]]),
            *([] if curve is None or found is None else [run_drawn(curve.name, curve, found)]),
        ],
        **judged(found, [] if found is None else verdict_lines(found)),
        "Answers": paragraphs([f"{question} {answer}" for question, answer in answers(advice, settings)]),
        "Margins by refresh interval": [Figure(lambda: _drawn(advice, settings), ALT, dpi=130)],
        "Settings": [*paragraphs(setup.recognised), settings_table(advice)],
        "Margins": [*paragraphs(margins), margin_table(advice)],
        "By response time [optimiser steps]": [delay_table(advice)],
        **({} if advice.groups is None else {group_title(advice): [group_table(advice)]}),
        "Beware": paragraphs([*traps, *notes]),
        "Assumed": paragraphs([f"{text}." for text in assumptions(advice, settings)]),
        "Sources": paragraphs([*read, *sources, f"bandit_lab {__version__}"]),
    }
    return Document("What became of the run, and what may be run next", sections, folded=[*sections][1:])


def _drawn(advice: Advice, settings: AdviseSettings) -> "Drawn":
    from bandit_lab.runs.advise.plot import margins_figure

    return margins_figure(advice, settings.safety)

"""What `advise` shows of one run: on the terminal, and on the page to paste into an issue."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bandit_lab import __version__
from bandit_lab.study.advise import tables
from bandit_lab.study.advise.answers import answers
from bandit_lab.study.advise.settings import AdviseSettings
from bandit_lab.study.advise.words import assumptions
from bandit_lab.study.advise.work import Advice
from bandit_lab.study.document import Block, Document, Figure, On, Table
from bandit_lab.study.logs.findings import paragraphs

ALT = "stability margin against refresh interval, this run marked: law dashed, exact solid"


def on_terminal(advice: Advice, settings: AdviseSettings) -> list[Block]:
    """The tables and sentences of one run, the answers last."""
    setup, margins = advice.setup, tables.margin_table(advice)

    def titled(table: Table[Any], title: str = "") -> Table[Any]:
        return replace(table, title=title, on=On.TERMINAL)

    by_delay = titled(tables.delay_table(advice), "If the reward responds within ... optimiser steps")
    lines = [f"Caution: {caution}." for caution in _cautions(advice)]
    lines += [f"Note: {note}." for note in advice.evidence.notes]
    lines += [f"Beware: {trap.text}." for trap in setup.traps]
    if settings.report:
        lines.append(
            "What this assumes (optimiser, KL, staleness, safety) stands in report/advice.md and in summary.json."
        )
    lines += [f"{question} {answer}" for question, answer in answers(advice, settings)]
    return [
        *paragraphs(["; ".join(setup.recognised)], On.TERMINAL),
        titled(tables.settings_table(advice)),
        *paragraphs([tables.stiffness_line(advice)], On.TERMINAL),
        titled(margins) if margins.rows else by_delay,
        *([] if advice.groups is None else [titled(tables.group_table(advice), tables.group_title(advice))]),
        *paragraphs(lines, On.TERMINAL),
    ]


def _cautions(advice: Advice) -> Sequence[str]:
    return () if advice.strength is None or advice.strength.delay is None else advice.strength.delay.cautions


def page(advice: Advice, settings: AdviseSettings) -> Document:
    """The page: answers, margins, groups, what was read and assumed, one picture."""
    setup = advice.setup
    traps = [f"{trap.text} ({trap.source})." for trap in setup.traps]
    notes = [f"{text}." for text in (*advice.evidence.notes, *setup.loop.notes)]
    read = [] if advice.evidence.curve is None else list(advice.evidence.curve.recognised)
    sources = [f"K_ref: {setup.loop.source}.", f"Advantage: {setup.reading.rule.source}."]
    margins = [tables.stiffness_line(advice), *(f"Caution: {text}." for text in _cautions(advice))]
    sections: dict[str, Sequence[Block]] = {
        "": [Figure(lambda: _drawn(advice, settings), ALT, dpi=130)],
        "Answers": paragraphs([f"{question} {answer}" for question, answer in answers(advice, settings)]),
        "Settings": [*paragraphs(setup.recognised), tables.settings_table(advice)],
        "Margins": [*paragraphs(margins), tables.margin_table(advice)],
        "By response time [optimiser steps]": [tables.delay_table(advice)],
        **({} if advice.groups is None else {tables.group_title(advice): [tables.group_table(advice)]}),
        "Beware": paragraphs([*traps, *notes]),
        "Assumed": paragraphs([f"{text}." for text in assumptions(advice, settings)]),
        "Sources": paragraphs([*read, *sources, f"bandit_lab {__version__}"]),
    }
    return Document("Which settings of this run are safe", sections)


def _drawn(advice: Advice, settings: AdviseSettings) -> Any:
    from bandit_lab.study.plots.margins import margins_figure

    return margins_figure(advice, settings.safety)

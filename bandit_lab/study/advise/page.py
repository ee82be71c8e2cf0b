"""The page of `advise`, to paste into an issue: answers, margins, groups, what was read and assumed, one picture."""

from pathlib import Path

from bandit_lab import __version__
from bandit_lab.study.advise import table
from bandit_lab.study.advise.answers import answers
from bandit_lab.study.advise.assumptions import assumptions
from bandit_lab.study.advise.picture import picture_of
from bandit_lab.study.advise.settings import AdviseSettings
from bandit_lab.study.advise.work import Advice
from bandit_lab.study.pages.page import Section, write_page

TITLE = "Which settings of this run are safe"
ALT = "stability margin against refresh interval, this run marked: law dashed, exact solid"


def sections(advice: Advice, settings: AdviseSettings) -> list[Section]:
    """The page's content, apart from the picture."""
    parts: list[Section] = [
        ("Answers", [f"{question} {answer}" for question, answer in answers(advice, settings)], []),
        ("Settings", list(advice.setup.recognised), [["quantity", "value", "from"], *table.settings_rows(advice)]),
    ]
    found = table.margin_rows(advice)
    cautions = () if advice.strength is None or advice.strength.delay is None else advice.strength.delay.cautions
    lines = [table.stiffness_line(advice), *(f"Caution: {text}." for text in cautions)]
    parts.append(("Margins", lines, [["", "law", "exact"], *found] if found else []))
    parts.append(("By response time [optimiser steps]", [], table.delay_rows(advice)))
    if advice.groups is not None:
        parts.append((table.group_title(advice), [], table.group_rows(advice)))
    traps = [f"{trap.text} ({trap.source})." for trap in advice.setup.traps]
    notes = [f"{text}." for text in (*advice.evidence.notes, *advice.setup.loop.notes)]
    parts += [("Beware", [*traps, *notes], [])] if traps or notes else []
    parts.append(("Assumed", [f"{text}." for text in assumptions(advice, settings)], []))
    read = [] if advice.evidence.curve is None else list(advice.evidence.curve.recognised)
    sources = [f"K_ref: {advice.setup.loop.source}.", f"Advantage: {advice.setup.reading.rule.source}."]
    parts.append(("Sources", [*read, *sources, f"bandit_lab {__version__}"], []))
    return parts


def write_advice(advice: Advice, settings: AdviseSettings, folder: Path) -> None:
    """Write `report/advice.html`, `.md` and `.png`."""
    from bandit_lab.study.plots import draw_margins

    picture = draw_margins(picture_of(advice, settings))
    write_page(folder, "advice", TITLE, picture, sections(advice, settings), ALT)

"""What tables, pages and pictures say of a diagnosis: sentences for its verdict, its evidence, its picture."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from bandit_lab._version import __version__
from bandit_lab.app.document import Block, Column, Figure, On, Paragraph, Table, Value
from bandit_lab.runs.diagnose import Diagnosis, Evidence
from bandit_lab.runs.read import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

RUN_ALT = "reward against step, with held-out results, entropy and silent groups where logged; evidence shaded"
Mark = tuple[float, float, str]
"""First step, last step, what was measured."""

_SENTENCES = {
    "healthy": "No failure mode was found in what the log holds.",
    "not_judged": "Not judged: the log holds too little, or shows nothing learned, to call the run healthy.",
    "stalled": "Stalled: no gain where there was room.",
    "collapsed": "Collapsed: the reward fell and was not made good.",
    "diverging": "Diverging: KL, gradient norm or entropy explode, or the reward is no number any more.",
    "reward_hacking": "Reward hacking: the training reward goes up and what counts does not follow.",
    "advantage_degeneracy": "Advantage degeneracy: most groups are silent, their answers all got the same reward.",
    "policy_concentration": "Policy concentration: the entropy has fallen to a small share of what it was.",
    "truncated_answers": "Truncated answers: the length limit cuts nearly all of them off.",
    "sampler_mismatch": "Sampler mismatch: the engine does not sample from the policy that is trained.",
    "plumbing": "Plumbing: the log shows what no run that is wired as it should be can show.",
    "format_only": "Format only: the answers have the form and not the answer.",
    "answer_length": "Answer length: the answers are a small part as long as they were, or several times as long.",
    "dynamical_instability": "Dynamical instability: sustained oscillation, growing fluctuations or a collapse.",
}
BRIEF = {
    "reward_hacking": "hack",
    "advantage_degeneracy": "degen",
    "policy_concentration": "conc",
    "dynamical_instability": "inst",
    "stalled": "stall",
    "collapsed": "coll",
    "diverging": "div",
    "truncated_answers": "cut off",
    "sampler_mismatch": "mismatch",
    "plumbing": "plumbing",
    "format_only": "format",
    "answer_length": "length",
}
"""Names of the failures where there is little room."""
_NUMBER = 0.05
"""Share of a picture's width that a mark's number takes."""
_MEASURES = {"oscillation_p": "oscillation (p-value)"}


def measure(metric: str) -> str:
    """What a number of the evidence is called in tables and legends."""
    return _MEASURES.get(metric, metric.replace("_", " "))


def unfound_text(found: Diagnosis) -> str:
    """`healthy`, or that it is not judged and why: how many of the failures were not, or that nothing was gained."""
    if found.verdict == ("healthy",):
        return "healthy"
    if found.unlike:
        return f"not judged: {found.unlike}"
    scores = list(found.scores.values())
    unknown = scores.count(None)
    if unknown == len(scores):
        return "not judged"
    return f"{unknown} of {len(scores)} not judged" if 2 * unknown > len(scores) else "not judged: no clear gain"


def verdict_lines(found: Diagnosis) -> list[str]:
    """A sentence for every failure of the verdict, then what to do; a failure of a user's own detector is named."""
    then = f"What to do next: {found.next}"
    if found.verdict == ("not_judged",) and (text := unfound_text(found)) != "not judged":
        return [f"No failure mode was found in what the log holds; {text}.", then]
    said = [
        f"{'A note: ' if name in found.notes else ''}{_SENTENCES.get(name, name.replace('_', ' ') + '.')}"
        for name in found.verdict
    ]
    return [*said, then]


def verdict_text(found: Diagnosis, short: bool) -> str:
    """The verdict in plain words; findings that have done no harm stand behind `note:`."""
    if found.verdict in (("healthy",), ("not_judged",)):
        return unfound_text(found)
    words = {name: BRIEF.get(name, name) if short else name.replace("_", " ") for name in found.verdict}
    between = " + " if short else ", "
    failures = between.join(word for name, word in words.items() if name not in found.notes)
    noted = between.join(word for name, word in words.items() if name in found.notes)
    return ", ".join(text for text in (failures, f"note: {noted}" if noted else "") if text)


def marks(diagnosis: Diagnosis | None) -> tuple[Mark, ...]:
    """What the verdict rests on: windows of the evidence above its threshold, shaded and numbered in the picture."""
    if diagnosis is None:
        return ()
    return tuple(
        (*evidence.window, measure(evidence.metric))
        for finding in diagnosis.findings
        if finding.present
        for evidence in finding.evidence
        if evidence.above
    )


class Begun(NamedTuple):
    """Where evidence begins, its numbers as `1, 2`, and the line, from 0 on, on which they overlap no others."""

    first: float
    numbers: str
    line: int


def begun(firsts: Sequence[float], span: float) -> list[Begun]:
    """The numbers of marks [n], counted from 1, at the steps where they begin. span: steps of the picture."""
    at: dict[float, list[str]] = {}
    for number, first in enumerate(firsts, start=1):
        at.setdefault(first, []).append(str(number))
    found: list[Begun] = []
    ends: list[float] = []  # of the last number on each line
    for first, numbers in sorted(at.items()):
        line = next((line for line, end in enumerate(ends) if end <= first), len(ends))
        ends[line : line + 1] = [first + _NUMBER * span * len(numbers)]
        found.append(Begun(first, ", ".join(numbers), line))
    return found


class EvidenceRow(NamedTuple):
    """One number of the evidence, the failure that it is told from, and its number in the picture, if it has one."""

    failure: str
    evidence: Evidence
    mark: str


def evidence_table(diagnosis: Diagnosis | None, on: On = On.ALL, least: float = -math.inf) -> Table[EvidenceRow]:
    """Every number against its threshold, of those that reach `least` of it."""
    findings = () if diagnosis is None else diagnosis.findings
    marked = {mark: str(place) for place, mark in enumerate(marks(diagnosis), start=1)}
    rows = [
        EvidenceRow(finding.failure, one, marked.get((*one.window, measure(one.metric)), ""))
        for finding in findings
        for one in finding.evidence
        if one.score >= least
    ]
    columns: list[Column[EvidenceRow]] = [
        Column("mark", "", lambda row: row.mark, on=On.PAGE),
        Column("failure", "failure", lambda row: row.failure, text=lambda row: row.failure.replace("_", " "),
               on=On.JSON | On.PAGE),
        Column("metric", "measure", lambda row: row.evidence.metric, text=lambda row: measure(row.evidence.metric)),
        Column("window", "steps", lambda row: list(row.evidence.window),
               text=lambda row: f"{row.evidence.window[0]:g} to {row.evidence.window[1]:g}"),
        Column("value", "value", lambda row: Value.of(row.evidence.value, "not finite"), digits=3),
        Column("threshold", "threshold", lambda row: Value.of(row.evidence.threshold, "told, not judged"),
               text=lambda row: f"{row.evidence.threshold:.3g} {row.evidence.also}".rstrip()),
        Column("also", "and", lambda row: row.evidence.also, on=On.JSON),
        Column("text", "what was seen", lambda row: row.evidence.text, left=True),
    ]  # fmt: skip
    return Table(rows, columns, on=on)


def caveat_lines(found: Diagnosis) -> list[str]:
    """What could not be judged, and what to beware of."""
    lines = [f"Not judged: {text}." for text in found.missing] + [f"Beware: {text}." for text in found.traps]
    return lines + [f"Note: {text}." for text in found.remarks]


def judged(found: Diagnosis | None, lines: Sequence[str] = ()) -> dict[str, Sequence[Block]]:
    """Sections of a page: lines, the evidence that the verdict rests on, and what it leaves open."""
    if found is None:
        return {}
    return {
        "Verdict and evidence": [*paragraphs(lines), evidence_table(found)],
        "Not judged, and what to beware of": paragraphs(caveat_lines(found)),
    }


def details(blocks: Sequence[Block]) -> list[Block]:
    """What stands on the terminal below the answers."""
    return [Paragraph("Details:", On.TERMINAL), *blocks]


def paragraphs(lines: Sequence[str], on: On = On.SHOWN) -> list[Paragraph]:
    """Each line as a block."""
    return [Paragraph(line, on) for line in lines]


def verdict_first(found: Diagnosis) -> list[Paragraph]:
    """The first failure, at the head of a page, the names of the others, and what to do."""
    first, *_, then = verdict_lines(found)
    names = [f"{name.replace('_', ' ')}{' (a note)' if name in found.notes else ''}" for name in found.verdict[1:]]
    also = [f"Also: {', '.join(names)}."] if names else []
    return [Paragraph(first, On.PAGE, lead=True), *paragraphs([*also, then], On.PAGE)]


def what_was_read(curve: Curve, notes: Sequence[str] = ()) -> list[Paragraph]:
    """How the log was understood, and by which version."""
    scale = [curve.scale.text] if curve.reward.size else []
    lines = [*curve.recognised, *scale, f"step unit: {curve.step_unit}", *notes]
    lines += [f"{name}: {origin}" for name, origin in curve.provenance.items()]
    return paragraphs([*lines, f"bandit_lab {__version__}"])


def run_drawn(name: str, curve: Curve, found: Diagnosis) -> Figure:
    """The picture of one run with its evidence."""

    def drawn() -> "Drawn":
        from bandit_lab.runs.diagnose.plot import diagnosis_figure

        return diagnosis_figure(name, curve, found)

    def drawn_on(axes: "Axes") -> None:
        from bandit_lab.runs.diagnose.plot import diagnosis_on

        diagnosis_on(axes, name, curve, found)

    return Figure(drawn, RUN_ALT, dpi=130, on_axes=drawn_on)

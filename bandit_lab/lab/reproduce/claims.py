"""From claims to rows with a verdict, and rows as tables. `holds` is computed here and nowhere typed."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from bandit_lab.app.document import ABSENT, Column, On
from bandit_lab.app.terminal import report
from bandit_lab.lab.reproduce.experiment import Claim, Loaded, Results

ClaimRow = dict[str, Any]
ABOUT = ("fails_if", "follows", "post_hoc", "constant")  # what a claim says of itself, see `Claim`
DIGITS = 6  # of a number in a table: its distance from the prediction shows


def rows(loaded: Loaded, found: Results) -> list[ClaimRow]:
    """One row per claim, as in `claims.json`."""
    return [row(claim, found) for claim in loaded.claims]


def row(claim: Claim, found: Results) -> ClaimRow:
    """The verdict of one claim; `tolerance` is absolute, `relative_tolerance` beside it where it was given so.

    Raises ValueError where the prediction is not a finite number other than zero.
    """
    predicted, measured = float(claim.predicted(found)), float(claim.measured(found))
    given = float(claim.tolerance(found) if callable(claim.tolerance) else claim.tolerance)
    if not math.isfinite(predicted) or predicted == 0:
        raise ValueError(f"{claim.id}: expected a finite prediction other than 0, got {predicted}")
    tolerance = given * abs(predicted) if claim.relative else given
    result = {
        "id": claim.id,
        "figure": claim.id.partition(".")[0],
        "statement": claim.statement,
        "source": claim.source,
        "unit": claim.unit,
        "predicted": predicted,
        "measured": measured,
        "tolerance": tolerance,
        "relative_tolerance": given if claim.relative else None,
        "holds": abs(measured - predicted) <= tolerance,  # False if measured is NaN
        "independent": not claim.follows,
        **{name: getattr(claim, name) or None for name in ABOUT},
        "quality": found.setting.quality,
        "command": command(claim.id.partition(".")[0], found.setting.quality),
    }
    if not math.isfinite(measured):
        result["measured_reason"] = "nothing finite was measured"
    if not result["holds"]:
        result["explanation"] = claim.explanation
    return result


def finding(loaded: Loaded, rows: Sequence[ClaimRow]) -> str:
    """What was found, with the measured numbers of the claims in it. Raises ValueError where it names another."""
    try:
        told = loaded.finding.format_map({row["id"].partition(".")[2]: row["measured"] for row in rows})
    except KeyError as error:
        raise ValueError(f"FINDING: expected names of claims in braces, got {error}") from None
    return re.sub(r"(?<=\d)%", "\u00a0%", told)


def failed(loaded: Loaded, rows: Sequence[ClaimRow]) -> list[str]:
    """A line for every prediction that does not hold, as it stands above the picture."""
    return [
        f"\u2717 failed: {claim.short or claim.statement}: predicted {report.number(row['predicted'], 3)}, "
        f"measured {report.number(row['measured'], 3)}"
        for claim, row in zip(loaded.claims, rows, strict=True)
        if not row["holds"]
    ]


def command(figure: str, quality: str = "paper") -> str:
    """The command that makes a figure's rows."""
    return f"python -m bandit_lab reproduce figures={figure} quality={quality}"


SHOWN: tuple[Column[ClaimRow], ...] = (
    Column("id", "id", lambda row: row["id"]),
    Column("predicted", "predicted", lambda row: row["predicted"], digits=DIGITS),
    Column("measured", "measured", lambda row: row["measured"], digits=DIGITS),
    Column("tolerance", "tolerance", lambda row: row["tolerance"], digits=3),
    Column("holds", "holds", lambda row: "yes" if row["holds"] else "NO"),
)


def columns(rows: Sequence[ClaimRow]) -> list[Column[ClaimRow]]:
    """Everything that `claims.json` tells of a claim."""

    def of(key: str) -> Column[ClaimRow]:
        return Column(key, key, lambda row: row.get(key, ABSENT), on=On.JSON)

    return [of(key) for key in dict.fromkeys(key for row in rows for key in row)]


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(row) + " |" for row in rows)]


def markdown(content: dict[str, Any]) -> str:
    """`claims.md` from the content of `claims.json`."""
    rows = content["claims"]
    lines = [
        "# Claims",
        "",
        tally(rows),
        "",
        "A claim holds if |measured - predicted| <= tolerance. Tolerances were written before the measurements of",
        "this quality, some after a first draft. A claim follows from another one if that one has compared the same",
        "measured numbers: only a mistake in a formula can break it. Post hoc: made after a first look at results.",
        "Numbers without a unit are ratios, shares, exponents, slopes or counts of what the claim names. Generated by",
        "`python -m bandit_lab reproduce figures=all quality=paper publish=figures`; the same in `claims.json`.",
    ]
    for figure, about in content["figures"].items():
        mine = [one for one in rows if one["figure"] == figure]
        lines += [
            "",
            f"## {about['title']}",
            "",
            f"{about['question']} {about.get('finding', '')} [Picture]({figure}.png), [numbers]({figure}.csv)",
        ]
        lines += ["", f"`{command(figure, about['quality'])}`", ""]
        head = ["claim", "what could have made it fail", "source", "predicted", "measured", "tolerance", "holds"]
        lines += grid(head, map(_cells, mine))
        for one in mine:
            if not one["holds"] and one.get("explanation"):
                lines += ["", f"`{one['id']}` does not hold: {one['explanation']}"]
        if about.get("table"):
            lines += ["", about["table"].strip()]
    return "\n".join(lines) + "\n"


def tally(rows: list[ClaimRow]) -> str:
    """How many claims there are and hold, how many are checks of their own, and how many came after a first look."""
    alone = [one for one in rows if one.get("independent", True)]
    late = sum(one.get("post_hoc") is not None for one in rows)
    return (
        f"{len(rows)} claims, of which {sum(one['holds'] for one in rows)} hold. {len(alone)} of them are independent "
        f"checks, of which {sum(one['holds'] for one in alone)} hold; the others follow from these. Post hoc: {late}."
    )


def doubts(one: ClaimRow) -> str:
    """What could have made a claim fail, and what weakens it."""
    parts = [one.get("fails_if") or "not stated"]
    parts += [f"follows from {one['follows']}"] if one.get("follows") else []
    parts += [f"post hoc: {one['post_hoc']}"] if one.get("post_hoc") else []
    parts += [f"constant from {one['constant']}"] if one.get("constant") else []
    return "; ".join(parts)


def _cells(one: ClaimRow) -> list[str]:
    unit = f" {one['unit']}" if one["unit"] else ""
    numbers = [report.number(one[key], DIGITS) + unit for key in ("predicted", "measured")]
    relative = one["relative_tolerance"]
    allowed = report.number(one["tolerance"], 3) + unit if relative is None else f"{100 * relative:.3g} %"
    statement = f"{one['statement']} (`{one['id']}`)"
    cells = [statement, doubts(one), one["source"], *numbers, allowed, "yes" if one["holds"] else "**no**"]
    return [str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells]

"""Short tables on stdout, and a run's settings as YAML."""

import io
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab._text import visible
from bandit_lab.study.document.as_json import plain
from bandit_lab.study.document.value import number
from bandit_lab.study.quantities import EXACT, LEADING, LINEAR, RATE
from bandit_lab.study.terminal.output import say
from bandit_lab.study.terminal.text import literal, literal_table

if TYPE_CHECKING:
    from bandit_lab.study.predict.command import Plan

FORMS = {
    "heavy_ball": "heavy ball, v <- mu v + g",
    "ema": "EMA momentum, v <- mu v + (1 - mu) g",
    "nesterov": "Nesterov",
}
BIFURCATIONS = {
    "flip": "flip: a real multiplier passes -1",
    "neimark_sacker": "complex pair leaves the unit circle (Neimark-Sacker)",
}
MANY = 5
"""Logs from which a table gives each one line."""


def as_yaml(settings: dict[str, Any]) -> str:
    """Settings as YAML that Hydra reads again."""
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(plain(settings)))


class _Page(io.StringIO):
    """Text that is laid out for stdout's encoding."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(sys.stdout, "encoding", None) or "utf-8"


def show(*tables: Any) -> None:
    """Print tables, or text as it stands, on stdout; without colours where stdout is not a terminal."""
    tables = tuple(literal(table) if isinstance(table, str) else table for table in tables)
    from rich.console import Console

    seen = Console(highlight=False)
    width = seen.width if seen.is_terminal else 120
    page = _Page()  # rich itself would end the process where stdout is closed
    console = Console(file=page, highlight=False, force_terminal=seen.is_terminal, width=width)
    for table in tables:
        console.print(table)
    if tables:
        say(page.getvalue().removesuffix("\n"))


def numbers(values: Any, digits: int = 4) -> str:
    """Several numbers, at most six."""
    if values is None:
        return "-"
    shown = [
        f"{v['re']:.{digits}g}{v['im']:+.{digits}g}i" if isinstance(v, dict) else number(v, digits) for v in values
    ]
    return ", ".join(shown[:6]) + (", ..." if len(shown) > 6 else "")


def spectrum(values: np.ndarray) -> list[Any]:
    """Eigenvalues for JSON: numbers, or {re, im} where they are complex."""
    if np.all(np.abs(np.imag(values)) <= 1e-10 * (np.abs(values).max() + 1e-300)):
        return [float(v) + 0.0 for v in np.real(values)]
    return [{"re": float(v.real), "im": float(v.imag)} for v in values]


def new_table(title: str, *columns: str) -> Any:
    """A plain table; every column but the first is right-aligned. Cells are text as it stands, never markup."""
    from rich.box import SIMPLE_HEAD

    table = literal_table(title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    return table


def print_prediction(plan: "Plan", summary: dict[str, Any]) -> None:
    """The verdict and the table of `predict`."""
    settings, form = plan.settings, FORMS.get(summary["oscillator"]["convention"], summary["oscillator"]["convention"])
    names = (group["name"] for group in (settings.bandit, settings.advantage, settings.estimator, settings.staleness))
    say(visible(summary["verdict"]))  # not wrapped: `| head -1` has all of it
    show(f"{', '.join(names)}; drift at {summary['drift']}; momentum convention: {form}")
    table = new_table("", "quantity", "value", "unit", "how good")
    for row in [*_rows(plan, summary), *_statement_rows(summary)]:
        if row[1] != "-":
            table.add_row(*row)
    show(*([table] if table.row_count else []), *_why(summary), *summary.get("notes", []))


def _why(summary: dict[str, Any]) -> list[str]:
    """Lines that say why something is missing from the table, each reason once."""
    if "policy_reason" in summary["fixed_point"]:
        return [f"No prediction at {summary['drift']}: {summary['fixed_point']['policy_reason']}."]
    rate, interval = summary["thresholds"]["learning_rate"], summary["thresholds"]["refresh_interval"]
    std = summary["stationary_std"]
    named = {
        "exact threshold": rate.get("exact_reason"),
        "onset of oscillation": rate.get("oscillation_onset_reason"),
        "leading-order law": rate.get("leading_order_reason"),
        "unstable refresh interval": interval.get("exact_reason"),
        "stationary std": std.get("expected_reward_reason"),
    }
    reasons: dict[str, list[str]] = {}
    for name, reason in named.items():
        if reason:
            reasons.setdefault(reason, []).append(name)
    notes = [f"Note: {summary['fixed_point']['note']}."] if "note" in summary["fixed_point"] else []
    return [*(f"No {', '.join(names)}: {reason}." for reason, names in reasons.items()), *notes]


def _statement_rows(summary: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    rows = summary.get("statements", [])
    return [(row["name"], number(row["value"], 5), row["unit"], row["status"]) for row in rows]


def _first_of(policies: Any) -> str:
    return f" at the first of {len(policies)} prompts" if policies is not None and len(policies) > 1 else ""


def _rows(plan: "Plan", summary: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    settings, point, osc = plan.settings, summary["fixed_point"], summary["oscillator"]
    rate, interval = summary["thresholds"]["learning_rate"], summary["thresholds"]["refresh_interval"]
    steps = summary.get("spectral_radius_steps", 1)
    place = f"eta = {settings.learning_rate:g}, mu = {settings.momentum:g}, N = {settings.refresh_interval}"
    return [
        (
            f"fixed point: policy{_first_of(point['policies'])}",
            numbers(None if point["policy"] is None else plain(point["policy"])),
            "",
            EXACT,
        ),
        ("  expected reward", number(point["expected_reward"], 6), "reward", EXACT),
        ("stiffness, largest", number(summary["stiffness"], 6), "reward / logit^2", EXACT),
        ("  spectrum", numbers(summary["stiffness_spectrum"]), "reward / logit^2", EXACT),
        ("  felt at the current policy", numbers(summary["stiffness_fresh"]), "reward / logit^2", EXACT),
        ("  felt at the policy that acted", numbers(summary["stiffness_stale"]), "reward / logit^2", EXACT),
        ("oscillator: mass", number(osc["mass"]), "steps / learning rate", LEADING),
        ("  damping, with the lag N", number(osc["damping"]), "1 / learning rate", LEADING),
        ("learning rate: leading-order law", number(rate["leading_order"], 6), RATE, LEADING),
        ("  exact threshold", number(rate["exact"], 6), RATE, LINEAR),
        ("  kind of bifurcation", BIFURCATIONS.get(summary["bifurcation"], summary["bifurcation"] or "-"), "", LINEAR),
        ("  onset of oscillation", number(rate["oscillation_onset"], 6), RATE, LINEAR),
        ("refresh interval: leading-order law", number(interval["leading_order"]), "steps", LEADING),
        ("  first unstable", number(interval["exact"]), "steps", LINEAR),
        ("  unstable ranges", _ranges(interval), "steps", LINEAR),
        (f"at {place}: regime", summary["regime"] or "-", "", LINEAR),
        (
            "  largest multiplier",
            number(summary["spectral_radius"], 6),
            "per step" if steps == 1 else f"per {steps} steps",
            LINEAR,
        ),
    ]


def _ranges(interval: dict[str, Any]) -> str:
    runs, end = interval["islands"], interval.get("searched_up_to")
    if runs is None:
        return "-"
    if not runs:
        return f"none up to {end}"
    texts = [f"{a}..{'' if b == end else b}" for a, b in runs]
    return ", ".join(texts[:5]) + (", ..." if len(texts) > 5 else "") + f" (searched up to {end})"

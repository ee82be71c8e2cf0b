"""`explore`: the stability map as one page that a browser opens without a network."""

import html
import json
import os
import sys
import webbrowser
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab._checks import one_of
from bandit_lab.app.chunks import durable
from bandit_lab.app.folder.store import RunFolder, settings_in
from bandit_lab.app.progress import Progress, stopped_by_disk
from bandit_lab.app.result import Result
from bandit_lab.app.settings.config import ExploreSettings
from bandit_lab.lab.explore.tables import INTERVALS, MODELS, measured, predicted, tables
from bandit_lab.lab.predict import build

PAGE = "map.html"
HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="bandit_lab explore">"""

FRAME = 900
"""Height of the page in a notebook, pixels."""
OF_SWEEP = ("bandit", "advantage", "estimator", "optimizer", "kl_weight", "group_size", "dynamics")
"""Settings that the page takes from a sweep, where they are not given."""


@dataclass(frozen=True)
class _ExplorePlan:
    """Checked settings, and what a sweep has measured."""

    settings: ExploreSettings
    rows: list[dict[str, Any]]


def prepare(settings: ExploreSettings, explicit: frozenset[str]) -> _ExplorePlan:
    """Check everything and read what is laid into the map. Raises ValueError."""
    given = {key.partition(".")[0] for key in explicit}
    _checks.require(len(settings.paths) < 2, "paths", "one sweep's folder", ", ".join(settings.paths))
    rows: list[dict[str, Any]] = []
    if settings.paths:
        folder = Path(settings.paths[0])
        rows, own = measured(folder), settings_in(folder)
        settings = ExploreSettings(**asdict(settings) | {key: own[key] for key in OF_SWEEP if key not in given})
    name = settings.staleness.get("name", "")
    _checks.require(name in MODELS, "staleness", one_of(name, MODELS), name)
    largest = INTERVALS[-1]
    inside = 1 <= settings.refresh_interval <= largest
    _checks.require(inside, "refresh_interval", f"1 to {largest} on the page", settings.refresh_interval)
    build.check_scalars(predicted(settings))
    build.build_learner(predicted(settings), float(largest))
    return _ExplorePlan(settings, rows)


def check_folder(plan: _ExplorePlan, folder: Path) -> None:
    """Raise ValueError if the page cannot be written there, or somebody else's would be replaced."""
    output = folder / PAGE
    free = not output.exists() or (output.is_file() and output.read_bytes().startswith(HEAD.encode()))
    _checks.require(free, "run_dir", f"a folder without a {PAGE} of somebody else", str(folder))


@dataclass(frozen=True, eq=False, repr=False)
class Map(Result):
    """The page: its `html`, and what is laid into it. A notebook shows it in a frame."""

    html: str = ""

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" title="Stability map" style="width:100%;height:{FRAME}px;border:0"></iframe>'


def compute(plan: _ExplorePlan, progress: Progress) -> Map:
    """The page of a checked plan."""
    settings = plan.settings
    start = {
        "model": settings.staleness["name"],
        "momentum": float(settings.momentum),
        "interval": int(settings.refresh_interval),
        "rate": float(settings.learning_rate),
    }
    names = [getattr(settings, key)["name"] for key in ("bandit", "advantage", "estimator", "optimizer")]
    words = f"{', '.join(names)}; KL weight {settings.kl_weight:g}, G = {settings.group_size}"
    with progress.stage("thresholds and example runs"):
        drawn = tables(settings)
    given = {"start": start, "words": words, "tables": drawn, "measured": plan.rows}
    data = json.dumps(given, allow_nan=False).replace("<", "\\u003c")  # no name of a setting ends the script
    parts = Path(__file__).parent / "page"
    body = (parts / "index.html").read_text(encoding="utf-8")
    script = (parts / "map.js").read_text(encoding="utf-8")
    text = HEAD + body.replace("/*GIVEN*/", data).replace("/*SCRIPT*/", script)
    lines = (f"{len(plan.rows)} thresholds measured by the sweep {settings.paths[0]}",) if plan.rows else ()
    return Map("Stability map", {"measured": plan.rows}, lines, html=text)


def execute(plan: _ExplorePlan, folder: RunFolder, progress: Progress) -> Map:
    """Write the page, and show it where that is wanted."""
    page, output = compute(plan, progress), folder.path / PAGE
    with stopped_by_disk(output):
        durable.write_file(output, page.html.encode())
    shown = plan.settings.open and _show_in_browser(output)
    size = f"{len(page.html.encode()) / 1e6:.1f} MB"
    message = f"{output}: {size}, no network needed; {'the browser opens it' if shown else 'open it in a browser'}."
    return replace(page, shown=(message, *page.shown))


def _show_in_browser(path: Path) -> bool:
    display = sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(display) and webbrowser.open(path.resolve().as_uri())

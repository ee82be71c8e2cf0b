"""`explore`: the stability map as one page that a browser opens without a network."""

import html
import os
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab.app.chunks import durable
from bandit_lab.app.folder.outputs import begins, file_in
from bandit_lab.app.folder.store import manifest_of
from bandit_lab.app.runner import default_folder
from bandit_lab.app.terminal import report
from bandit_lab.app.terminal.errors import stopped_by_disk
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.lab.explore import overlays
from bandit_lab.lab.explore.page import HEAD, page
from bandit_lab.lab.explore.settings import ExploreSettings
from bandit_lab.lab.explore.start import start

PAGE = "map.html"
FRAME = 900
"""Height of the page in a notebook, pixels."""


@dataclass(frozen=True)
class ExplorePlan:
    """Checked settings, the page's first setting, what is laid into the map, and a file that can be written."""

    settings: ExploreSettings
    start: dict[str, Any]
    sweep: Path | None
    output: Path


def prepare(settings: ExploreSettings, explicit: frozenset[str]) -> ExplorePlan:
    """Check everything and read what is laid into the map. Raises ValueError."""
    given = frozenset(key.partition(".")[0] for key in explicit)
    folder = settings.paths[0] if settings.paths else None
    one = len(settings.paths) < 2 and (folder is None or manifest_of(Path(folder)) is not None)
    _checks.require(one, "paths", "one sweep's folder", ", ".join(settings.paths))
    output = _page_file(settings)
    sweep = None
    if folder is not None:
        sweep, own = overlays.sweep_folder(folder)
        settings = overlays.settings_of_sweep(own, settings, given, sweep)
    return ExplorePlan(settings, start(settings), sweep, output)


def _page_file(settings: ExploreSettings) -> Path:
    if settings.run_dir is None:
        return default_folder("explore") / PAGE
    return file_in(settings.run_dir, PAGE, begins(HEAD), settings.paths)


@dataclass(frozen=True, repr=False)
class Map:
    """The page: its `html`, and in `words` what is laid into it. A notebook shows it in a frame."""

    html: str
    words: tuple[str, ...] = ()

    def __repr__(self) -> str:
        size = f"{len(self.html.encode()) / 1e6:.1f} MB of HTML, shown in a notebook"
        return "\n".join([f"Stability map: {size}", *self.words])

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" title="Stability map" style="width:100%;height:{FRAME}px;border:0"></iframe>'


def made(plan: ExplorePlan) -> Map:
    """The page of a checked plan. Writes nothing."""
    begin = plan.start
    sweep = None if plan.sweep is None else overlays.sweep_cells(plan.sweep)
    if sweep is not None and begin["momentum"] not in sweep["momenta"]:
        begin = {**begin, "momentum": sweep["momenta"][0]}
    text = page({"start": begin, "run": None, "sweep": sweep})
    return Map(text, () if sweep is None else (sweep["words"],))


def write(plan: ExplorePlan, found: Map) -> bool:
    """Write the page and show it, where that is wanted. Returns whether a browser opens it.

    Raises:
      Stopped: the file cannot be written.
    """
    with stopped_by_disk(plan.output):
        plan.output.parent.mkdir(parents=True, exist_ok=True)
        durable.write_file(plan.output, found.html.encode())
    return plan.settings.open and _show_in_browser(plan.output)


def execute(plan: ExplorePlan, folder: Any, progress: Progress) -> Path:
    """Write the page and show it. Returns its path, the last line of stdout."""
    with progress.stage("page"):
        found = made(plan)
    shown = write(plan, found)
    size = f"{len(found.html.encode()) / 1e6:.1f} MB"
    told = f"One page, {size}, no network needed; {'the browser opens it' if shown else 'open it in a browser'}."
    report.show(told, *found.words)
    return plan.output


def _show_in_browser(path: Path) -> bool:
    display = sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(display) and webbrowser.open(path.resolve().as_uri())

"""A document into the run folder, and the command around it: everything that a pure function does not know of."""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bandit_lab.app.document.as_page import as_html, as_markdown
from bandit_lab.app.document.blocks import Contents, Figure, On
from bandit_lab.app.document.document import Document
from bandit_lab.app.folder.manifest import CompileClock, manifest
from bandit_lab.app.folder.store import RunFolder
from bandit_lab.app.folder.written import INDEX, REPORT
from bandit_lab.app.terminal.errors import Incomplete
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.app.terminal.report import as_yaml


class Checked(Protocol):
    """What `prepare` returns: checked settings, and the precision of the numbers."""

    @property
    def settings(self) -> Any:
        """The settings, a dataclass."""
        ...

    @property
    def precision(self) -> str | None:
        """For the manifest."""
        ...


P = TypeVar("P", bound=Checked)


def perform(
    command: str, compute: Callable[[P, Progress], Document], plan: P, folder: RunFolder, progress: Progress
) -> Document:
    """Do a command that is a function from a plan to a document: run folder, manifest, terminal, exit code.

    The manifest is written last, and what is printed is printed after it. Raises Incomplete where parts are missing.
    """
    start = time.perf_counter()
    settings = asdict(plan.settings)
    folder.open(as_yaml(settings))
    with CompileClock() as clock:
        document = compute(plan, progress)
    write(document, folder, progress)
    seconds = clock.split(time.perf_counter() - start)
    stages = {name: round(value, 3) for name, value in progress.seconds.items()}
    about = manifest(command, settings | {"precision": plan.precision}, {}, seconds)
    folder.write_manifest(about | {"stage_seconds": stages})
    document.show()
    if document.incomplete:
        raise Incomplete(document.incomplete, document)
    return document


def write(document: Document, folder: RunFolder, progress: Progress) -> None:
    """Write `summary.json`, `results.zarr`, pictures and `report/`; each page with its picture as HTML and Markdown."""
    with progress.stage("writing"):
        if document.stored and document.data is not None:
            folder.write_results(document.data)
        folder.write_summary(document.to_dict())
    with folder.staged() as place:
        if document.figures:
            with progress.stage("pictures"):
                for figure in document.figures:
                    (place / f"{figure.name}.png").write_bytes(figure.png())
        if document.pages:
            with progress.stage("reports") as advance:
                (place / REPORT).mkdir()
                for done, (name, page) in enumerate(document.pages.items(), start=1):
                    _write_page(place / REPORT, name, page)
                    advance(done, len(document.pages))
                if document.blocks(On.PAGE) and INDEX not in document.pages:
                    html = as_html(document, lambda figure: _drawn(figure, place))
                    (place / REPORT / f"{INDEX}.html").write_text(html, encoding="utf-8")


def _write_page(place: Path, name: str, page: Contents) -> None:
    """`<name>.html`, `.md`, and `.png`: the first picture of the page."""
    drawn: list[bytes] = []

    def picture(figure: Figure) -> bytes:
        drawn.append(figure.png())
        return drawn[-1]

    (place / f"{name}.html").write_text(as_html(page, picture), encoding="utf-8")
    (place / f"{name}.md").write_text(as_markdown(page, f"{name}.png"), encoding="utf-8")
    for data in drawn[:1]:
        (place / f"{name}.png").write_bytes(data)


def _drawn(figure: Figure, place: Path) -> bytes:
    path = place / f"{figure.name}.png"
    return path.read_bytes() if path.exists() else figure.png()

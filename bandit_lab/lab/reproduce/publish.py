"""What `reproduce` leaves behind: the run folder's files, and the published figures with their table and index."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab.app.chunks import durable, read_json
from bandit_lab.app.folder.store import RESULTS, strict_json
from bandit_lab.lab.reproduce import claims, experiment
from bandit_lab.lab.reproduce.experiment import Experiment, Results

DONE, FAILED, SKIPPED = "done", "failed", "skipped"
CLAIMS, TABLE, INDEX = "claims.json", "claims.md", "README.md"
FORMATS = ("png", "pdf", "svg")


@dataclass
class Reproduced:
    """The outcome of one experiment. files: name -> content."""

    id: str
    status: str
    reason: str = ""
    seconds: float = 0.0
    from_cache: bool = False
    title: str = ""
    finding: str = ""
    question: str = ""
    quality: str = ""
    rows: list[claims.ClaimRow] = field(default_factory=list)
    results: Results | None = None
    table: str = ""
    files: dict[str, bytes] = field(default_factory=dict)


def write_results(outcomes: list[Reproduced], folder: Path) -> None:
    """`results.zarr`: a group per figure, in it `predicted` and `measured`."""
    import xarray
    import zarr

    about = {"groups": "<figure>/predicted, <figure>/measured"}
    with durable.built(folder / RESULTS) as place:
        xarray.Dataset(attrs=about).to_zarr(place, mode="w", zarr_format=2, consolidated=False)
        for one in outcomes:
            if one.results is not None:
                for role in ("predicted", "measured"):
                    part = getattr(one.results, role)
                    part.to_zarr(place, group=f"{one.id}/{role}", mode="a", zarr_format=2, consolidated=False)
        zarr.consolidate_metadata(place, zarr_format=2)


def publish(outcomes: list[Reproduced], folder: Path, experiments: dict[str, Experiment]) -> None:
    """Copy what is done into `folder`; merge its claims into the table; write the index if the folder has one.

    Rows of figures that were not run, or failed, stay; rows of experiments that are no more go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = [one for one in outcomes if one.status == DONE]
    content = _merged(read(folder), done, experiments)
    durable.write_file(folder / CLAIMS, strict_json(content).encode())  # first: it says whose the pictures are
    durable.write_file(folder / TABLE, claims.markdown(content).encode())
    for one in done:
        for name, data in one.files.items():
            durable.write_file(folder / name, data)
    index = experiment.experiments_dir() / INDEX
    if index.parent.parent == folder.absolute().resolve().parent:
        durable.write_file(index, _index_text(content, experiments, folder.absolute().resolve(), index.parent).encode())


def read(folder: Path) -> dict[str, Any]:
    """Content of `claims.json`, or of an empty one. Raises ValueError where it is not ours."""
    path = folder / CLAIMS
    if not path.is_file():
        return {"claims": [], "figures": {}}
    content = read_json(path) or {}
    ours = {"claims", "figures"} <= set(content)
    _checks.require(ours, "publish", "a folder whose claims.json is one of reproduce", str(path))
    return content


def _merged(content: dict[str, Any], done: list[Reproduced], experiments: dict[str, Experiment]) -> dict[str, Any]:
    """The published content with the new outcomes in it, sorted by figure."""
    about: dict[str, Any] = dict(content["figures"])
    rows: dict[str, list[claims.ClaimRow]] = {name: [] for name in experiments}
    for row in content["claims"]:
        rows.setdefault(row["figure"], []).append(row)
    for one in done:
        keys = ("title", "finding", "question", "quality", "table")
        about[one.id] = {name: getattr(one, name) or None for name in keys}
        rows[one.id] = one.rows
    names = sorted(name for name in about if name in experiments)
    return {"claims": [row for name in names for row in rows[name]], "figures": {name: about[name] for name in names}}


def _index_text(content: dict[str, Any], experiments: dict[str, Experiment], figures: Path, here: Path) -> str:
    """`experiments/README.md`: question, command, verdicts and thumbnail of every experiment."""
    lines = [
        "# Experiments",
        "",
        "One file per figure holds all of it, in reading order: the question, the prediction written before the run",
        "with its reference, what predicts, what measures, what draws, and the claims with their tolerances. The",
        "numbers of its setting are in `<id>.yaml` beside it. A new file here, with its YAML, is a new figure.",
        "Prediction and measurement are independent witnesses: a file in which one uses the other's code is refused.",
        f"All claims with their verdicts are in [claims.md]({_relative(figures / TABLE, here)}).",
        "",
        "| figure | question, and what was found | command | claims that hold |",
        "|---|---|---|---|",
    ]
    for name, one in experiments.items():
        about, rows = content["figures"].get(name), [r for r in content["claims"] if r["figure"] == name]
        picture = _relative(figures / f"{name}.png", here)
        finding = about.get("finding", "") if about else ""
        shown = f'<a href="{picture}"><img src="{picture}" width="220" alt="{finding or name}"></a>' if about else ""
        verdict = f"{sum(r['holds'] for r in rows)} of {len(rows)}" if about else "not published yet"
        command = f"`{claims.command(name)}`"
        cell = f"{one.question} **{finding}**" if finding else one.question
        lines.append(f"| [{name}]({name}.py) {shown} | {cell} | {command} | {verdict} |")
    return "\n".join(lines) + "\n"


def _relative(path: Path, here: Path) -> str:
    return Path(os.path.relpath(path, here)).as_posix()

"""Several runs by one command (`-m`): a folder per run, named after its values, and one table over all of them."""

import csv
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bandit_lab import _checks
from bandit_lab.app.chunks import durable
from bandit_lab.app.chunks.store import read_json
from bandit_lab.app.folder.store import MANIFEST, SUMMARY
from bandit_lab.app.terminal import report
from bandit_lab.app.terminal.errors import stopped_by_disk

if TYPE_CHECKING:
    from rich.table import Table

TABLE = "multirun.csv"
FIRST_LINE = "# bandit_lab"
"""How `multirun.csv` begins (a comment: pandas.read_csv(path, comment='#')); another file of that name is let be."""
LONGEST = 100  # characters of a folder's name
_ONLY_NAME = re.compile(r"^\{name:([^,{}]*)\}$")  # `arguments.as_mapping`
SHORT = 40  # characters of a text that is printed, not only written

JsonObject = dict[str, Any]


class MultirunJob(NamedTuple):
    """One run: its folder's name, and the values that tell it from the others."""

    name: str
    values: dict[str, str]


def swept(keys: Iterable[str], overrides: Iterable[str]) -> dict[str, str]:
    """The values that one run's overrides give to the keys that differ from run to run."""
    pairs = (argument.lstrip("+~").partition("=") for argument in overrides)
    given = {key: value for key, _, value in pairs}
    return {key: _ONLY_NAME.sub(r"\1", given[key]) for key in keys if key in given}


def folder_name(values: Mapping[str, str]) -> str:
    """`group_size_8__optimizer_sgd`: letters, digits, `.`, `-`, `+` and `_`, so that no shell, no file system and not
    Hydra reads it as anything else. Where a value does not survive that, or is long, a hash of it stands behind."""
    plain = "__".join(f"{key}_{value}" for key, value in values.items())
    safe = re.sub(r"[^a-z0-9._+-]+", "-", plain, flags=re.ASCII).strip("-.")
    if safe == plain and len(safe) <= LONGEST:
        return safe
    mark = hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:8]
    return f"{safe[: LONGEST - len(mark) - 1]}-{mark}"


def jobs_of(keys: Sequence[str], expanded: Iterable[Sequence[str]]) -> list[MultirunJob]:
    """The runs of a multirun, in order. Raises ValueError where two of them are one."""
    found = [swept(keys, overrides) for overrides in expanded]
    jobs = [MultirunJob(folder_name(values) if values else str(number), values) for number, values in enumerate(found)]
    names = [job.name for job in jobs]
    for job in jobs:
        said = ", ".join(f"{key}={value}" for key, value in job.values.items())
        _checks.require(names.count(job.name) == 1, "-m", "different runs", f"{said} more than once")
    return jobs


def check_table(root: Path) -> None:
    """Raise ValueError where the table's place is taken by a file that is not ours."""
    path = root / TABLE
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            ours = file.readline().startswith(FIRST_LINE)
        _checks.require(ours, "run_dir", f"a folder without another {TABLE}", str(root))


def finish(command: str, root: Path, jobs: Sequence[MultirunJob]) -> None:
    """Print and write the table of the headline numbers of all runs; `jobs` empty: of all folders that hold a run."""
    found = list(jobs) or [MultirunJob(path.parent.name, {}) for path in sorted(root.glob(f"*/{SUMMARY}"))]
    if not found:
        return
    rows = [_row(command, root / job.name, job) for job in found]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows([{key: "" if value is None else value for key, value in row.items()} for row in rows])
    with stopped_by_disk(root / TABLE):
        durable.write_file(root / TABLE, f"{FIRST_LINE} {command} -m: one row per run\n{text.getvalue()}".encode())
    swept_keys = list(dict.fromkeys(key for job in found for key in job.values))
    report.show(*_printed(command, rows, columns, swept_keys))


def _row(command: str, folder: Path, job: MultirunJob) -> JsonObject:
    summary, manifest = (read_json(folder / name) or {} for name in (SUMMARY, MANIFEST))
    state = "done" if (folder / MANIFEST).is_file() and summary else "unfinished"
    failed = (manifest.get("chunks") or {}).get("failed") or ()
    row: JsonObject = {**job.values, "folder": job.name, "state": f"{len(failed)} parts failed" if failed else state}
    return row | (HEADLINES.get(command, _scalars)(summary) if summary else {})


def _fits(rows: Sequence[JsonObject], key: str) -> bool:
    return all(len(str(row.get(key, ""))) <= SHORT for row in rows)


def _printed(command: str, rows: Sequence[JsonObject], columns: Sequence[str], swept: Sequence[str]) -> "list[Table]":
    """The swept values name the runs, first in every part of the table; the folder's name does where there are none."""
    from bandit_lab.app.document import Column, Table, as_text

    names = list(swept) or ["folder"]
    rest = [key for key in columns if key not in (*names, "folder") and _fits(rows, key)]
    if all(row["state"] == "done" for row in rows):
        rest.remove("state")
    read = [
        *(Column[JsonObject](key, key, partial(_name, key)) for key in names),
        *(Column[JsonObject](key, key, partial(_shown, key)) for key in rest),
    ]
    table = Table(rows, read, title=f"{len(rows)} runs of {command}: {TABLE}")
    return as_text.rich_tables(table, len(names))


def _name(key: str, row: JsonObject) -> str:
    return row[key] if key == "folder" else report.middle_cut(str(row.get(key, "-")), SHORT)


def _shown(key: str, row: JsonObject) -> Any:
    return row.get(key)


def _ends(values: Iterable[Any], name: str) -> JsonObject:
    known = [value for value in values if value is not None]
    return {f"{name} least": min(known, default=None), f"{name} most": max(known, default=None)}


def _ratio(top: Any, bottom: Any) -> float | None:
    return top / bottom if top is not None and bottom else None


def _predict(summary: JsonObject) -> JsonObject:
    rates, point = summary["thresholds"]["learning_rate"], summary["fixed_point"]
    return {
        "drift": summary["drift"],
        "regime": summary["regime"],
        "stiffness": summary["stiffness"],
        "law, eta": rates["leading_order"],
        "exact, eta": rates["exact"],
        "onset, eta": rates["oscillation_onset"],
        "reward": point["expected_reward"],
        "std of it": summary["stationary_std"]["expected_reward"],
        "verdict": summary["verdict"],
    }


def _sweep(summary: JsonObject) -> JsonObject:
    """Of the last drift: that of the sampled runs, at their group size, where there are any."""
    drift = summary["drift"][-1]
    rows = [row for row in summary["threshold"] if row["drift"] == drift]
    errors = [abs(row["relative_error"]) for row in rows if row.get("relative_error") is not None]
    spectra = [row["hessian"] for row in summary["stiffness"]["rows"] if row["drift"] == drift]
    first = (spectra[0] or [None])[0]
    exact, sampled = ([row.get(key) for row in rows] for key in ("exact", "sampled_learning_rate"))
    return {
        "drift": drift,
        "stiffness": first if isinstance(first, float) else None,
        **_ends(exact, "exact, N" if summary["boundary"] == "refresh_interval" else "exact, eta"),
        **_ends((_ratio(row.get("exact"), row.get("leading_order")) for row in rows), "exact/law"),
        "largest error": max(errors, default=None),
        **_ends((_ratio(one, other) for one, other in zip(sampled, exact, strict=True)), "sampled/exact"),
    }


def _reproduce(summary: JsonObject) -> JsonObject:
    claims = summary["claims"]
    return {"claims": len(claims), "hold": sum(bool(claim["holds"]) for claim in claims)}


def _check(summary: JsonObject) -> JsonObject:
    return {"checks": len(summary["checks"]), "failed": summary["failed"]}


def _scalars(summary: JsonObject) -> JsonObject:
    kept = (bool, int, float, str, type(None))
    return {key: value for key, value in summary.items() if isinstance(value, kept)}


HEADLINES: dict[str, Callable[[JsonObject], JsonObject]] = {
    "predict": _predict,
    "sweep": _sweep,
    "reproduce": _reproduce,
    "check": _check,
}
"""Command -> the numbers of its summary that one row of the table holds."""

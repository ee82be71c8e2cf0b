"""An MLflow run folder: `meta.yaml`, and in `metrics/` a file per metric with lines `timestamp value step`.

Written from MLflow's `FileStore` (`_get_metric_from_line`).
"""

import os
from pathlib import Path

from bandit_lab.runs.read import limits, source
from bandit_lab.runs.read.normalise import Parsed
from bandit_lab.runs.read.options import ReadOptions
from bandit_lab.runs.read.table import LogTable

_DEPTH = 6


def is_run(folder: Path) -> bool:
    """Whether a folder is one run."""
    return os.path.isdir(folder / "metrics") and os.path.isfile(folder / "meta.yaml")


def read(path: Path, options: ReadOptions) -> Parsed:
    """One row per metric and step. Raises ValueError if no metric file holds such lines."""
    table, damaged = LogTable(), 0
    for name in sorted(_metrics(path / "metrics", "", 0)):
        for line in source.Lines(path / "metrics" / name):
            parts = line.split()
            if len(parts) == 3 and len(name) <= limits.MAX_KEY:
                table.add({"step": parts[2], name: parts[1]})
            elif parts:
                damaged += 1
    if not table.keys:
        raise ValueError("expected lines 'timestamp value step' in the metrics of an MLflow run, got none")
    return Parsed("MLflow run folder", {"": table}, (f"{damaged} damaged lines left out",) if damaged else ())


def _metrics(folder: Path, prefix: str, depth: int) -> list[str]:
    found: list[str] = []
    try:
        names = sorted(os.listdir(folder))[: limits.MAX_FILES]
    except OSError:
        return found
    for name in names:
        if os.path.isdir(folder / name):
            found += _metrics(folder / name, f"{prefix}{name}/", depth + 1) if depth < _DEPTH else []
        elif os.path.isfile(folder / name):
            found.append(prefix + name)
    return found

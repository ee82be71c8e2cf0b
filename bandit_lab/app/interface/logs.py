"""Logs that are given as objects: a trainer's rows, a frame of pandas, a dictionary of columns, rewards alone."""

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Log = Any
"""A path; or rows [{metric: value}], a frame, columns {metric: values}, or rewards [n], one per step."""


@contextlib.contextmanager
def files(logs: tuple[Log, ...]) -> Iterator[list[str]]:
    """The paths of these logs; what is no path is a file as long as the context lasts, `log_1.jsonl`, `log_2.jsonl`.

    Raises:
      ValueError: neither a path nor a log.
    """
    with tempfile.TemporaryDirectory(prefix="bandit_lab_") as place:
        paths = []
        for number, log in enumerate(logs, start=1):
            if not isinstance(log, str | Path):
                rows, log = _rows(log), Path(place, f"log_{number}.jsonl")
                log.write_text("".join(f"{json.dumps(row, default=_plain)}\n" for row in rows), encoding="utf-8")
            paths.append(str(log))
        yield paths


def _rows(log: Any) -> list[Mapping[str, Any]]:
    """The log's rows; what a frame does not have (NaN) is left out."""
    if isinstance(log, list) and log and isinstance(log[0], Mapping):
        return log
    if isinstance(log, Mapping) and not any(map(np.ndim, log.values())):
        return [log]
    import pandas

    if isinstance(log, Mapping | pandas.DataFrame):
        frame = pandas.DataFrame(log)
        named = frame if frame.index.name is None else frame.reset_index()
        return [row.dropna().to_dict() for _, row in named.astype(object).iterrows()]
    rewards = np.asarray(log)
    if rewards.ndim != 1 or not rewards.size or rewards.dtype.kind not in "biuf":
        raise ValueError(f"paths: expected a path, rows, a frame, columns or rewards [n], got {type(log).__name__}")
    return [{"step": step, "reward": reward} for step, reward in enumerate(rewards.tolist(), start=1)]


def _plain(value: Any) -> Any:
    """A scalar of NumPy, JAX or PyTorch as a number; anything else as its text."""
    return value.item() if hasattr(value, "item") else str(value)

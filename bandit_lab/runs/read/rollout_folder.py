"""verl's `trainer.rollout_data_dir`: a file `<step>.jsonl` per rollout cycle, a line per answer (input, output, score).

A file gives one row: the mean score, and the share of prompts whose answers all got the same score.
"""

import json
import os
import re
from collections import defaultdict
from pathlib import Path

from bandit_lab.runs.read import aliases, limits, scalars, source
from bandit_lab.runs.read.normalise import Parsed
from bandit_lab.runs.read.options import ReadOptions
from bandit_lab.runs.read.table import LogTable

_NAME = re.compile(r"(\d{1,12})\.jsonl")
_FEWEST = 2


def is_run(folder: Path, names: list[str]) -> bool:
    """Whether a folder holds such files and their first line is an answer with a score."""
    files = [name for name in names if _NAME.fullmatch(name)]
    if len(files) < _FEWEST or 2 * len(files) < len(names):
        return False
    try:
        with open(folder / files[0], encoding="utf-8", errors="replace") as file:
            row = json.loads(file.readline(limits.MAX_LINE))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "score" in row and ("input" in row or "output" in row)


def read(path: Path, options: ReadOptions) -> Parsed:
    """One row per file. Raises ValueError if no file holds scores."""
    table, bad = LogTable(), 0
    names = [name for name in os.listdir(path) if _NAME.fullmatch(name)]
    left = max(len(names) - limits.MAX_FILES, 0)
    for name in sorted(names, key=lambda name: int(name.partition(".")[0]))[: limits.MAX_FILES]:
        groups: dict[int, list[float]] = defaultdict(list)
        for line in source.Lines(path / name):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                bad += bool(line.strip())
                continue
            score = scalars.parse(row.get("score")) if isinstance(row, dict) else None
            if score is not None:
                groups[hash(str(row.get("input")))].append(score)
        scores = [score for group in groups.values() for score in group]
        if scores:
            made = {"training/global_step": int(name.partition(".")[0]), "critic/score/mean": sum(scores) / len(scores)}
            several = [group for group in groups.values() if len(group) > 1]
            if several:
                made["frac_zero_std"] = sum(min(group) == max(group) for group in several) / len(several)
            table.add(made)
    if not table.keys:
        raise ValueError("expected rollouts with a score in files <step>.jsonl, got none")
    notes = [f"{bad} damaged lines left out"] if bad else []
    notes += [f"{left} files behind the first {limits.MAX_FILES} left out"] if left else []
    return Parsed("verl rollout folder", {"": table}, tuple(notes), aliases.VERL)

"""Runs judged in Python, as rows of what `--json` writes."""

from pathlib import Path
from typing import Any

from grpo_clinic import diagnose
from grpo_clinic.report import row


def rows(*paths: str | Path, **options: Any) -> list[dict[str, Any]]:
    diagnosis = diagnose(*(str(path) for path in paths), **options)
    return [row(one.report, one.curve) for one in diagnosis]

"""What experiments on public training logs share: where the logs are, and what a measurement of them depends on.

The logs are in no repository. The environment variable `BANDIT_LAB_LOGS` names their folder, with its `index.csv`.
"""

import hashlib
import os
from pathlib import Path

from bandit_lab.lab.reproduce.experiment import Setting


def unsupported_reason(setting: Setting) -> str | None:
    """The reason where there are no logs."""
    folder = os.environ.get("BANDIT_LAB_LOGS", "")
    if folder and (Path(folder) / "index.csv").is_file():
        return None
    return "BANDIT_LAB_LOGS does not name a folder with index.csv and its logs"


def inputs(setting: Setting) -> str:
    """Hash of all logs."""
    folder, content = Path(os.environ["BANDIT_LAB_LOGS"]), hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return content.hexdigest()

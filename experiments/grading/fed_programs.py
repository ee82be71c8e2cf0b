"""Run by the Python of an environment that has rlprobe 0.1.0 and rlwatch 0.5.1, neither of which reads a log itself.

    PYTHON experiments/grading/fed_programs.py PROGRAM FILE ...     # prints {file: [[detector, severity], ...]}

A file has a JSON object per line: `step`, then numbers under the program's own names; `parts` holds parts of a reward.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any


def rlprobe(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Findings of its doctor on a finished recording."""
    from rlprobe.doctor import diagnose_view
    from rlprobe.doctor.runview import RunView
    from rlprobe.schemas import RunManifest, StepRecord

    run = RunManifest(run_id="run", created_at="", algorithm="grpo")
    records = [StepRecord(**{"reward_components" if key == "parts" else key: row[key] for key in row}) for row in rows]
    return [[one.signature_id, one.severity] for one in diagnose_view(RunView(run, records))]


def rlwatch(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Alerts that its monitor sends, fed row by row; the drift of a mean with its direction."""
    from rlwatch.config import RLWatchConfig
    from rlwatch.core import RLWatch

    with tempfile.TemporaryDirectory() as folder:
        config = RLWatchConfig()
        config.storage.log_dir = folder
        monitor = RLWatch(config)
        sent = [alert for row in rows for alert in monitor.log_step(row.pop("step"), **row)]
        monitor.stop()
    return [[" ".join([one.detector, one.metric_values.get("direction", "")]).strip(), one.severity] for one in sent]


def main() -> None:
    program, *paths = sys.argv[1:]
    read = {"rlprobe": rlprobe, "rlwatch": rlwatch}[program]
    answers = {}
    for path in paths:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        answers[path] = read([json.loads(line) for line in lines if line])
    print(json.dumps({"version": version(program), "said": answers}))


if __name__ == "__main__":
    main()

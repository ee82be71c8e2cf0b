"""Score the forecasts of `fit` on the public runs (BANDIT_LAB_LOGS names their folder).

    python tests/score_forecasts.py           # the development half alone: thresholds may be chosen on it
    python tests/score_forecasts.py --both    # the scoring half too, written to figures/real_forecasts.json

No log is copied: the file holds counts and the names of runs.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from real_run_scores import HALVES, score_forecasts

from bandit_lab.runs.logs.gather import gather
from bandit_lab.runs.logs.settings import FitSettings

STORED = Path(__file__).parents[1] / "figures"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--both", action="store_true", help="score both halves and write the file")
    asked = parser.parse_args()
    folder = os.environ.get("BANDIT_LAB_LOGS")
    if not folder:
        sys.exit("BANDIT_LAB_LOGS: expected a folder with index.csv and its logs, got nothing")
    index = str(Path(folder) / "index.csv")
    found = _forecasts(index)
    if not asked.both:
        found = {HALVES[0]: found[HALVES[0]]}
    text = json.dumps(found, indent=1)
    print(text)
    if asked.both:
        (STORED / "real_forecasts.json").write_text(text + "\n", encoding="utf-8")


def _forecasts(index: str) -> dict[str, Any]:
    settings = FitSettings(logs_index=index)
    runs = {log.name: log.curve for log in gather(settings, lambda done, total: None) if log.curve is not None}
    return score_forecasts(runs, settings.backtest_points, settings.fractions)


if __name__ == "__main__":
    main()

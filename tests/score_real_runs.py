"""Score the verdicts of `diagnose` on the public runs whose end is known (BANDIT_LAB_LOGS names their folder).

    python tests/score_real_runs.py                # the development half alone: thresholds may be chosen on it
    python tests/score_real_runs.py --both         # the scoring half too, written to figures/real_verdicts.json

No log is copied: the file holds counts and the names of runs.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from bandit_lab import diagnose
from bandit_lab.study.benchmark.real_runs import HALVES, score

STORED = Path(__file__).parents[1] / "figures" / "real_verdicts.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--both", action="store_true", help="score both halves and write the file")
    asked = parser.parse_args()
    folder = os.environ.get("BANDIT_LAB_LOGS")
    if not folder:
        sys.exit("BANDIT_LAB_LOGS: expected a folder with index.csv and its logs, got nothing")
    rows = diagnose(logs_index=str(Path(folder) / "index.csv"), report=False, quiet=True).to_dict()["logs"]
    found = score(rows)
    if not asked.both:
        found = {HALVES[0]: found[HALVES[0]]}
    text = json.dumps(found, indent=1)
    print(text)
    if asked.both:
        STORED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

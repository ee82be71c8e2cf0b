"""What `fit` says of a plateau's time and of a fall, on public runs of which half is seen.

    python experiments/grading/forecast_ends.py            # the numbers
    python experiments/grading/forecast_ends.py --write    # figures/forecast_ends.json

BANDIT_LAB_RUN_CORPUS and BANDIT_LAB_LOGS name the folders, as in `clinic.py`; runs of 30 rewards and more.

Time: the step at which 95 % of the gain is reached, by the laws. What came is read off the whole run without any law:
the first step at which its isotonic regression stands 95 % of the way from its start to the mean of the last tenth.
Where that lies in the last fifth the run may rise still, and only the interval's upper end is judged.

Risk: the chance that the last tenth lies a quarter of the range seen below the last level, by the forecast's mixture.
Beside it stands the share of such falls in all other repositories. A repository counts as one.

Prediction, written before: intervals of the time cover 80 to 100 %, and in less than half of the runs both ends are
bounded. Falls come without a warning in the first half: the risk is no better than the share of the others.

Found: the last holds, the first two do not. The intervals of the time hold half of what came: they hold if the laws do,
and many runs rise on more slowly than any law that fits their first half.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from bandit_lab.runs.diagnose.outcomes import gain_of
from bandit_lab.runs.forecast.forecast import CurvePrediction
from bandit_lab.runs.read import Curve
from experiments.grading.backtest import Cut, leave_family_out
from experiments.grading.clinic import DRAWS, FIGURES, SEED
from experiments.grading.forecast_laws import curves, halves_of

DEEP = 0.25
"""Share of the range seen by which the reward must fall."""
LATE = 0.8
"""Share of the run behind which an arrival may be none."""


def arrival(curve: Curve) -> float:
    """The step [1] at which a run that gained had 95 % of it; NaN for one without a gain beyond doubt."""
    if not gain_of(curve.reward).shows:
        return float("nan")
    path = isotonic_regression(curve.reward).x
    end = float(curve.reward[-max(1, curve.reward.size // 10) :].mean())
    return float(curve.step[np.argmax(path >= path[0] + 0.95 * (end - path[0]))])


def timed(runs: Mapping[str, tuple[str, Curve]], cuts: Sequence[Cut]) -> dict[str, Any]:
    """Of the runs that gained: how many are told a time, how many with two ends, and how many intervals hold it."""
    told: dict[str, list[bool]] = defaultdict(list)
    gained = bounded = 0
    for one in cuts:
        curve = runs[one.name][1]
        came = arrival(curve)
        if one.prediction is None or not np.isfinite(came):
            continue
        gained += 1
        made = one.prediction.step_95()
        if not np.isfinite(made.low):
            continue
        bounded += bool(np.isfinite(made.high))
        late = came > curve.step[0] + LATE * (curve.step[-1] - curve.step[0])
        told[one.family].append(bool(came <= made.high and (late or made.low <= came)))
    every = [one for family in told.values() for one in family]
    return {
        "gained": gained,
        "told": len(every),
        "bounded": bounded,
        "covered": sum(every),
        "covered_by_repository": round(float(np.mean([np.mean(one) for one in told.values()])), 3),
    }


def risk_of(seen: CurvePrediction, drift: float) -> float:
    """Chance that the target lies `DEEP` of the range seen below the last level."""
    added = drift * seen.spread * np.sqrt(seen.ahead)
    edge = seen.last.centre - DEEP * seen.seen
    return float(sum(part.weight * part.widened(added).below(edge) for part in seen.parts.values()))


def fallen(cuts: Sequence[Cut], drifts: Sequence[float]) -> dict[str, Any]:
    """Falls, and the Brier scores by repository of the risk and of the share in all other repositories."""
    told: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for one, drift in zip(cuts, drifts, strict=True):
        seen = one.prediction
        if seen is not None and not seen.still:
            fell = one.actual < seen.last.centre - DEEP * seen.seen
            told[one.family].append((risk_of(seen, drift), bool(fell)))
    shares = {family: float(np.mean([fell for _, fell in rows])) for family, rows in told.items()}
    scores = []
    for family, rows in told.items():
        base = np.mean([share for other, share in shares.items() if other != family])
        scores.append(
            [np.mean([(risk - fell) ** 2 for risk, fell in rows]), np.mean([(base - fell) ** 2 for _, fell in rows])]
        )
    own, others = np.array(scores).T
    drawn = np.random.default_rng(SEED).choice(others - own, (DRAWS, own.size)).mean(axis=1)
    return {
        "runs": sum(map(len, told.values())),
        "repositories": len(told),
        "falls": sum(fell for rows in told.values() for _, fell in rows),
        "repositories_with_falls": sum(share > 0 for share in shares.values()),
        "brier": round(float(own.mean()), 4),
        "brier_of_the_share": round(float(others.mean()), 4),
        "gain_interval_95": [round(float(end), 4) for end in np.quantile(drawn, (0.025, 0.975))],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the numbers in figures")
    asked = parser.parse_args()
    runs = curves()
    cuts = halves_of(runs)
    drifts = [drift for _, drift in leave_family_out(cuts)]
    results = {"time": timed(runs, cuts), "risk": fallen(cuts, drifts)}
    print(json.dumps(results, indent=1))
    if asked.write:
        (FIGURES / "forecast_ends.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

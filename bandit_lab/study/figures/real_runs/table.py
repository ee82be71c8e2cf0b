"""Tables of experiments/real_runs.py."""

import numpy as np

from bandit_lab.curves.backtest import BASELINES, compare
from bandit_lab.study.figures.real_runs.problem import LAWS, NAMES, softmax_gain
from bandit_lab.study.figures.real_runs.read import kept
from bandit_lab.study.reproduce.experiment import Found


def table(found: Found) -> str:
    """Which law is chosen, and by how much; whether forecasts differ from baselines by more than the choice of runs."""
    m, margin = found.measured, found.setting.margin
    lines = ["| law | chosen in | clearly better than every other (AICc > 4) | median R^2 |", "|---|---|---|---|"]
    for place, name in enumerate(NAMES):
        mine = m.aicc[:, place]
        others = m.aicc.isel(law=[i for i in range(len(LAWS)) if i != place]).min("law")
        clear, chosen = int((others - mine > margin).sum()), int((m.chosen == place).sum())
        lines.append(
            f"| {name} | {chosen} of {m.sizes['run']} | {clear} | {float(m.r_squared[:, place].median()):.2f} |"
        )
    difference = softmax_gain(found)
    softmax, oscillator = int((difference > margin).sum()), int((difference < -margin).sum())
    lines += ["", f"Softmax law against oscillator: clearly better in {softmax} runs, clearly worse in {oscillator}, "]
    lines[-1] += f"median difference of AICc {float(difference.median()):.1f}."
    return "\n".join([*lines, "", *forecasts(found)])


def forecasts(found: Found) -> list[str]:
    """Errors of the forecasts that are not refused beside those of the baselines, on the same runs."""
    error = found.measured.error.values[kept(found)]
    told = compare(error[:, 0], dict(zip(BASELINES, error[:, 1:].T, strict=True)))
    low, high = told.ratio_interval
    mean, median = error.mean(axis=0), np.median(error, axis=0)
    lines = [
        "| error over the range seen | median | mean | forecast is closer in | sign test p |",
        "|---|---|---|---|---|",
    ]
    lines.append(f"| forecast | {median[0]:.3f} | {mean[0]:.3f} | | |")
    for place, name in enumerate(BASELINES, 1):
        better, differ, chance = told.smaller[name]
        numbers = f"{median[place]:.3f} | {mean[place]:.3f} | {better} of {differ} | {chance:.2f}"
        lines.append(f"| {name.replace('_', ' ')} | {numbers} |")
    resampled = f"Median error over that of the best of the three, runs resampled: 95 % within {low:.2f} to {high:.2f}."
    return [*lines, "", resampled]

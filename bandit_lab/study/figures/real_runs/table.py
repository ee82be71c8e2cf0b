"""Table of experiments/real_runs.py."""

from bandit_lab.study.figures.real_runs.problem import LAWS, NAMES, softmax_gain
from bandit_lab.study.reproduce.experiment import Found


def table(found: Found) -> str:
    """Which law is chosen, and by how much."""
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
    return "\n".join(lines)

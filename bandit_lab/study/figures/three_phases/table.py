"""Table of experiments/three_phases.py."""

from bandit_lab._readings import slope_and_correlation
from bandit_lab.study.reproduce.experiment import Found


def table(found: Found) -> str:
    """Correlations and slopes, and the comparison at equal budget."""
    predicted, measured = found.predicted, found.measured
    lines = ["| gain in time against | slope | correlation | problems |", "|---|---|---|---|"]
    for name, x in (("that of the mean flow", predicted.gain), ("1/average within-prompt std", 1 / measured.mean_std)):
        slope, error, correlation, spread = slope_and_correlation(x.values, measured.gain.values)
        lines.append(f"| {name} | {slope:.3f} +- {error:.3f} | {correlation:.3f} +- {spread:.3f} | {x.size} |")
    lines += ["", "Equal budget, each at its best learning rate: mean reward, and the difference to `dr_grpo`.", ""]
    powers = measured.power.values
    lines.append("| overlap | conflict | " + " | ".join(f"std^{p:g}" for p in powers) + " | our rule takes |")
    lines.append("|---" * (3 + len(powers)) + "|")
    fair = found.setting.fair
    for i, (overlap, conflict) in enumerate(zip(fair.overlap, fair.conflict, strict=True)):
        row = measured.isel(condition=i)
        cells = [
            f"{float(row.best[j]):.4f} ({float(row.over_plain[j]):+.4f} +- {float(row.over_plain_error[j]):.4f})"
            for j in range(len(powers))
        ]
        lines.append(f"| {overlap:g} | {conflict:g} | " + " | ".join(cells) + f" | std^{float(row.rule_power):g} |")
    return "\n".join(lines)

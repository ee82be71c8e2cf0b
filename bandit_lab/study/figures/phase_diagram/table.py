"""Table of experiments/phase_diagram.py."""

from bandit_lab.study.figures.phase_diagram.problem import LONG
from bandit_lab.study.reproduce.experiment import Found


def table(found: Found) -> str:
    """Measured threshold over the law's, per model: momentum down, refresh interval across."""
    ratio = found.measured.threshold / found.predicted.law
    intervals = ratio.refresh_interval.values
    parts = []
    for model in found.setting.models:
        parts.append(f"Measured threshold / law's learning rate, {LONG[model]} (above 1: the law is careful):\n")
        parts.append("| momentum | " + " | ".join(f"N = {n:g}" for n in intervals) + " |")
        parts.append("|---" * (len(intervals) + 1) + "|")
        for mu in ratio.momentum.values:
            values = ratio.sel(model=model, momentum=mu).values
            parts.append(f"| {mu:g} | " + " | ".join(f"{value:.3g}" for value in values) + " |")
        parts.append("")
    return "\n".join(parts)

"""Table of experiments/variants_map.py."""

import numpy as np

from bandit_lab.study.reproduce.experiment import Found

OUTCOMES = ("returns", "cycles", "vertex", "overflow")


def table(found: Found) -> str:
    """Every advantage and estimator: thresholds, dependence on G, temperature, late times, failure."""
    measured, predicted, law = found.measured, found.predicted, found.setting.law_interval
    names = list(measured.staleness.values)
    head = ["advantage", "estimator", "fresh", "stale", *(f"{name} (exact)" for name in names)]
    head += ["G: mean curve", "temperature", "late 1 - p", "at the longest N"]
    text = f"First unstable refresh interval, the law's being {law:g}; - : none tried is unstable; ? : no closed form. "
    more = "Last column: what a displacement of 0.3 becomes at the longest interval tried, where it does not return."
    lines = [text + more, "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for advantage in measured.advantage.values:
        for estimator in measured.estimator.values:
            at = {"advantage": advantage, "estimator": estimator}
            row, theirs = measured.sel(at), predicted.sel(at)
            cells = [advantage, estimator, *(f"{round(float(x), 3) + 0.0:.3f}" for x in (row.fresh, row.stale))]
            for name in names:
                seen, exact = (float(x.first_interval.sel(staleness=name)) for x in (row, theirs))
                known = np.isfinite(float(theirs.has_threshold.sel(staleness=name)))
                cells.append(f"{_interval(seen)} ({_interval(exact) if known else '?'})")
            late = float(row.late_exponent)
            cells += [f"{float(row.curve_difference):.4f}", f"{float(row.temperature):.3f}"]
            cells += [f"t^{late:.2f}" if abs(late) < 20 else "no power"]
            codes = [OUTCOMES[int(row.outcome.sel(staleness=name))] for name in names]
            cells += [
                ", ".join(f"{name}: {code}" for name, code in zip(names, codes, strict=True) if code != "returns")
            ]
            lines.append("| " + " | ".join(cell or "-" for cell in cells) + " |")
    return "\n".join(lines)


def _interval(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:g}"

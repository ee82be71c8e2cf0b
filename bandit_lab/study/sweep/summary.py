"""`summary.json` of a sweep."""

from typing import Any

import numpy as np

from bandit_lab._types import Outcome
from bandit_lab.measure import count_outcomes
from bandit_lab.simulate import route
from bandit_lab.simulate.fast import DEFAULT_GENERATOR
from bandit_lab.study.folder.store import with_reasons
from bandit_lab.study.sweep import rows
from bandit_lab.study.sweep.exact import DriftResult, stiffness_summary
from bandit_lab.study.sweep.plan import SweepPlan
from bandit_lab.study.sweep.sampled import SampledResult
from bandit_lab.study.terminal import report

TEMPERATURE = (
    "At finite temperature (finite G) noise carries runs off the fixed point before it loses stability: the sampled "
    "boundary is below the deterministic one"
)


def summarise(
    plan: SweepPlan, rates: np.ndarray, drifts: list[DriftResult], sampled: SampledResult | None
) -> dict[str, Any]:
    """Everything but `throughput`."""
    by_interval = plan.settings.boundary == "refresh_interval"
    threshold: list[rows.Row] = []
    transition: list[rows.Row] = []
    for drift in drifts:
        if by_interval:
            pair = rows.of_refresh_interval(drift, rates)
        else:
            pair = rows.of_learning_rate(drift, sampled if drift.dynamics == "finite_group" else None)
        threshold += pair[0]
        transition += pair[1]
    outcomes: dict[str, Any] = count_outcomes(drifts[0].outcome)
    return {
        "axes": {
            "momentum": plan.momentum,
            "kl_weight": plan.kl_weight,
            "refresh_interval": plan.refresh_interval,
            "learning_rate": rates,
        },
        "drift": [drift.name for drift in drifts],
        "convention": plan.learner.optimizer.convention,
        "boundary": plan.settings.boundary,
        "outcomes": outcomes,
        "outcomes_of": f"deterministic runs near the fixed point, drift at {drifts[0].name}",
        "sampled": None if sampled is None else _engine(plan) | _sampled_summary(sampled, threshold),
        "threshold": threshold,
        "transition": transition,
        "stiffness": _stiffness(drifts),
    }


def _stiffness(drifts: list[DriftResult]) -> dict[str, Any]:
    """The routes for the first drift and KL weight on top, all of them under `rows`."""
    entries = [entry for drift in drifts for entry in stiffness_summary(drift, report.spectrum)]
    return {**entries[0], "rows": entries}


def _engine(plan: SweepPlan) -> dict[str, Any]:
    """Which path ran, why not the fast one, and where its random numbers come from."""
    chosen = route(plan.learner, "sampled", plan.settings.path)
    fast = chosen.name == "fast"
    why_not = {} if fast else {"path_reason": chosen.reason}
    return {"path": chosen.name, "rng": plan.settings.rng or DEFAULT_GENERATOR if fast else "jax.random"} | why_not


def _sampled_summary(sampled: SampledResult, threshold: list[rows.Row]) -> dict[str, Any]:
    """Outcomes, boundary and share of lost runs per row of the sampled grid."""
    return {
        "outcomes": {o.label: int(n) for o, n in zip(Outcome, sampled.counts.sum(axis=(0, 1)), strict=True)},
        "note": f"{TEMPERATURE}{_how_often(threshold)}",
        "rows": [
            {
                "momentum": sampled.rows.momentum[q],
                "kl_weight": sampled.rows.kl_weight[q],
                "refresh_interval": sampled.rows.refresh_interval[q],
                **with_reasons(
                    {"boundary_learning_rate": sampled.boundary[q]},
                    {"boundary_learning_rate": sampled.reasons[q] or ""},
                ),
                "learning_rate": sampled.learning_rate[q],
                "lost_share": sampled.lost[q],
            }
            for q in range(len(sampled.boundary))
        ],
    }


def _how_often(threshold: list[rows.Row]) -> str:
    """In how many rows that is what was seen."""
    pairs = [(row.get("sampled_learning_rate"), row.get("exact")) for row in threshold]
    known = [sampled < exact for sampled, exact in pairs if sampled is not None and exact is not None]
    if not known:
        return "; here no row has both, so that nothing is compared."
    doubt = "" if all(known) else "; elsewhere the runs are too short or the grid too coarse to tell"
    return f" in {sum(known)} of {len(known)} rows{doubt}."

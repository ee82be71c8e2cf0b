"""Is a calibrated model of named causes better than the shares that `diagnose` prints?

    python experiments/grading/causes.py            # the table
    python experiments/grading/causes.py --write    # figures/causes.json

BANDIT_LAB_RUN_CORPUS and BANDIT_LAB_LOGS name the folders, as in `clinic.py`. What became of a run is one of five: it
was healthy, stalled, collapsed (or unstable: one event under two names), degenerate, or hacked. Four ways to give each
a probability, none of which sees the run's repository:

    base rate     the shares of the five
    shares        the same among the runs with the same first finding: what `diagnose` prints
    naive Bayes   from which findings are more than notes
    logistic      multinomial logistic regression on that, and on how strong each finding is

Each of the last three is drawn towards the base rate, with a strength that is chosen on the other repositories alone,
each of them left out in turn. A repository counts as one: its runs share one weight, in fits and in scores.

Prediction, written before: 24 repositories, fifteen of them with a failure, are too few for weights on twelve findings.
All three are better than the base rate. No model is better than the shares by more than the bootstrap's error.

Rule, written before: a model is shipped if its gain in log loss over the shares has a 95 % interval above zero.

Found: the first holds, the second does not. Naive Bayes is better than the shares, and shipped; the logistic is not.

Two changes were tried after a first look, in which naive Bayes gained .29 nats. A collapse and the instability that it
is are two names of one event, and counted as one now: before, the two together were too sure. "Not judged" as one more
finding made it worse (.24): so nothing is told of runs that could not be judged.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from bandit_lab.runs.diagnose.agreement import MODEL, events
from bandit_lab.runs.diagnose.evidence import CAUSES_FIRST, Diagnosis
from bandit_lab.runs.read.record import Floats
from experiments.grading.clinic import DRAWS, FIGURES, SEED, Judged, Run, judgements, labelled

SAID = (*CAUSES_FIRST, "healthy", "not_judged")
"""What may be said first of a run."""
CAUSES = ("healthy", "stalled", "collapsed", "advantage_degeneracy", "reward_hacking")
STRENGTHS = np.geomspace(0.1, 30, 8)
"""Pseudo-repositories at the base rate, or the ridge on weights, that are tried."""
MOST = 2.0
"""Score from which a finding is as strong as it gets."""
EDGES = (0.0, 0.5, 0.7, 0.85, 1.0)
"""Of the probability of the first cause, where it is set against how often that was right."""
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Runs as numbers: `cause` [N] in CAUSES, `named` [N, F] findings that are more than notes, `strength` [N, F] from
    0 to MOST, `first` [N] the place in SAID of what was said first, `family` [N]."""

    cause: Integers
    named: Floats
    strength: Floats
    first: Integers
    family: Integers

    def of(self, rows: NDArray[np.bool_]) -> "Table":
        """Some of the runs."""
        return Table(*(values[rows] for values in vars(self).values()))

    @property
    def weight(self) -> Floats:
        """[N], those of each repository summing to 1."""
        return 1 / np.bincount(self.family)[self.family]

    @property
    def base(self) -> Floats:
        """Shares of the causes [C] by repository, one pseudo-repository spread over all."""
        seen = np.bincount(self.cause, self.weight, len(CAUSES)) + 1 / len(CAUSES)
        return np.asarray(seen / seen.sum())


Model = Callable[[Table, float], Callable[[Table], Floats]]
"""(runs to learn from, strength of the prior) -> (runs -> probabilities [N, C])."""


def table_of(runs: Sequence[Run], judged: Mapping[str, Judged]) -> Table:
    """All runs that were read."""
    read = [run for run in runs if run.name in judged]
    families = sorted({run.family for run in read})
    found = [judged[run.name].found for run in read]
    return Table(
        np.array([CAUSES.index(events([run.label]).pop()) for run in read]),
        np.array([[float(name in events(said(one))) for name in CAUSES_FIRST] for one in found]),
        np.array([[min(one.scores.get(name) or 0.0, MOST) for name in CAUSES_FIRST] for one in found]),
        np.array([SAID.index(said(one)[0]) for one in found]),
        np.array([families.index(run.family) for run in read]),
    )


def said(found: Diagnosis) -> list[str]:
    """The findings that are more than notes, causes first; `not_judged` or `healthy` where there is none."""
    named = [name for name in found.verdict if name in found.severity and name not in found.notes]
    return named or ["not_judged" if found.verdict == ("not_judged",) else "healthy"]


def base_rate(known: Table, strength: float) -> Callable[[Table], Floats]:
    """The same for every run."""
    return lambda asked: np.tile(known.base, (asked.cause.size, 1))


def shares(known: Table, strength: float) -> Callable[[Table], Floats]:
    """Counts of repositories with the same first finding."""
    counts = np.tile(strength * known.base, (len(SAID), 1))
    np.add.at(counts, (known.first, known.cause), known.weight)
    return lambda asked: (counts / counts.sum(axis=1, keepdims=True))[asked.first]


def found_given(known: Table, strength: float) -> Floats:
    """Share of the runs of each cause that were told each finding [C, F], drawn towards the share of all runs."""
    every = (known.weight @ known.named + 0.5) / (known.weight.sum() + 1)
    of_cause = known.weight[:, None] * np.eye(len(CAUSES))[known.cause]
    return np.asarray((of_cause.T @ known.named + strength * every) / (of_cause.sum(axis=0)[:, None] + strength))


def naive_bayes(known: Table, strength: float) -> Callable[[Table], Floats]:
    """Findings that are independent given the cause."""
    there = found_given(known, strength)

    def told(asked: Table) -> Floats:
        seen = asked.named @ np.log(there).T + (1 - asked.named) @ np.log1p(-there).T
        return np.asarray(softmax(np.log(known.base) + seen, axis=1))

    return told


def logistic(known: Table, strength: float) -> Callable[[Table], Floats]:
    """Base rates times a softmax of weighted findings, with a ridge on all weights."""
    inputs, size = _inputs(known), (2 * len(CAUSES_FIRST) + 1, len(CAUSES))
    truth, weight, prior = np.eye(len(CAUSES))[known.cause], known.weight[:, None], np.log(known.base)

    def loss(flat: Floats) -> tuple[float, Floats]:
        score = prior + inputs @ flat.reshape(size)
        slope = inputs.T @ (weight * (softmax(score, axis=1) - truth)) + strength * flat.reshape(size)
        value = -np.sum(weight * truth * log_softmax(score, axis=1)) + 0.5 * strength * np.sum(flat**2)
        return float(value), slope.ravel()

    best = minimize(loss, np.zeros(size).ravel(), jac=True, method="L-BFGS-B").x.reshape(size)
    return lambda asked: np.asarray(softmax(prior + _inputs(asked) @ best, axis=1))


def _inputs(table: Table) -> Floats:
    return np.concatenate((np.ones((table.cause.size, 1)), table.named, table.strength), axis=1)


MODELS: dict[str, Model] = {
    "base rate": base_rate, "shares": shares, "naive Bayes": naive_bayes, "logistic": logistic,
}  # fmt: skip


def without_each(table: Table, model: Model, strength: float) -> Floats:
    """Probabilities [N, C] of every run by what was learned from the other repositories."""
    told = np.empty((table.cause.size, len(CAUSES)))
    for family in np.unique(table.family):
        here = table.family == family
        told[here] = model(table.of(~here), strength)(table.of(here))
    return told


def chosen(table: Table, model: Model) -> float:
    """The strength with the smallest log loss over repositories left out."""
    return float(
        min(STRENGTHS, key=lambda one: by_family(table, log_loss(table, without_each(table, model, one))).mean())
    )


def told_by(table: Table, model: Model) -> Floats:
    """Probabilities [N, C] of every run, the strength chosen without its repository, too."""
    if model is base_rate:
        return without_each(table, model, 0.0)
    told = np.empty((table.cause.size, len(CAUSES)))
    for family in np.unique(table.family):
        here = table.family == family
        others = table.of(~here)
        told[here] = model(others, chosen(others, model))(table.of(here))
    return told


def log_loss(table: Table, told: Floats) -> Floats:
    """[N] nats."""
    return np.asarray(-np.log(told[np.arange(table.cause.size), table.cause]))


def brier(table: Table, told: Floats) -> Floats:
    """[N] summed over causes: 0 to 2."""
    return np.asarray(np.sum((told - np.eye(len(CAUSES))[table.cause]) ** 2, axis=1))


def by_family(table: Table, values: Floats) -> Floats:
    """Means of repositories, of values [N]."""
    return np.asarray([values[table.family == family].mean() for family in np.unique(table.family)])


def interval(values: Floats) -> list[float]:
    """Ends that 95 % of resampled repositories' means lie between."""
    drawn = np.random.default_rng(SEED).choice(values, (DRAWS, values.size)).mean(axis=1)
    return [round(float(end), 3) for end in np.quantile(drawn, (0.025, 0.975))]


def reliability(table: Table, told: Floats) -> list[dict[str, float]]:
    """Of the first cause: its probability against how often it was right, by its probability; repositories weigh 1."""
    top, right, rows = told.max(axis=1), told.argmax(axis=1) == table.cause, []
    for low, high in pairwise(EDGES):
        here = (top > low) & (top <= high)
        if here.any():
            told_here, true = (float(np.average(one[here], weights=table.weight[here])) for one in (top, right))
            rows.append({"runs": int(here.sum()), "told": round(told_here, 3), "true": round(true, 3)})
    return rows


def scores(table: Table, told: Mapping[str, Floats]) -> dict[str, Any]:
    """Every model's losses by repository, its gains over the shares, and how its first cause is calibrated."""
    found: dict[str, Any] = {}
    for name, one in told.items():
        losses = {"log_loss": log_loss, "brier": brier}
        found[name] = {key: round(float(by_family(table, loss(table, one)).mean()), 3) for key, loss in losses.items()}
        for key, loss in losses.items():
            gain = by_family(table, loss(table, told["shares"]) - loss(table, one))
            found[name][f"{key}_gain_over_shares"] = round(float(gain.mean()), 3)
            found[name][f"{key}_gain_interval_95"] = interval(gain)
        right = (one.argmax(axis=1) == table.cause).astype(float)
        found[name]["first_cause_right"] = round(float(by_family(table, right).mean()), 3)
        found[name]["reliability"] = reliability(table, one)
    return found


def shipped(table: Table) -> dict[str, Any]:
    """Naive Bayes of all runs, as `diagnose` reads it: logarithms of the causes' shares [C], and per finding of the
    share of each cause's runs that were told it, and that were not [C]. A finding that no run was told is left out."""
    there = found_given(table, chosen(table, naive_bayes))
    seen = {name: row for name, row, told in zip(CAUSES_FIRST, there.T, table.named.T, strict=True) if told.any()}
    return {
        "runs": int(table.cause.size),
        "repositories": int(np.unique(table.family).size),
        "causes": CAUSES,
        "log_share": _rounded(np.log(table.base)),
        "log_found": {name: _rounded(np.log(row)) for name, row in seen.items()},
        "log_not_found": {name: _rounded(np.log1p(-row)) for name, row in seen.items()},
    }


def _rounded(values: Floats) -> list[float]:
    return [round(float(one), 4) for one in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--write", action="store_true", help="store the scores in figures, and the model in the package"
    )
    asked = parser.parse_args()
    table = table_of(labelled(), judgements())
    found = scores(table, {name: told_by(table, model) for name, model in MODELS.items()})
    results = {"runs": int(table.cause.size), "repositories": int(np.unique(table.family).size), "models": found}
    print(json.dumps(results, indent=1))
    if asked.write:
        (FIGURES / "causes.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        MODEL.write_text(json.dumps(shipped(table), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

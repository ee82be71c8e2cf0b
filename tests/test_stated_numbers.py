"""Numbers in the prose of docs/results.md are those of figures/, or are computed by the theory here.

Every number of the sections below belongs to a sentence that is made here from its source, or stands in NO_MEASUREMENT.
So a number that is written by hand, and a table that moved without it, are found.
"""

import csv
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bandit_lab import theory

ROOT = Path(__file__).resolve().parents[1]
RESULTS = "docs/results.md"
READ = ("## What to read from it", "## Diagnoses")
SWEPT = ("What to read from it:", "![Four runs")

NO_MEASUREMENT = (
    "K eta N = 1 - mu",
    "near momentum 1 as N (1 - mu)/tan^2(phi)",
    "1 - 1/G",
    "G p (1 - p)",
    "p = 1/2",
    "1/G^2, not 1/G",
    "a point is the mean of 16 answers",
    "above 0.91 from 64 answers on",
    "With momentum 0.9",
    "runs left at .83, .67 and .53 for N = 1, 2 and 4",
)
"""Formulas, and settings in which something was measured; the test below says which claim the R^2 of 0.91 is."""


def section(page: str, ends: tuple[str, str]) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return " ".join(text.partition(ends[0])[2].partition(ends[1])[0].split())


def figure(name: str):
    return json.loads((ROOT / f"figures/{name}.json").read_text(encoding="utf-8"))


@cache
def measured() -> dict[str, float]:
    return {claim["id"]: claim["measured"] for claim in figure("claims")["claims"]}


def rows(name: str, **wanted: str) -> list[dict[str, str]]:
    with open(ROOT / f"figures/{name}.csv", encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if wanted.items() <= row.items()]


def complex_shares() -> str:
    shares = rows("complex_stiffness", role="measured", quantity="complex_share", advantage="grpo")
    few, many = (pick(shares, key=lambda row: int(row["arms"])) for pick in (min, max))
    told = [f"{100 * float(one['value']):.2g} % with {one['arms']}" for one in (few, many)]
    return f"{told[0]} arms and {told[1]} have a complex stiffness"


def over_law_at(degrees: float) -> float:
    """Exact threshold of model A at N = 2 and momentum .97 over the law, for a stiffness of this argument."""
    angle = np.radians(degrees)
    return theory.exact("refresh", 2, 0.97, angle=angle).kappa * np.cos(angle) / theory.leading_order(2, 0.97)


def complex_threshold() -> str:
    assert over_law_at(17) == pytest.approx(1 / 2, rel=0.05)
    assert over_law_at(68) == pytest.approx(1 / 100, rel=0.05)
    real = f"{over_law_at(0):.2g} times the law for real stiffness"
    return f"Model A at N = 2 and momentum 0.97: {real}, half of it at 17 degrees, a hundredth at 68."


def split(success, reference, weight: float) -> tuple[float, float]:
    """(fresh, stale) stiffness of two arms under `ratio` at G = infinity."""
    signal = theory.BinarySignal(theory.GroupLaw("grpo", None), success)
    point = theory.attracting_fixed_point(signal, np.array(reference), weight, np.array(reference))
    fresh, stale = theory.stiffness_split(signal, point.policy, weight, "ratio").reduced()
    return fresh.item(), stale.item()


def default_ratio() -> str:
    fresh, stale = split((0.9, 0.1), (0.5, 0.5), 1.0)
    return f"in the default setting ({abs(stale):.2g} against {fresh:.3g} at G = infinity)"


def unstable_ratio() -> str:
    fresh, stale = split((1.0, 0.0), (0.009, 0.991), 1.2)
    first = theory.islands(theory.LinearLoop(fresh, stale, 0.0, "refresh"), 0.1, 400)[0][0]
    where = "rewards 1 and 0, a reference with 0.9 % on the good arm, KL weight 1.2 have stale"
    stated = f"{where} {stale:.4g} over fresh {fresh:.4g}; at learning rate 0.1 without momentum that is unstable from"
    return f"{stated} N = {first}"


def identified_inertia() -> str:
    """AICc of the softmax law against the oscillator, run by run, from the plotted numbers."""
    found = {}
    for row in rows("real_runs", role="measured", quantity="aicc"):
        found.setdefault(row["law"], {})[row["run"]] = float(row["value"])
    gain = np.array([found["oscillator"][run] - found["softmax_law"][run] for run in found["oscillator"]])
    better, worse = int((gain < -4).sum()), int((gain > 4).sum())
    return (
        f"on {gain.size} public runs it is clearly better than the softmax law in {better} and clearly worse in {worse}"
    )


def networks() -> str:
    sgd, adam = (100 * measured()[f"{name}.plateau"] for name in ("edge_of_stability", "adam_edge"))
    return f"{sgd:.2g} % of the runs stay within 10 % of it, under Adam {adam:.2g} % with the preconditioned stiffness"


def in_trl() -> str:
    return f"leaves stability on policy at {measured()['trainer.on_policy']:.3g} times the learning rate"


def in_trl_reward() -> str:
    return f"up to {measured()['trainer.reward_worst']:.2g} times above the predicted one"


def fit_without_inertia() -> str:
    assert measured()["slow_start.good_share"] == 1  # R^2 >= 0.91 at 64 answers a point
    return f"fitted by the oscillator with R^2 of about {measured()['slow_start.r_squared']:.1g} where"


@cache
def summary():
    return figure("default_sweep.summary")


def careful_by() -> str:
    found = [row["exact"] / row["leading_order"] for row in summary()["threshold"] if row["momentum"] == 0.9]
    return f"it is {min(found):.2g} to {max(found):.2g} times too conservative"


def followed() -> str:
    worst = [max(abs(row["relative_error"]) for row in summary()[key]) for key in ("threshold", "transition")]
    count = len(summary()["threshold"])
    return f"follows the exact one to {worst[0]:.2g} in all {count} rows, the onset to {worst[1]:.2g}."


def lost_below() -> str:
    exact = {
        (row["momentum"], row["refresh_interval"]): row["exact"]
        for row in summary()["threshold"]
        if row["drift"] == "G = 64"
    }
    sampled = summary()["sampled"]["rows"]
    below = sum(row["boundary_learning_rate"] < exact[row["momentum"], row["refresh_interval"]] for row in sampled)
    return f"lost below the exact threshold in {below} of {len(sampled)} rows"


STATED = {
    READ: (
        complex_shares,
        complex_threshold,
        default_ratio,
        unstable_ratio,
        identified_inertia,
        fit_without_inertia,
        networks,
        in_trl,
        in_trl_reward,
    ),
    SWEPT: (careful_by, followed, lost_below),
}


@pytest.mark.parametrize(
    ("ends", "stated"),
    [(ends, one) for ends, all_of in STATED.items() for one in all_of],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_sentence_has_the_numbers_of_its_source(ends, stated):
    assert stated() in section(RESULTS, ends)


def unsourced(text: str, ends: tuple[str, str]) -> list[str]:
    """Numbers of a section that belong to no sentence above."""
    for known in (*(one() for one in STATED[ends]), *NO_MEASUREMENT):
        text = text.replace(known, "")
    return re.findall(r"(?<![\w.=])\.?\d[\d.e-]*", re.sub(r"\]\([^)]*\)|`[^`]*`", "", text))


@pytest.mark.parametrize("ends", STATED, ids=["results", "default sweep"])
def test_every_number_has_a_source(ends):
    assert unsourced(section(RESULTS, ends), ends) == []


def medians(figure_id: str) -> str:
    found = (measured()[f"{figure_id}.middle_{model}"] for model in ("refresh", "lag", "pipeline"))
    return "The medians are {:.2f} (A), {:.2f} (B) and {:.2f} (C) times".format(*found)


def edges() -> list[str]:
    """Sentences of docs/edge_of_stability.md whose numbers are claims."""
    found = measured()
    misses = found["lazy_to_rich.start_misses"]
    claims = {claim["id"]: claim for claim in figure("claims")["claims"]}
    told = {name: claim["predicted"] for name, claim in claims.items()}
    predicted = told["lazy_to_rich.start_misses"]
    return [
        f"{100 * found['edge_of_stability.plateau']:.0f} % end within 10 % of it",
        f"{100 * found['adam_edge.plateau']:.0f} % end within 10 % of it",
        medians("edge_of_stability"),
        medians("adam_edge"),
        f"model A is held at {found['adam_edge.over_law']:.3g}/eta, predicted 38/eta",
        f"meet the predicted edge to {100 * abs(found['estimator_edges.uncorrected'] - 1):.2g} %",
        f"is at {found['estimator_edges.no_std']:.2f} to",
        f"to {found['estimator_edges.no_kl']:.2f} of the flow's",
        f"off by a factor of {misses:.1f} (predicted {predicted:.1f})",
        f"the last third is {found['noisy_edge.level']:.2f} to",
        f"In the first sixth it is {found['noisy_edge.early']:.2f} or more",
        f"closed alike: {found['noisy_edge.models']:.2f} to",
        f"ends {found['noisy_edge.far']:.2f} times higher than at the near edge",
        f"(predicted {told['noisy_edge.far']:.2f}). The rest",
        f"K in the first sixth is {found['noisy_edge.small_groups']:.2f} of the closed path",
    ]


@pytest.mark.parametrize("stated", edges())
def test_the_page_on_the_edge_tells_its_claims(stated):
    text = (ROOT / "docs/edge_of_stability.md").read_text(encoding="utf-8")
    assert stated in " ".join(text.split())


@pytest.mark.parametrize("planted", ["in 2 and clearly worse", "and 12 runs", "N = 3"])
def test_a_number_written_by_hand_is_found(planted):
    assert unsourced(f"{section(RESULTS, READ)} {planted}", READ) != []

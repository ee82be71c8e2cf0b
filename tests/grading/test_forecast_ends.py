"""When a run arrived, what risk a forecast tells, and the page that says how far both hold."""

import json
from pathlib import Path

import numpy as np

from bandit_lab.runs.forecast.forecast import CurvePrediction
from bandit_lab.runs.forecast.mixture import Component
from bandit_lab.runs.read import Curve, RewardScale, Series
from experiments.grading import forecast_ends
from experiments.grading.backtest import Cut

ROOT = Path(__file__).parents[2]


def curve(reward):
    series = Series(np.arange(float(reward.size)), reward, "reward")
    return Curve("x", "", "test", "TRL", series, RewardScale(0, 1, True))


def test_an_arrival_is_that_of_the_curve_without_its_noise():
    """An exponential of 20 steps: 95 % after 20 ln 20 = 59.9. Noise of .02 moves an isotonic crossing by some steps;
    a first passage of the noisy rewards themselves would be far earlier. Nothing is told of a level run."""
    step, rng = np.arange(300.0), np.random.default_rng(5)
    rise, noise = 0.5 * (1 - np.exp(-step / 20)), 0.02 * rng.normal(size=300)
    assert abs(forecast_ends.arrival(curve(0.1 + rise)) - 60) <= 1
    assert abs(forecast_ends.arrival(curve(0.1 + rise + noise)) - 60) < 15
    assert np.isnan(forecast_ends.arrival(curve(0.3 + noise)))


def seen(low=0.4):
    """A curve that spans 1 and stands at .5; one forecaster at .5, its lower 90 % end at `low`."""
    return CurvePrediction({"level": Component(1, 0.5, low, 0.6)}, Component(1, 0.5, 0.4, 0.6), 0.5, 1, 1, 1, 0, {}, {})


def test_a_risk_is_the_mixture_below_its_edge():
    """The edge is .25 below: at a lower end there, 5 % lie below it; a drift adds to it."""
    np.testing.assert_allclose(forecast_ends.risk_of(seen(0.25), 0.0), 0.05, atol=1e-3)
    assert forecast_ends.risk_of(seen(0.4), 0.0) < 0.001 < forecast_ends.risk_of(seen(0.4), 0.1)


def test_falls_are_scored_beside_the_share_of_the_other_repositories():
    """Two repositories, one fall: told no risk, the one that fell loses 1. By the other's share it loses 1 as well, and
    the other one too."""
    cuts = [Cut(name, name, 0.5, 20, seen(), actual, 0.5) for name, actual in (("fell", 0.1), ("held", 0.5))]
    found = forecast_ends.fallen(cuts, [0.0, 0.0])
    assert (found["runs"], found["falls"], found["repositories_with_falls"]) == (2, 1, 1)
    np.testing.assert_allclose([found["brier"], found["brier_of_the_share"]], [0.5, 1.0], atol=1e-3)


def test_the_page_tells_what_is_stored():
    stored = json.loads((ROOT / "figures/forecast_ends.json").read_text(encoding="utf-8"))
    time, risk = stored["time"], stored["risk"]
    brier, share = (f"{risk[key]:.4f}".lstrip("0") for key in ("brier", "brier_of_the_share"))
    page = " ".join((ROOT / "docs/real_runs.md").read_text(encoding="utf-8").split())
    for said in (
        f"Of {time['gained']} runs that gained, {time['told']} are told a step",
        f"is reached, {time['bounded']} with both ends",
        f"holds {time['covered']} of {time['told']} (by repository {100 * time['covered_by_repository']:.0f} %)",
        f"There were {risk['falls']} in {risk['runs']} runs, of {risk['repositories_with_falls']} repositories",
        f"has a Brier score of {brier}, the share of falls in all other repositories one of {share}",
    ):
        assert said in page

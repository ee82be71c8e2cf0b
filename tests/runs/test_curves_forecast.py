"""Forecasts from a prefix: right on simulated curves, refused where nothing can be said, judged against baselines."""

import numpy as np
import pytest
from settings import nightly_but
from simulated_curves import noise, simulate

from bandit_lab.runs.fit import SHAPES
from bandit_lab.runs.forecast.forecast import CurvePrediction, Forecast, ForecastSettings, forecast, predict_curve
from bandit_lab.runs.forecast.forecasters import LAST_LEVEL, TRUST
from bandit_lab.runs.forecast.mixture import Component
from bandit_lab.runs.read import RewardScale, Series
from bandit_lab.runs.read.record import Curve
from experiments.grading.backtest import BASELINES, Backtest, backtest, cut, leave_family_out, score

NO_DRIFT = ForecastSettings(drift=0.0)


def test_intervals_cover_where_a_law_holds():
    """30 curves of 60 points, 60 % seen, no drift: coverage of the noisy final level at least 90 % less 4 sigma."""
    hits = []
    for law in ("single_exponential", "softmax_law"):
        truth = simulate(law, 15, 60, seed=21)
        hits += [backtest(law, truth.time, reward, 0.6, NO_DRIFT).covered for reward in truth.reward]
    assert np.mean(hits) >= 0.68


def test_a_rise_is_extrapolated_better_than_by_the_last_value():
    """Curves cut at 30 %: where the rise goes on the laws win over the last level, in the median."""
    truth = simulate("single_exponential", 12, 120, sigma=0.02, seed=22)
    tests = [backtest("x", truth.time, reward, 0.3, NO_DRIFT) for reward in truth.reward]
    assert np.median([abs(t.error) for t in tests]) < 0.5 * np.median([abs(t.baselines["last_value"]) for t in tests])


def test_a_forecaster_weighs_by_its_errors_on_the_first_part_of_the_run():
    """A long exponential rise: the law is nearer than the last level there. A level that jumps about: the reverse."""
    time = np.arange(80.0)
    rise = 1 - np.exp(-time / 40) + 0.005 * noise(np.random.default_rng(3), 1, 80, 0.0)[0]
    laws = predict_curve(time, rise, np.arange(110.0, 120.0)).parts
    assert sum(part.weight for part in laws.values()) == pytest.approx(1)
    assert laws["single_exponential"].weight > 1.5 * laws[LAST_LEVEL].weight
    rise = np.where(time < 40, time / 40, 1.0) + 0.005 * noise(np.random.default_rng(3), 1, 80, 0.0)[0]
    laws = predict_curve(time, rise, np.arange(110.0, 120.0)).parts
    assert laws[LAST_LEVEL].weight > laws["single_exponential"].weight


def test_an_interval_is_no_wider_than_thrice_the_error_on_the_run_itself():
    """A straight rise leaves the laws' plateaus open; what they missed by on its first part bounds them."""
    time = np.arange(60.0)
    reward = 0.1 + 0.005 * time + 0.01 * np.random.default_rng(6).normal(size=60)
    seen = predict_curve(time, reward, np.arange(80.0, 90.0))
    for part in seen.parts.values():
        assert max(part.high - part.centre, part.centre - part.low) <= TRUST * seen.seen + 1e-12
    assert all(np.isfinite([part.low, part.high]).all() for part in seen.parts.values())


@pytest.mark.parametrize(
    ("key", "scale", "highest", "known"),
    [
        ("rewards/accuracy_reward/mean", None, 0.9, (0, 1)),
        ("val-core/math/pass@1", None, 0.9, (0, 1)),
        ("rewards/accuracy_reward/mean", None, 1.7, None),
        ("reward", None, 0.9, None),
        ("reward", RewardScale(-1, 3, True), 0.9, (-1, 3)),
    ],
)
def test_the_range_of_a_reward_is_known_where_it_was_given_or_its_key_is_a_share(key, scale, highest, known):
    series = Series(np.arange(3.0), np.array([0.0, 0.5, highest]), key)
    curve = Curve("x", "", "csv", "unknown", series, scale or RewardScale.estimated(series.value))
    assert curve.known_range == known


def test_drift_and_the_scale_shape_the_interval():
    time = np.arange(60.0)
    reward = 0.9 * (1 - np.exp(-time / 8)) + 0.02 * noise(np.random.default_rng(1), 1, 60, 0.0)[0]
    target = np.arange(100.0, 120.0)
    narrow, wide = (forecast(time, reward, target, ForecastSettings(drift=d)) for d in (0.0, 0.3))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    assert forecast(time, reward, target, ForecastSettings(drift=0.3), scale=(0, 0.95)).high <= 0.95
    assert sum(weight for weight, _ in narrow.laws.values()) == pytest.approx(1)


def test_what_cannot_be_forecast_is_refused():
    time = np.arange(40.0)
    steep = np.exp(time / 6) / 100 + 0.01 * np.random.default_rng(2).normal(size=40)
    assert "times the range seen" in forecast(time, steep, np.arange(200.0, 220.0), NO_DRIFT).refused
    short = forecast(time[:10], steep[:10], np.arange(20.0, 25.0))
    assert "points" in short.refused
    assert np.isnan(short.predicted)
    with pytest.raises(ValueError, match="target"):
        forecast(time, steep, time[-3:])
    with pytest.raises(ValueError, match="fraction"):
        backtest("x", time, steep, 1.2)


def test_scores_count_coverage_refusals_and_errors():
    def made(low, high, refused=""):
        guess = Forecast(0.5, low, high, refused)
        return Backtest("x", 0.5, guess, 0.6, dict.fromkeys(BASELINES, 0.3) | {"sigmoid": -0.1})

    found = score([made(0.4, 0.7), made(0.4, 0.55), made(0, 9, "too wide")])
    assert (found.runs, found.refused, found.covered) == (3, 1, 1)
    assert found.median_error == pytest.approx(0.1)
    assert found.baseline_errors["sigmoid"] == pytest.approx(0.1)
    assert found.coverage_interval[0] < 0.5 < found.coverage_interval[1]
    with pytest.raises(ValueError, match="refused"):
        score([made(0, 9, "too wide")])


def test_drift_is_chosen_large_enough_for_runs_that_wander_and_on_other_families():
    """Runs with a random walk on top need drift, runs without it none; 8 of each, each family judged by the other."""
    rng = np.random.default_rng(4)
    truth = simulate("single_exponential", 8, 60, sigma=0.02, seed=23)
    walk = np.cumsum(rng.normal(size=(8, 60)), axis=-1) * 0.03
    still = [cut("a", truth.time, reward, 0.6, "still") for reward in truth.reward]
    wandering = [cut("b", truth.time, reward, 0.6, "wandering") for reward in truth.reward + walk]
    found = {test.name: drift for test, drift in leave_family_out([*still, *wandering], candidates=(0.0, 0.2, 0.6))}
    assert found["b"] < found["a"]
    alone = leave_family_out(still, ForecastSettings(drift=0.15))
    assert {drift for _, drift in alone} == {0.15}


@pytest.mark.parametrize("each", nightly_but([5], [5, 20]))
def test_plateau_and_arrival_are_forecast_where_the_curve_bends(each):
    """`each` curves of every law, 100 points, 70 % seen: intervals hold the true plateau and step of 95 % of the gain.

    90 % less 4 standard errors (0.155 of 60 curves, which are nightly).
    """
    hits = []
    for law in ("single_exponential", "softmax_law", "oscillator"):
        truth = simulate(law, each, 100, sigma=0.03, seed=24)
        fine = np.linspace(0, 400, 8001)
        growth = SHAPES[law].growth(fine, truth.theta[:, None, :])
        away = np.abs(1 - growth) / (1 - growth[:, :1]) > 0.05
        arrival = fine[np.minimum(fine.size - away[:, ::-1].argmax(axis=-1), fine.size - 1)]
        for i, reward in enumerate(truth.reward):
            seen = predict_curve(truth.time[:70], reward[:70], truth.time[-10:])
            plateau, step = seen.plateau(), seen.step_95()
            hits.append((plateau.low <= truth.plateau[i] <= plateau.high, step.low <= arrival[i] <= step.high))
    assert np.all(np.mean(hits, axis=0) >= 0.9 - 4 * np.sqrt(0.9 * 0.1 / len(hits)))


def test_a_straight_rise_has_neither_plateau_nor_arrival():
    time = np.arange(60.0)
    reward = 0.1 + 0.005 * time + 0.01 * np.random.default_rng(6).normal(size=60)
    seen = predict_curve(time, reward, np.arange(80.0, 90.0))
    assert "plateau" in seen.plateau().refused
    assert "end of the rise" in seen.step_95().refused
    flat = predict_curve(time, 0.5 + 0.05 * np.random.default_rng(7).normal(size=60), np.arange(80.0, 90.0))
    assert flat.plateau().low < 0.5 < flat.plateau().high
    assert flat.step_95().refused


def _edge(kind):
    """60 points of a curve at the edge of what can be forecast, and 10 points of nothing."""
    time, fresh = np.arange(60.0), np.random.default_rng(5).normal(size=60)
    rise = 0.2 + 0.6 * (1 - np.exp(-time / 8)) + 0.02 * fresh
    return {
        "zero": np.zeros(60),
        "flat": np.full(60, 0.5),
        "flat but one point": np.where(time == 30, 1.0, 0.5),
        "converged": 0.9 * (1 - np.exp(-time / 3)) + 0.01 * fresh,
        "collapsed": np.where(time < 40, rise, 0.02 * np.abs(fresh)),
        "falling": np.where(time < 50, rise, 0.8 - 0.06 * (time - 50)),
        "ten points": rise[:10],
    }[kind]


@pytest.mark.parametrize("kind", ["zero", "flat", "flat but one point"])
def test_a_curve_that_does_not_move_is_refused_in_these_words_and_keeps_its_level(kind):
    reward = _edge(kind)
    seen = predict_curve(np.arange(60.0), reward, np.arange(80.0, 90.0))
    made = seen.forecast(ForecastSettings())
    assert "the same" in made.refused
    assert made.predicted == pytest.approx(np.median(reward), abs=1e-6)
    assert seen.plateau().value == pytest.approx(np.median(reward), abs=1e-6)
    assert "no gain" in seen.step_95().refused


def test_a_converged_curve_is_forecast_to_stay():
    made = forecast(np.arange(60.0), _edge("converged"), np.arange(80.0, 90.0))
    assert not made.refused
    assert made.predicted == pytest.approx(0.9, abs=0.01)
    assert 0.8 < made.low < 0.9 < made.high < 1.0


def test_noise_about_a_constant_is_forecast_to_stay_or_refused_now_and_then():
    """12 curves (seed 1): all intervals hold the level, and at most 3 are refused (about one in twelve is)."""
    rng, time = np.random.default_rng(1), np.arange(60.0)
    made = [forecast(time, 0.5 + 0.1 * rng.normal(size=60), time[-10:] + 30) for _ in range(12)]
    assert all(one.low < 0.5 < one.high for one in made)
    kept = [one for one in made if not one.refused]
    assert len(kept) >= 9
    assert max(abs(one.predicted - 0.5) for one in kept) < 0.16


def test_a_collapse_is_not_forecast_to_recover():
    """While it falls the forecast is refused; at the bottom it is refused, or holds the bottom."""
    time, target = np.arange(60.0), np.arange(80.0, 90.0)
    assert "left the laws' curves" in forecast(time, _edge("falling"), target).refused
    bottom = forecast(time, _edge("collapsed"), target)
    assert bottom.refused or (bottom.low < 0.02 < bottom.high and bottom.predicted < 0.2)


def test_no_number_is_given_where_the_laws_run_away():
    """Ten points are too few; a straight line has no plateau and no arrival: an open end says how far at least."""
    assert "10 points" in forecast(np.arange(10.0), _edge("ten points"), np.arange(20.0, 25.0)).refused
    time = np.arange(60.0)
    seen = predict_curve(time, time / 60, np.arange(80.0, 90.0))
    plateau, arrival = seen.plateau(), seen.step_95()
    assert "plateau" in plateau.refused
    assert np.isnan(plateau.value)
    assert np.isnan(arrival.value)
    assert (plateau.high, arrival.high) == (np.inf, np.inf)
    assert plateau.low > 1
    assert arrival.low > 59


def test_interval_score_charges_width_and_misses():
    def made(low, high):
        return Backtest("x", 0.5, Forecast(0.5, low, high), 0.6, {}).interval_score

    assert made(0.4, 0.7) == pytest.approx(0.3)
    assert made(0.4, 0.55) == pytest.approx(0.15 + 20 * 0.05)
    assert made(0.62, 0.7) == pytest.approx(0.08 + 20 * 0.02)


def prediction(**centres):
    """A curve that spans 1 and stands at 0.5, forecasters at these levels with an interval of .1 to each side."""
    weight = 1 / len(centres)
    parts = {name: Component(weight, centre, centre - 0.1, centre + 0.1) for name, centre in centres.items()}
    return CurvePrediction(parts, Component(1, 0.5, 0.4, 0.6), 0.5, 1, 1, 1, 0, {}, {})


def test_a_forecaster_that_alone_would_be_refused_does_not_have_the_others_refused():
    """Two agree and a third is far away: they are the forecast. With one of them alone it is refused, as before; and
    three that agree are all heard."""
    far = prediction(last_level=0.5, exponential=0.6, sigmoid=40.0).forecast(NO_DRIFT)
    near = prediction(last_level=0.5, exponential=0.6).forecast(NO_DRIFT)
    assert not far.refused
    assert (far.predicted, far.low, far.high) == (near.predicted, near.low, near.high)
    assert "times the range seen" in prediction(last_level=0.5, sigmoid=40.0).forecast(NO_DRIFT).refused
    assert set(prediction(last_level=0.5, exponential=0.6, sigmoid=0.7).forecast(NO_DRIFT).laws) == {
        "last_level",
        "exponential",
        "sigmoid",
    }

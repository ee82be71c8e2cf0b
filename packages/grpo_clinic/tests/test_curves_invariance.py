"""Neither the offset nor the scale of a reward changes what is read from it."""

from dataclasses import replace

import numpy as np
import pytest
from grpo_clinic.fitting import SHAPES, engine, fit_curve
from grpo_clinic.readers import Curve, RewardScale, Series
from grpo_clinic.report import report
from grpo_clinic.rules import Case
from settings import nightly_but
from simulated_curves import noise, simulate

CHANGES = [(1e6, 1.0), (0.0, 1e6), (0.0, 1e-6), (-3e5, 0.01)]
"""(offset, scale). Rewards of 10^6 are rounded to 10^-10, so that answers agree to about that over the noise."""
IN_REWARD = {"plateau": True, "initial": True, "amplitude": False, "sigma": False}
"""Parameters in units of the reward: whether the offset belongs to them."""


def curves():
    """Three of every law, 60 points, noise with autocorrelation 0.3."""
    truths = [simulate(law, 3, 60, rho=0.3, seed=41) for law in SHAPES]
    return truths[0].time, np.concatenate([truth.reward for truth in truths])


def fits(time, rewards):
    return [fit_curve(time, one) for one in rewards]


def alike(values, wanted, offset=0.0, scale=1.0):
    np.testing.assert_allclose((np.array(values) - offset) / scale, wanted, rtol=1e-5, atol=1e-5)


def same_fits(changed, plain, offset, scale):
    for one, wanted in zip(changed, plain, strict=True):
        assert one.best.law == wanted.best.law
        assert one.ranked == wanted.ranked
        for law, fit in one.laws.items():
            there = wanted.laws[law]
            assert fit.status == there.status
            alike(fit.fitted, there.fitted, offset, scale)
            alike(fit.aicc - one.best.aicc, there.aicc - wanted.best.aicc)
            alike((fit.r_squared, fit.r_squared_explainable), (there.r_squared, there.r_squared_explainable))
            for name, estimate in fit.parameters.items():
                other, unit = there.parameters[name], scale if name in IN_REWARD else 1.0
                ends = (estimate.value, estimate.low, estimate.high)
                alike(ends, (other.value, other.low, other.high), offset * IN_REWARD.get(name, False), unit)
                alike(estimate.standard_error, other.standard_error, 0.0, unit)


@pytest.fixture(scope="module")
def plain():
    return fits(*curves())


@pytest.mark.parametrize(("offset", "scale"), nightly_but(CHANGES[:1], CHANGES))
def test_fits_do_not_depend_on_offset_and_scale(plain, offset, scale):
    time, rewards = curves()
    same_fits(fits(time, offset + scale * rewards), plain, offset, scale)


def test_a_fit_that_is_not_centred_would_be_caught(plain, monkeypatch):
    """The planted defect: without centring rounding is all that is left of the sums, and a constant wins."""
    time, rewards = curves()
    monkeypatch.setattr(engine, "own_units", lambda reward: (0.0, 1.0))
    spoiled = fits(time, 1e6 + rewards[:3])
    assert any(one.best.law != wanted.best.law for one, wanted in zip(spoiled, plain[:3], strict=True))


def runs():
    """Healthy, collapsed after a climb, collapsed from a height, swinging, hacked: 120 points each."""
    step = np.arange(1.0, 121.0)
    rise = 0.2 + 0.5 * (1 - np.exp(-step / 25))
    curves = {
        "healthy": rise,
        "collapse": np.where(step > 90, 0.1, rise),
        "fall": np.where(step > 90, 0.1, 0.7),
        "swings": rise + 0.2 * np.sin(step / 2),
        "hacking": rise,
    }
    held_out = np.concatenate((np.linspace(0.2, 0.5, 6), np.linspace(0.48, 0.25, 8)))
    rng = np.random.default_rng(8)
    for name, mean in curves.items():
        reward = mean + 0.03 * noise(rng, 1, 120, 0.0)[0]
        run = Curve(name, "file", "test", "TRL", Series(step, reward, "reward"), RewardScale(0.0, 1.0, True))
        follow = held_out if name == "hacking" else np.interp(np.linspace(5, 120, 14), step, mean)
        yield replace(run, eval=Series(np.linspace(5, 120, 14), follow + 0.01 * rng.normal(size=14), "eval_reward"))


def moved(run, offset, scale):
    def series(one):
        return replace(one, value=offset + scale * one.value)

    low, high = (offset + scale * end for end in (run.scale.low, run.scale.high))
    return replace(
        run, reward_series=series(run.reward_series), eval=series(run.eval), scale=RewardScale(low, high, True)
    )


@pytest.mark.parametrize(("offset", "scale"), nightly_but(CHANGES[:1], CHANGES))
def test_verdicts_do_not_depend_on_offset_and_scale(offset, scale):
    verdicts = set()
    for run in runs():
        named, wanted = (report(Case(one)) for one in (moved(run, offset, scale), run))
        assert named.verdict == wanted.verdict
        assert (named.notes, named.outcome.what) == (wanted.notes, wanted.outcome.what)
        for score, other in zip(named.scores.values(), wanted.scores.values(), strict=True):
            assert score == (other if other is None else pytest.approx(other, rel=1e-5, abs=1e-5))
        assert [one.window for one in named.fired] == [one.window for one in wanted.fired]
        verdicts.add((run.name, named.verdict))
    assert {name for name, verdict in verdicts if "collapsed" in verdict} == {"collapse", "fall"}
    assert {name for name, verdict in verdicts if "dynamical_instability" in verdict} == {"swings"}
    assert {name for name, verdict in verdicts if "reward_hacking" in verdict} == {"hacking"}


def test_a_collapse_far_above_zero_is_found_without_a_scale():
    """Rewards near 10^6 that climb by 0.5 and lose it all: zero is no bottom; near zero it is, and a dip is none."""
    collapsed = next(run for run in runs() if run.name == "collapse")
    far = moved(collapsed, 1e6, 1.0)
    verdicts = report(Case(replace(far, scale=RewardScale.estimated(far.reward))))
    assert "collapsed" in verdicts.verdict
    assert far.scale.bottom == 1e6
    assert RewardScale.estimated(np.array([3.0, 80.0])).bottom == 0
    assert RewardScale.estimated(np.array([0.999, 1.0])).bottom == 0

"""What `predict` says in one momentum convention against another: exact identities that share no formula.

v <- mu v + (1 - mu) g at learning rate eta/(1 - mu) is the heavy ball at eta: the same parameters at every step. So
every statement is the same, and every learning rate over 1 - mu. Without momentum all three conventions are one.
"""

import numpy as np
import pytest

from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.grpo import Hyper
from bandit_lab.lab.predict import build
from bandit_lab.lab.predict.fixed_point import linearise
from bandit_lab.lab.predict.point import OperatingPoint
from bandit_lab.lab.predict.statements import RATE, evaluate
from experiments.shared.random_ages import Random

CONVENTIONS = {"heavy_ball": "sgd", "ema": "sgd_ema", "nesterov": "nesterov"}
SETTINGS = {
    "frozen": {},
    "batch reuse": {"batch_reuse": True},
    "partly fresh": {"estimator": "ratio"},
    "no momentum": {"momentum": 0.0},
}
MODELS = ("refresh", "lag", "pipeline", Random.model)


def predicted(model, convention, rate, momentum=0.8, **changes):
    """`OperatingPoint` of two noisy arms, G = 64, N = 3."""
    chosen = {"bandit": "two_arm", "advantage": "grpo", "estimator": "frozen", "staleness": model,
              "optimizer": CONVENTIONS[convention], "group_size": 64, "dynamics": "finite_group"} | changes  # fmt: skip
    groups = ("bandit", "advantage", "estimator", "staleness", "optimizer", "sampler")
    settings = PredictSettings(**{k: {"name": v} if k in groups else v for k, v in chosen.items()})
    learner = build.build_learner(settings, 3.0)
    linear = linearise(learner, settings.dynamics, 1.0)
    return OperatingPoint(settings, learner, Hyper(rate, momentum, 3, 1.0), linear)


def numbers(results):
    """(key, value or None, whether it is a learning rate)."""
    rows = [(key, value.value, value.unit == RATE) for key, value in evaluate(results).items()]
    rows += [(name, getattr(results, name).value, True) for name in ("law", "exact", "onset")]
    damped = results.linear.rate("oscillator_onset", 3, results.hyper.momentum).value
    return [*rows, ("oscillator_onset", damped, True), ("radius", results.radius.value, False)]


def assert_same(one, other, factor):
    """factor: of learning rates."""
    for (key, value, is_rate), (_, too, _) in zip(numbers(one), numbers(other), strict=True):
        assert (value is None) == (too is None), key
        if value is not None:
            expected = np.array(value) * (factor if is_rate else 1)
            np.testing.assert_allclose(np.array(too), expected, rtol=1e-7, atol=1e-12, err_msg=key)
    assert one.regime == other.regime
    assert one.intervals.islands == other.intervals.islands


@pytest.mark.parametrize(
    ("setting", "model"),
    [(s, m) for s in SETTINGS for m in MODELS if s != "batch reuse" or m in ("refresh", "pipeline")],
)
def test_an_average_is_the_heavy_ball_at_another_learning_rate(setting, model):
    """And Nesterov, without momentum, is the heavy ball. Planted: the same learning rate in both says otherwise."""
    changes = SETTINGS[setting]
    left = 1 - changes.get("momentum", 0.8)
    heavy = predicted(model, "heavy_ball", 0.3, **changes)
    assert_same(heavy, predicted(model, "ema", 0.3 / left, **changes), 1 / left)
    nesterov = predicted(model, "nesterov", 0.3, **changes)
    if left == 1:
        assert_same(heavy, nesterov, 1.0)
        return
    if heavy.exact.value is None:  # drawn ages with a fresh part: there is no number to be wrong
        return
    for other in (predicted(model, "ema", 0.3, **changes), nesterov):
        with pytest.raises(AssertionError):
            assert_same(heavy, other, 1.0)

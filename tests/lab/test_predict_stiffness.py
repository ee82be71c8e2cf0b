"""`predict(stiffness=...)` against numbers by hand: no bandit, one curvature."""

import json

import numpy as np
import pytest

import bandit_lab as bl
from bandit_lab.app.cli import main


def test_a_block_of_four_steps_without_momentum():
    """kappa N = 2 flips, kappa N = 1 rings; eta = .25, K = .5, N = 4: the multiplier of a block is 1/2."""
    prediction = bl.predict(stiffness=0.5, refresh_interval=4, momentum=0, learning_rate=0.25, group_size=16)
    assert prediction.oscillator == pytest.approx(
        {"mass": 0.0, "damping": 1 / 0.25 - 0.5 * 4, "stiffness": 0.5, "lag": 4}
    )
    assert prediction.regime == "overdamped"
    rates = prediction.thresholds.learning_rate
    assert (rates.leading_order, rates.exact, rates.oscillation_onset) == pytest.approx((0.5, 1.0, 0.5), rel=1e-12)
    assert prediction.thresholds.refresh_interval.exact == 16
    assert prediction.margin == pytest.approx(4, rel=1e-12)
    assert prediction.verdict == "overdamped: the learning rate is 4 times below the threshold"
    variance, drift, seen = 0.0, 0.25 * 0.5, []
    for _ in range(60):  # x -> (1 - k kappa) x_0 + noise of k steps within a block
        seen = [(1 - k * drift) ** 2 * variance + k * 0.25**2 / 16 for k in range(5)]
        variance = seen[-1]
    assert prediction.stationary_std == pytest.approx(np.sqrt(np.mean(seen[:-1])), rel=1e-12)


def test_a_lag_of_one_step_with_momentum_is_the_published_law():
    """Lag 1: kappa = 1 - mu exactly. eta = .5, K = .3, mu = .8: the threshold is 2/3, the margin 4/3."""
    prediction = bl.predict(stiffness=0.3, staleness="lag", refresh_interval=1, momentum=0.8, learning_rate=0.5)
    assert prediction.oscillator == pytest.approx({"mass": 1.6, "damping": 0.4 - 0.3, "stiffness": 0.3, "lag": 1})
    assert prediction.thresholds.learning_rate.exact == pytest.approx(2 / 3, rel=1e-12)
    assert prediction.thresholds.learning_rate.leading_order == pytest.approx(2 / 3, rel=1e-12)
    assert prediction.margin == pytest.approx(4 / 3, rel=1e-12)
    assert prediction.regime == "oscillatory"


def test_fresh_and_stale_parts_are_told_apart(tmp_path):
    """Blocks without momentum: z = A - rho (1 - A), A = (1 - eta f)^N. f = .2, s = .1, N = 2: z = -1 where A = -1/3."""
    asked = ["predict", "stiffness=[0.2,0.1]", "refresh_interval=2", "momentum=0", f"run_dir={tmp_path / 'run'}"]
    assert main(asked) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    # A = (1 - .2 eta)^2 >= 0, so that z >= -1/2: stability is lost where A = 1 again, at .2 eta = 2
    assert summary["thresholds"]["learning_rate"]["exact"] == pytest.approx(10.0, rel=1e-9)
    whole = bl.predict(stiffness=0.3, refresh_interval=2, momentum=0).thresholds.learning_rate.exact
    assert whole == pytest.approx(10 / 3, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"stiffness": [0.1, -0.2]}, r"stiffness: expected a number > 0, or \[fresh, stale\]"),
        ({"stiffness": 0.3, "kl_weight": 0.5}, "kl_weight: expected no such setting beside stiffness"),
    ],
)
def test_a_mistake_is_one_line(given, line):
    with pytest.raises(ValueError, match=line):
        bl.predict(**given)

"""`predict` and `simulate` along a schedule: the margin against every step by itself, and against displaced runs."""

import numpy as np
import pytest
from settings import cells, learner

import bandit_lab as bl
from bandit_lab import measure, simulation
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import Schedule

SETTING = {"bandit": {"name": "k_arm", "rewards": [0.8, 0.55, 0.2]}, "refresh_interval": 4, "momentum": 0.5}
MEAN = {**SETTING, "dynamics": "mean_field"}


def test_a_schedule_of_the_rate_is_nearest_at_its_peak():
    """The margin is the threshold over the peak; everything else is what is said of the peak as a number."""
    warm = {"schedule": "warmup_constant", "init_value": 0.0, "peak_value": 0.3, "warmup_steps": 7}
    scheduled, peak = bl.predict(learning_rate=warm, **MEAN), bl.predict(learning_rate=0.3, **MEAN)
    assert scheduled.margin.smallest == pytest.approx(peak.thresholds.learning_rate.exact / 0.3, rel=1e-12)
    assert (scheduled.margin.step, scheduled.margin.steps) == (7, 1000)
    assert scheduled.spectral_radius == peak.spectral_radius


def test_a_displacement_shrinks_until_the_schedule_passes_the_threshold():
    """A slow ramp through the threshold, at fixed KL weight: the run is nearest to its fixed point where they meet."""
    setting, steps = {"refresh_interval": 1, "momentum": 0.0, "dynamics": "mean_field"}, 400
    threshold = bl.predict(learning_rate=1.0, **setting).thresholds.learning_rate.exact
    trained = learner(bandit=two_arm(), schedule=Schedule(np.linspace(0.95, 1.05, steps)))
    point = measure.find_fixed_point(trained, "mean_field", 1.0)
    rest = float(bl.predict(learning_rate=1.0, **setting).fixed_point.expected_reward)
    grid, start = cells(threshold), np.asarray(point.theta) + np.array([1e-3, -1e-3])
    run = simulation.run(trained, "mean_field", grid, steps=steps, dtype=np.float64, initial=start, path="reference")
    nearest = np.argmin(np.abs(run.reward_mean[0] - rest))
    assert abs(nearest - steps / 2) <= 4


def test_simulate_takes_a_schedule():
    """A constant one is the number; a warm-up is slower than its peak, and no run is judged."""
    how = {"refresh_interval": 4, "seeds": 64, "steps": 40}
    number, same = (bl.simulate(learning_rate=x, **how) for x in (0.3, {"schedule": "constant", "value": 0.3}))
    np.testing.assert_array_equal(number.reward_mean, same.reward_mean)
    warm = {"schedule": "linear", "init_value": 0.0, "end_value": 0.3}
    slow = bl.simulate(learning_rate=warm, kl_weight=[0.5, 1.0], **how)
    assert slow.reward_mean.sel(kl_weight=1.0)[20] < number.reward_mean[20]
    assert slow.attrs["no_outcome"].startswith("learning_rate on a schedule")
    assert slow.attrs["learning_rate.schedule"] == "linear"

"""Learning rates and KL weights that change from step to step: by hand, and as a constant.

Sampled runs of both paths: test_fast_path.py.
"""

from dataclasses import replace

import by_hand
import numpy as np
import optax
import pytest
from by_hand_settings import PLACES, learner as on_place, setting
from settings import cells, learner

from bandit_lab.grpo import OPTIMIZERS, SCHEDULES, Optimizer, Schedule, schedule_values
from bandit_lab.simulation import run, trajectories

pytestmark = pytest.mark.usefixtures("compiled_quickly")

STEPS = 12
RATES = np.array(schedule_values("learning_rate", {"schedule": "cosine_decay", "init_value": 1.0}, STEPS))
WEIGHTS = np.array(schedule_values("kl_weight", {"schedule": "linear", "init_value": 0.2, "end_value": 1.0}, STEPS))
BOTH = Schedule(RATES, WEIGHTS)
HAND = {
    "refresh": ({}, 3, "fast"),
    "k3, entropy": ({"kl_estimator": "k3", "estimator": "ratio", "entropy_weight": 0.3}, 3, "fast"),
    "adam": ({"optimizer": "adam"}, 3, "fast"),
    "mean over ages": ({"staleness": "ages", "horizon": 3}, 3, "fast"),
    "finite groups": ({"group_size": 2}, 3, "reference"),
}


def by_hand_curve(chosen, start, interval, infinite, late=0):
    """Expected reward [T + 1] of a heavy ball or Adam in NumPy. late: steps by which the schedules lag behind."""
    path, memory = [np.asarray(start, float)], (np.zeros(len(start)),) * 2
    for t in range(STEPS):
        ages = by_hand.STALENESS[chosen.staleness](t, interval, chosen.horizon)
        eta, weight = (0.4 * RATES)[max(t - late, 0)], (0.7 * WEIGHTS)[max(t - late, 0)]
        g = sum(c * by_hand.mean_update(chosen, path[t], path[t - age], weight, infinite) for age, c in ages)
        change, memory = by_hand.OPTIMIZERS[chosen.optimizer](g, path[t], memory, t + 1, eta, 0.6)
        path.append(path[t] + change)
    return by_hand.expected_reward(chosen, np.array(path))


@pytest.mark.parametrize("name", HAND)
def test_every_step_has_its_own_settings(name):
    """Exact dynamics against a loop in NumPy, to 1e-9 on both paths. Planted: schedules that are one step late."""
    rules, interval, path = HAND[name]
    infinite = name != "finite groups"
    chosen, start = setting("arms", **rules), PLACES["arms"][0]
    trained = replace(on_place("arms", **rules), schedule=BOTH)
    dynamics = "mean_field" if infinite else "finite_group"
    wanted = by_hand_curve(chosen, start, interval, infinite)
    for one in {path, "reference"}:
        grid = cells(0.4, 0.6, interval, 0.7)
        how = {"steps": STEPS, "dtype": np.float64, "initial": np.asarray(start), "path": one}
        curve = run(trained, dynamics, grid, **how).reward_mean[0]
        np.testing.assert_allclose(curve, wanted, atol=1e-9)
    assert np.abs(by_hand_curve(chosen, start, interval, infinite, late=1) - wanted).max() > 1e-4


@pytest.mark.parametrize("path", ["fast", "reference"])
def test_a_constant_schedule_is_the_number(path):
    """The same random numbers, and the same bits of every sampled run."""
    plain, grid = learner(group_size=4), cells(0.3, 0.5, 3, 0.7)
    constant = replace(plain, schedule=Schedule(np.ones(STEPS), np.ones(STEPS)))
    one, other = (trajectories(x, "sampled", grid, steps=STEPS, seeds=64, path=path) for x in (plain, constant))
    np.testing.assert_array_equal(one, other)


def test_a_run_beyond_its_schedule_keeps_the_last_value():
    plain, grid = learner(), cells(0.3, 0.5, 3, 0.7)
    short, long = (np.append(RATES, np.full(more, RATES[-1])) for more in (0, 20))
    one, other = (
        run(replace(plain, schedule=Schedule(x)), "mean_field", grid, steps=STEPS + 20).reward_mean
        for x in (short, long)
    )
    np.testing.assert_array_equal(one, other)


def test_a_warm_up_inside_an_optimiser_is_led_to_a_schedule():
    """One that looks at its learning rate cannot be built where that is traced. Planted: one that does not look."""

    def warm(learning_rate, momentum):
        return optax.sgd(optax.warmup_cosine_decay_schedule(0.0, learning_rate, 5, 50))

    def plain(learning_rate, momentum):
        return optax.sgd(learning_rate)

    with OPTIMIZERS.standing("given", warm), pytest.raises(ValueError, match="a warm-up is a schedule of learning_ra"):
        Optimizer("given")
    with OPTIMIZERS.standing("given", plain):
        Optimizer("given")


def test_a_warm_up_is_its_formula_and_listed_values_stay_at_the_last():
    chosen = {"schedule": "warmup_cosine_decay", "init_value": 0.0, "peak_value": 0.3, "warmup_steps": 4}
    t = np.arange(20)
    cosine = 0.15 * (1 + np.cos(np.pi * (t - 4) / 16))
    np.testing.assert_allclose(schedule_values("eta", chosen, 20), np.where(t < 4, 0.3 * t / 4, cosine), atol=1e-12)
    listed = {"schedule": "values", "values": [0.1, 0.4]}
    np.testing.assert_array_equal(schedule_values("eta", listed, 4), [0.1, 0.4, 0.4, 0.4])


def test_every_schedule_is_that_of_optax():
    options = {"value": 1.0, "init_value": 1.0, "peak_value": 2.0, "end_value": 0.5, "warmup_steps": 3}
    options |= {"values": [0.1, 0.2], "decay_rate": 0.9, "power": 2, "interpolate_type": "linear"}
    options["boundaries_and_scales"] = {"5": 0.5}
    for name, function in SCHEDULES.items():
        accepted = {key: value for key, value in options.items() if key in function.__code__.co_varnames}
        assert schedule_values("eta", {"schedule": name, **accepted}, 20).shape == (20,)

"""The traced settings: scalars serve as arrays do, and what the command line refuses the library refuses."""

import jax
import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.grpo import Hyper, init, update
from bandit_lab.measure import floquet, growth_rate
from bandit_lab.simulation import mean_field, run, trajectories

REFUSED = [
    ("learning_rate", 0.0, "> 0"),
    ("learning_rate", np.nan, "finite"),
    ("momentum", 1.0, r"\[0, 1\)"),
    ("refresh_interval", 2.5, "integer >= 1"),
    ("kl_weight", -1.0, ">= 0"),
]
GOOD = Hyper(0.1, 0.5, 2, 1.0)


@pytest.mark.parametrize(("name", "value", "expected"), REFUSED)
def test_settings_out_of_range_are_refused_by_name(name, value, expected):
    trained, bad = learner(), GOOD._replace(**{name: value})
    theta = trained.bandit.initial_parameters
    message = f"^{name}: expected .*{expected}.*, got "
    with pytest.raises(ValueError, match=message):
        init(trained, bad, theta)
    with pytest.raises(ValueError, match=message):
        run(trained, "mean_field", bad, steps=2)
    with pytest.raises(ValueError, match=message):
        growth_rate(trained, "mean_field", bad, theta[None], np.array([1.0, -1.0, 0.0]))
    with pytest.raises(ValueError, match=message):
        floquet(trained, "mean_field", bad)


def test_one_bad_cell_among_good_ones_is_named_by_its_value():
    with pytest.raises(ValueError, match=r"momentum: expected a number in \[0, 1\), got 1\.5"):
        run(learner(), "mean_field", cells([0.1, 0.1, 0.1], [0.0, 1.5, 0.9]), steps=2)
    assert check(learner(staleness="lag"), refresh_interval=0) is None
    with pytest.raises(ValueError, match="refresh_interval: expected an integer >= 0, got -1"):
        check(learner(staleness="lag"), refresh_interval=-1)


def check(trained, **change):
    init(trained, GOOD._replace(**change), trained.bandit.initial_parameters)


@pytest.mark.usefixtures("compiled_quickly")
def test_python_numbers_are_settings():
    """A step by hand, and runs, with plain numbers and with arrays of one cell."""
    trained = learner()
    state = init(trained, GOOD, trained.bandit.initial_parameters)
    assert update(trained, mean_field(trained), GOOD, jax.random.key(0), state)[0].theta.dtype == np.float64
    both = [run(trained, "mean_field", hyper, steps=4).reward_mean for hyper in (GOOD, cells(*GOOD))]
    np.testing.assert_array_equal(*both)
    assert both[0].shape == (1, 5)


def test_a_number_beside_arrays_is_that_of_every_cell():
    many = Hyper(np.array([0.1, 0.2]), 0.5, 2, 1.0)
    together = trajectories(learner(), "mean_field", many, steps=3)
    np.testing.assert_array_equal(
        together, trajectories(learner(), "mean_field", cells([0.1, 0.2], 0.5, 2, 1.0), steps=3)
    )
    with pytest.raises(ValueError, match="momentum: expected an array of 2 cells"):
        run(learner(), "mean_field", many._replace(momentum=np.zeros(3)), steps=3)

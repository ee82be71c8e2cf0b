"""The fast path at its ends: what it does not serve and says so, silent groups, lanes that diverge."""

import re

import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import Optimizer
from bandit_lab.grpo.staleness.ages import ages
from bandit_lab.simulation import route, run


def variant(**options):
    """A learner of groups of four with three noisy arms, and one cell."""
    return learner(**{"group_size": 4, "horizon": 8, **options}), cells(0.1, 0.8, 1, 0.3)


def test_an_operation_that_does_not_fit_into_the_kernel_runs_beside_it():
    """An optimiser with a sort cannot be one kernel: the same program is compiled as several."""
    trained, grid = variant(optimizer=Optimizer("lion"))
    assert run(trained, "sampled", grid, steps=5, seeds=64, path="fast").summary.finite.all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"staleness": ages(draws=1), "dynamics": "mean_field"}, "draws ages"),
        ({"bandit": two_arm(), "dynamics": "finite_group"}, "enumerates groups"),
    ],
)
def test_what_is_not_served_runs_on_the_reference_path_and_says_so(options, words):
    options = dict(options)
    dynamics = options.pop("dynamics", "sampled")
    trained, grid = variant(**options)
    chosen = route(trained, dynamics)
    assert chosen.name == "reference"
    assert words in chosen.reason
    runs = run(trained, dynamics, grid, steps=3, seeds=1)
    assert runs.route == chosen
    with pytest.raises(ValueError, match=re.escape(words)):
        run(trained, dynamics, grid, steps=3, path="fast")


def test_bad_choices_are_named():
    trained, grid = variant()
    with pytest.raises(ValueError, match=r"path.*auto, fast, reference.*quick"):
        run(trained, "sampled", grid, steps=3, path="quick")
    with pytest.raises(ValueError, match=r"rng.*hash, threefry.*mersenne"):
        run(trained, "sampled", grid, steps=3, rng="mersenne")
    with pytest.raises(ValueError, match=r"steps.*2\^32"):
        run(trained, "sampled", grid, steps=2**31, path="fast")


def test_a_group_is_silent_only_if_all_its_rewards_are_equal():
    """An arm of probability 1 - 1e-7: nearly all groups are silent; their advantage is an exact zero, also at eps 0."""
    bandit = k_arm((0.7, 0.3), kind="fixed", initial_logits=(8.0, -8.0), reference_logits=(8.0, -8.0))
    for trained in (
        learner("grpo", bandit, group_size=6),
        learner("grpo", bandit, group_size=6, optimizer=Optimizer("adamw")),
        learner("median", bandit, group_size=6),
    ):
        runs = run(trained, "sampled", cells(0.5, 0.0, 1, 0.0), steps=10, seeds=512, path="fast")
        assert np.all(runs.summary.tail_silent > 0.99)
        assert np.all(runs.reward_variance[0] < 1e-10)


def test_diverged_lanes_are_not_finite_and_do_not_look_healthy():
    trained = learner("grpo", k_arm((1.0, 0.5, 0.0)), group_size=4)
    grid = cells([1e30, 0.1], 0.9, 1, [1e30, 1.0])
    runs = run(trained, "sampled", grid, steps=50, seeds=16, path="fast")
    assert not runs.summary.finite[0].any()
    assert np.isnan(runs.reward_mean[0, -1])
    assert runs.summary.finite[1].all()

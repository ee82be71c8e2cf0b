"""The standard errors that a measured response states."""

import numpy as np
import pytest
from settings import learner

from bandit_lab.bandits import two_arm
from bandit_lab.grpo import Hyper, Optimizer
from experiments.shared.measure.response import mean_response

CALLS = 40


@pytest.mark.usefixtures("compiled_quickly")
def test_standard_errors_are_the_scatter_between_seeds():
    """RMSprop, 40 calls of 512 seeds: scatter of the response after one period and of the second moment over the
    stated errors within 5 standard errors of the scatter of 40, 5/sqrt(78) (false alarm 1e-6 each)."""
    trained = learner("dr_grpo", two_arm(), optimizer=Optimizer("rmsprop"), group_size=8)
    options = {"burn_in": 3, "periods": 1, "seeds": 512}
    step = np.array([0.1, -0.1])
    estimates = [
        mean_response(trained, Hyper(0.05, 0.0, 1, 1.0), np.zeros(2), step, **options, seed=s) for s in range(CALLS)
    ]
    allowed = 5 / np.sqrt(2 * (CALLS - 1))
    for value, error in (("value", "error"), ("second_moment", "second_moment_error")):
        values, errors = (np.array([getattr(one, name)[-1] for one in estimates]) for name in (value, error))
        assert values.std(ddof=1) / errors.mean() == pytest.approx(1, abs=allowed)

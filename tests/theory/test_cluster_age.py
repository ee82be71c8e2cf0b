"""The mean age of an asynchronous trainer: closed form against the events of its engines, queue and trainer."""

from dataclasses import asdict

import numpy as np
import pytest

from experiments.shared.cluster import Cluster, ages_of
from experiments.shared.theory.cluster_age import cluster_age

LAYOUTS = {
    "engines wait for nobody": {},
    "long tail": {"spread": 1.2},
    "more answers at once": {"concurrency": 64, "train_seconds": 10.0},
    "few large groups": {"group_size": 16, "batch": 16},
    "single answers": {"group_size": 1, "batch": 256},
    "pauses": {"sync_seconds": 5.0},
    "drained": {"weights": "drained", "batch": 128, "train_seconds": 60.0},
    "full queue": {"train_seconds": 60.0, "queue": 32},
    "bound": {"max_age": 8, "train_seconds": 40.0},
    "bound that throws away": {"max_age": 2, "train_seconds": 40.0},
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_mean_age_is_that_of_the_events(name):
    """150 updates, seed 1: sampled means are known to some 2 %. Planted: lengths without a spread."""
    layout = Cluster(**LAYOUTS[name])
    simulated, predicted = ages_of(layout, 150, 30, seed=1), cluster_age(**asdict(layout))
    assert predicted.starts == pytest.approx(simulated.mean_age, rel=0.08)
    assert predicted.tokens == pytest.approx(simulated.mean_token_age, rel=0.08)
    assert predicted.seconds_per_update == pytest.approx(simulated.seconds_per_update, rel=0.06)


def test_equal_answers_have_the_age_that_one_counts():
    """Eight answers of 30 s at a time, eight to an update of 10 s: each batch begins before the update of the last."""
    layout = Cluster(engines=1, concurrency=8, group_size=1, batch=8, spread=0.0, train_seconds=10.0)
    simulated = ages_of(layout, 20, 2)
    np.testing.assert_array_equal(simulated.starts, [0.0, 1.0])
    assert simulated.mean_token_age == pytest.approx(1 / 3)  # of 30 s the first 10 by the policy before
    assert simulated.seconds_per_update == pytest.approx(30.0)
    assert simulated.busy == pytest.approx(1 / 3)
    closed = cluster_age(**asdict(layout))
    assert closed.seconds_per_update == pytest.approx(30.0)
    # not a stationary mix of phases, which the formula takes: it says 4/3, eight running and a third of eight waiting
    assert closed.starts == pytest.approx(4 / 3, rel=1e-3)

"""Sweeps on a schedule and of a bandit with a clock: runs are those of `simulate`, thresholds those of `predict`."""

import numpy as np
import pytest
import xarray

import bandit_lab as bl
from bandit_lab.app.settings.config import SweepSettings
from bandit_lab.lab.sweep.plan import prepare
from bandit_lab.lab.sweep.sampled import learning_rates, plan_sampled

pytestmark = pytest.mark.usefixtures("compiled_quickly")

WARM = {"schedule": "warmup_cosine_decay", "init_value": 0.0, "peak_value": 0.6, "warmup_steps": 8}
LEARNER = {"momentum": 0.5, "group_size": 8}
SETTING = {**LEARNER, "seeds": 64, "steps": 40}
INTERVALS = {"refresh_interval": [1, 4]}


def plan(**settings):
    """The checked plan of a sweep; what is given counts as given."""
    return prepare(SweepSettings(**{**SETTING, "sweep": INTERVALS, **settings}), frozenset({*SETTING, *settings}))


def swept(folder, **settings):
    """(document, everything in its run folder)."""
    settings = {**SETTING, "sweep": INTERVALS, "pictures": False, **settings}
    result = bl.sweep(run_dir=str(folder), **settings)
    return result, xarray.open_zarr(folder / "results.zarr").load()


@pytest.mark.parametrize("path", ["fast", pytest.param("reference", marks=pytest.mark.slow)])
def test_runs_are_those_of_simulate_and_thresholds_those_of_predict(tmp_path, path):
    """Planted: the same without a schedule."""
    result, data = swept(tmp_path, learning_rate=WARM, path=path)
    at = {"refresh_interval": 4, "path": path, **SETTING}
    one = bl.simulate(learning_rate=WARM, **at)
    curve = data.reward_mean.isel(kl_weight=0).sel(sampled_momentum=0.5, sampled_refresh_interval=4, multiple=1)
    np.testing.assert_allclose(curve, one.reward_mean, rtol=1e-6)
    assert np.abs(bl.simulate(learning_rate=0.6, **at).reward_mean - one.reward_mean).max() > 1e-3
    for dynamics, drift in (("mean_field", "G = infinity"), ("finite_group", "G = 8")):
        (row,) = (r for r in result.threshold if (r["drift"], r["refresh_interval"]) == (drift, 4))
        asked = {"dynamics": dynamics, "refresh_interval": 4, "steps": SETTING["steps"], **LEARNER}
        near = bl.predict(learning_rate=WARM, **asked).margin
        assert row["exact"] == pytest.approx(near.smallest * 0.6, rel=1e-9)
    np.testing.assert_allclose(data.learning_rate_factor[8], 1.0)
    assert data.attrs["no_outcome"].startswith("learning_rate on a schedule")


def test_peaks_are_those_of_the_schedule_or_of_the_grid():
    """Where `sampled.multiple` is given, multiples of the threshold as ever; runs are as long as the schedule."""
    one, grid = plan(learning_rate=WARM), plan(learning_rate=WARM, sweep={**INTERVALS, "learning_rate": [0.2, 0.8]})
    np.testing.assert_allclose(one.peaks, [0.6])
    np.testing.assert_allclose(learning_rates(grid, np.zeros(2), grid.peaks), [[0.2, 0.8]] * 2)
    np.testing.assert_allclose(grid.multiples, [0.25, 1.0])
    np.testing.assert_allclose(plan(learning_rate=0.6).peaks, [0.6])
    multiples = SweepSettings(**SETTING, sweep=INTERVALS, learning_rate=0.6)
    given = frozenset({*SETTING, "learning_rate", "sampled.multiple"})
    assert (plan().peaks, prepare(multiples, given).peaks) == (None, None)
    assert set(one.sampled_steps) == {40}
    np.testing.assert_allclose(one.trained.schedule.learning_rate.max(), 1.0)
    assert one.learner.schedule is None  # what is measured of the mean update stands still


def test_chunks_of_another_schedule_are_others():
    """Their keys differ, so that a sweep that goes on takes none of them; without a schedule nothing is added."""

    def identity(**settings):
        planned = plan(**settings)
        rates = np.tile(planned.peaks, (2, 1)) if planned.peaks is not None else np.full((2, 11), 0.6)
        return plan_sampled(planned, {}, rates).chunks[0].identity()

    one, other = identity(learning_rate=WARM), identity(learning_rate=WARM | {"warmup_steps": 9})
    assert one["schedule"] != other["schedule"]
    assert {key for key in one if one[key] != other[key]} == {"schedule"}
    assert "schedule" not in identity()

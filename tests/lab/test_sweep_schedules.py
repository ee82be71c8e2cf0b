"""Sweeps on a schedule and of a bandit with a clock: runs are those of `simulate`, thresholds those of `predict`."""

import numpy as np
import pytest
import xarray

import bandit_lab as bl
from bandit_lab.app.settings.config import SweepSettings
from bandit_lab.lab.sweep.exact import along_run, find_equilibria, predict_rows, rows
from bandit_lab.lab.sweep.plan import prepare
from bandit_lab.lab.sweep.sampled import learning_rates, plan_sampled

pytestmark = pytest.mark.usefixtures("compiled_quickly")

WARM = {"schedule": "warmup_cosine_decay", "init_value": 0.0, "peak_value": 0.6, "warmup_steps": 8}
UP = {"schedule": "linear", "init_value": 0.35, "end_value": 1.0}
LEARNER = {"momentum": 0.5, "group_size": 8}
SETTING = {**LEARNER, "seeds": 64, "steps": 40}
INTERVALS = {"refresh_interval": [1, 4]}


def plan(**settings):
    """The checked plan of a sweep; what is given counts as given."""
    return prepare(SweepSettings(**{**SETTING, "sweep": INTERVALS, **settings}), frozenset({*SETTING, *settings}))


def swept(folder, **settings):
    """(document, everything in its run folder)."""
    settings = {**SETTING, "sweep": INTERVALS, "pictures": False, **settings}
    found = bl.sweep(run_dir=str(folder), **settings)
    return found, xarray.open_zarr(folder / "results.zarr").load()


@pytest.mark.parametrize("path", ["fast", pytest.param("reference", marks=pytest.mark.slow)])
def test_runs_are_those_of_simulate_and_thresholds_those_of_predict(tmp_path, path):
    """Both settings on a schedule. Planted: the same without a schedule, and without that of the KL weight."""
    found, data = swept(tmp_path, learning_rate=WARM, kl_weight=UP, path=path)
    at = {"refresh_interval": 4, "path": path, **SETTING}
    one = bl.simulate(learning_rate=WARM, kl_weight=UP, **at)
    curve = data.reward_mean.isel(kl_weight=0).sel(sampled_momentum=0.5, sampled_refresh_interval=4, multiple=1)
    np.testing.assert_allclose(curve, one.reward_mean, rtol=1e-6)
    for fewer in ({"learning_rate": 0.6, "kl_weight": 1.0}, {"learning_rate": WARM, "kl_weight": 1.0}):
        assert np.abs(bl.simulate(**fewer, **at).reward_mean - one.reward_mean).max() > 1e-3
    for dynamics, drift in (("mean_field", "G = infinity"), ("finite_group", "G = 8")):
        (row,) = (r for r in found.threshold if (r.drift, r.refresh_interval) == (drift, 4))
        asked = {"dynamics": dynamics, "refresh_interval": 4, "steps": SETTING["steps"], **LEARNER}
        near = bl.predict(learning_rate=WARM, kl_weight=UP, **asked).margin
        assert row.exact == pytest.approx(near.smallest * 0.6, rel=1e-9)
        assert row.measured_learning_rate is None
        assert "on a schedule" in row.measured_learning_rate_reason
    np.testing.assert_allclose(data.learning_rate_factor[8], 1.0)
    np.testing.assert_allclose(data.kl_weight_factor, (0.35 + 0.65 * np.arange(40) / 40) / data.kl_weight.item())
    assert found.schedule.learning_rate["schedule"] == "warmup_cosine_decay"
    assert data.attrs["no_outcome"].startswith("learning_rate and kl_weight on a schedule")


@pytest.mark.slow
def test_a_sweep_of_a_bandit_with_a_clock(tmp_path):
    """Runs change with it, and the threshold is the smallest along the run: after the switch. Planted: before it."""
    bandit = {"name": "switched", "later": [0.3, 0.6], "step": 20}
    found, data = swept(tmp_path, bandit=bandit, sampled={"multiple": [0.1, 0.2]})
    for interval in (1, 4):
        (row,) = (r for r in found.threshold if (r.drift, r.refresh_interval) == ("G = 8", interval))
        still = [
            bl.predict(bandit={"name": "two_arm", "rewards": list(r)}, refresh_interval=interval, **LEARNER)
            for r in ((0.9, 0.1), (0.3, 0.6))
        ]
        before, after = (one.thresholds.learning_rate.exact for one in still)
        assert row.exact == pytest.approx(after, rel=1e-9) != pytest.approx(before, rel=0.1)
    reward = data.reward_mean.isel(kl_weight=0).sel(sampled_momentum=0.5, sampled_refresh_interval=1, multiple=0.2)
    assert reward[19] > reward[0] > reward[20]
    assert reward[40] > reward[20]


def test_peaks_are_those_of_the_schedule_or_of_the_grid():
    """Where `sampled.multiple` is given, multiples of the threshold as ever; runs are as long as the schedule."""
    one, grid = plan(learning_rate=WARM), plan(learning_rate=WARM, sweep={**INTERVALS, "learning_rate": [0.2, 0.8]})
    np.testing.assert_allclose(one.peaks, [0.6])
    np.testing.assert_allclose(learning_rates(grid, None, np.zeros(2), grid.peaks), [[0.2, 0.8]] * 2)
    np.testing.assert_allclose(grid.multiples, [0.25, 1.0])
    np.testing.assert_allclose(plan(learning_rate=0.6).peaks, [0.6])
    multiples = SweepSettings(**SETTING, sweep=INTERVALS, learning_rate=0.6)
    given = frozenset({*SETTING, "learning_rate", "sampled.multiple"})
    assert (plan().peaks, prepare(multiples, given).peaks) == (None, None)
    assert one.sampled_steps(0.5, 1000) == 40
    np.testing.assert_allclose(one.trained.schedule.learning_rate.max(), 1.0)
    assert one.learner.schedule is None  # what is measured of the mean update stands still
    assert (one.moving, plan(kl_weight=UP).moving is None) == (None, False)


def test_a_schedule_of_the_rate_alone_leaves_the_thresholds(tmp_path):
    """No step has another threshold than the peak, so that rows are predicted and measured as of a number."""
    assert along_run(plan(learning_rate=WARM), "mean_field") is None
    cells = rows(np.array([0.5]), np.array([1.0]), np.array([1, 4]))
    moving = along_run(plan(kl_weight={"schedule": "constant", "value": 1.0}), "mean_field")
    held = plan()
    equilibria = find_equilibria(held, "mean_field")
    still, along = predict_rows(equilibria, cells), predict_rows(equilibria, cells, along=moving)
    for one, other in zip(still.exact, along.exact, strict=True):
        assert other.value == pytest.approx(one.value, rel=1e-9)
    assert along.law[0].value is None


def test_chunks_of_another_schedule_are_others():
    """Their keys differ, so that a sweep that goes on takes none of them; without a schedule nothing is added."""

    def identity(**settings):
        made = plan(**settings)
        cells = rows(made.sampled_momentum, made.kl_weight, made.sampled_interval)
        rates = np.tile(made.peaks, (2, 1)) if made.peaks is not None else np.full((2, 11), 0.6)
        return plan_sampled(made, None, cells, rates).chunks[0].identity()

    one, other = identity(learning_rate=WARM), identity(learning_rate=WARM | {"warmup_steps": 9})
    assert one["schedule"] != other["schedule"]
    assert {key for key in one if one[key] != other[key]} == {"schedule"}
    assert "schedule" not in identity()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kl_weight": UP, "boundary": "refresh_interval"}, r"boundary: .* learning_rate \(kl_weight on a schedule"),
        ({"bandit": {"name": "switched"}, "boundary": "refresh_interval"}, r"boundary: .* \(a bandit with a clock"),
        ({"learning_rate": 0.1, "sweep": {"learning_rate": [0.1]}}, "learning_rate: expected one of learning_rate and"),
        ({"learning_rate": {"schedule": "lin"}}, "learning_rate.schedule: expected one of"),
    ],
)  # fmt: skip
def test_what_no_sweep_takes(settings, said):
    with pytest.raises(ValueError, match=said):
        plan(**settings)

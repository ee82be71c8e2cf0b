"""`sweep` end to end on small grids: what it measures, what it writes, that it repeats itself."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import xarray
from settings import cells, learner

import bandit_lab as bl
from bandit_lab import measure
from bandit_lab.app.cli import main
from bandit_lab.app.folder.store import CompileClock
from bandit_lab.app.result import Table
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import Estimator
from bandit_lab.lab.predict.fixed_point import linearise
from bandit_lab.lab.sweep.jobs import _stable_again
from bandit_lab.measure.outcome import Outcome

SMALL = ["sweep.refresh_interval=[1,4]", "sweep.learning_rate.num=16", "momentum=0.5", "quiet=true"]
SAMPLED = [*SMALL, "group_size=8", "seeds=40", "steps=200", "sampled.multiple=[0.003,0.5,1.5]"]
TOLERANCE = 1e-3


def sweep(folder: Path, *overrides: str) -> dict:
    assert main(["sweep", f"run_dir={folder}", *overrides]) == 0
    return json.loads((folder / "summary.json").read_text(), parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep") / "run"
    return folder, sweep(folder, *SAMPLED)


def test_folder_holds_what_is_promised(run):
    folder, summary = run
    names = {path.name for path in folder.iterdir()}
    pictures = {"phase_diagram.png", "trajectories.png"}
    assert names == {"config.yaml", "summary.json", "manifest.json", "results.zarr"} | pictures
    assert all((folder / picture).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for picture in pictures)
    assert set(summary) >= {"axes", "outcomes", "threshold", "transition", "stiffness", "throughput"}
    assert set(summary["outcomes"]) == {outcome.label for outcome in Outcome}
    assert summary["throughput"]["seed_steps"] == 2 * 3 * 40 * 200
    assert {row["drift"] for row in summary["threshold"]} == {"G = infinity", "G = 8"}
    data = xarray.open_zarr(folder / "results.zarr", chunks=None)
    assert data["outcome"].dims == ("momentum", "kl_weight", "refresh_interval", "learning_rate")
    assert data["sampled_outcome"].dims[-2:] == ("multiple", "seed")
    for name, variable in data.variables.items():
        assert not np.issubdtype(variable.dtype, np.number) or "units" in variable.attrs, name
    codes = dict(zip(data["outcome"].attrs["flag_values"], data["outcome"].attrs["flag_meanings"].split(), strict=True))
    assert codes == {int(outcome): outcome.label for outcome in Outcome}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {"versions", "git_commit", "device", "precision", "seed", "config_hash", "block_width"} <= set(manifest)
    seconds = [manifest[f"{part}_seconds"] for part in ("wall", "compile", "run")]
    assert min(seconds) > 0
    assert seconds[2] == pytest.approx(seconds[0] - seconds[1], abs=2e-3)


def test_programs_compiled_at_once_do_not_make_the_run_negative():
    clock = CompileClock()
    clock.seconds = 3.0
    assert clock.split(2.0) == {"wall": 2.0, "compile": 2.0, "run": 0.0}
    assert clock.split(5.0) == {"wall": 5.0, "compile": 3.0, "run": 2.0}


def test_measured_agrees_with_exact(run):
    """Both drifts, both boundaries: two witnesses that share no code."""
    rows = run[1]["threshold"] + run[1]["transition"]
    assert len(rows) == 8
    for row in rows:
        assert abs(row["relative_error"]) <= TOLERANCE
        assert row["relative_error"] == pytest.approx(row["measured_learning_rate"] / row["exact"] - 1, abs=1e-12)


def test_three_routes_to_the_stiffness_agree(run):
    for row in run[1]["stiffness"]["rows"]:
        np.testing.assert_allclose(row["hessian"], row["closed_form"], rtol=1e-10)
        np.testing.assert_allclose(row["relaxation"], row["closed_form"], rtol=1e-4)


def test_sampled_runs_stay_far_below_and_are_lost_beyond_the_threshold(run):
    for row in run[1]["sampled"]["rows"]:
        assert row["lost_share"][0] <= 0.1
        assert row["lost_share"][-1] >= 0.9


def test_outcomes_follow_the_exact_boundaries(run):
    """Away from a boundary by more than the tolerance every cell has the outcome that the exact theory gives it."""
    data = xarray.open_zarr(run[0] / "results.zarr").isel(momentum=0, kl_weight=0).load()
    rate = data["learning_rate"].values
    for i in range(data.sizes["refresh_interval"]):
        row = data.isel(refresh_interval=i)
        onset, threshold = float(row["onset_exact"]), float(row["threshold_exact"])
        clear = np.all(np.abs(rate[:, None] / [onset, threshold] - 1) > TOLERANCE, axis=1)
        expected = np.where(rate > threshold, Outcome.UNSTABLE, np.where(rate > onset, Outcome.OSCILLATING, 1))
        np.testing.assert_array_equal(row["outcome"].values[clear], expected[clear])


def test_same_settings_same_bytes_and_nothing_compiled_anew_for_the_samples(run, tmp_path, monkeypatch):
    clocks = []
    monkeypatch.setattr(CompileClock, "__exit__", lambda self, *e: clocks.append(self.programs))
    sweep(tmp_path / "again", *SAMPLED, "pictures=false")
    assert clocks[0] == 0  # the clock of the sampled runs closes first
    first, second = (xarray.open_zarr(folder / "results.zarr").load() for folder in (run[0], tmp_path / "again"))
    assert set(first) == set(second)
    for name in first.variables:
        assert first[name].values.tobytes() == second[name].values.tobytes(), name
    hashes = [json.loads((f / "manifest.json").read_text())["config_hash"] for f in (run[0], tmp_path / "again")]
    assert hashes[0] == hashes[1]


def test_refresh_interval_can_be_the_bracketed_one(tmp_path):
    arguments = ["dynamics=mean_field", "boundary=refresh_interval", "momentum=0", "sweep.learning_rate=[1.5,2.5,5.0]"]
    summary = sweep(tmp_path / "run", *arguments, "sweep.refresh_interval={start: 1, stop: 12, num: 12, scale: linear}")
    for row in summary["threshold"]:
        assert row["measured_refresh_interval"] == row["exact"]
        assert row["exact"] == np.floor(2 * row["leading_order"]) + 1  # kappa N < 2 where the law says kappa N < 1
    for row in summary["transition"]:
        assert row["exact"] == np.floor(row["leading_order"]) + 1  # a block's multiplier 1 - kappa N is negative
    assert summary["sampled"] is None


def test_a_value_outside_the_grid_is_null_with_a_reason(tmp_path):
    arguments = ["dynamics=mean_field", "momentum=0", "sweep.refresh_interval=[4]", "sweep.learning_rate=[0.01,0.02]"]
    vertex, row = sweep(tmp_path / "run", *arguments, "sweep.kl_weight=[0,1]")["threshold"]
    assert "vertex" in vertex["measured_learning_rate_reason"]
    assert row["measured_learning_rate"] is None
    assert "not bracketed" in row["measured_learning_rate_reason"]
    assert row["exact"] > 0.02


def test_a_grid_beyond_the_threshold_shows_no_onset(tmp_path):
    """Learning rates that are all unstable: oscillation set in below them, and growing runs have other poles."""
    arguments = ["dynamics=mean_field", "momentum=0.9", "sweep.refresh_interval=[40,64]"]
    grid = "sweep.learning_rate={start: 0.1, stop: 0.12, num: 4}"
    summary = sweep(tmp_path / "run", *arguments, grid, "pictures=false")
    for row, threshold in zip(summary["transition"], summary["threshold"], strict=True):
        assert row["exact"] < threshold["exact"] < 0.1
        assert row["measured_learning_rate"] is None
        assert "not bracketed" in row["measured_learning_rate_reason"]


def test_a_learning_rate_that_is_given_is_that_of_sampled_runs_too(tmp_path):
    """Far above and far below the threshold all and none are lost: planted, multiples of the threshold are ignored."""
    lost = {}
    for rate in (1e-3, 30.0):
        one = ["sweep.refresh_interval=[4,8]", "momentum=0.5", "group_size=64", "seeds=32", "steps=200", "quiet=true"]
        summary = sweep(tmp_path / f"{rate:g}", *one, f"learning_rate={rate}")
        assert summary["axes"]["learning_rate"] == [rate]
        assert [row["learning_rate"] for row in summary["sampled"]["rows"]] == [[rate]] * 2
        lost[rate] = [row["lost_share"] for row in summary["sampled"]["rows"]]
    assert lost == {1e-3: [[0.0]] * 2, 30.0: [[1.0]] * 2}


@dataclass(frozen=True)
class Root(Estimator):
    """The root of the importance ratio, between `frozen` and `ratio`: fresh and stale stiffness are both large."""

    at_snapshot = False

    def weight(self, ratio, advantage):
        return ratio**0.5


def test_the_table_has_every_row_that_was_asked_for():
    """Nothing is measured of a policy that runs to a vertex. Planted: a table that ends at 400 rows."""
    vertex = {"kl_weight": 0.0, "momentum": 0.0, "learning_rate": 0.1, "dynamics": "mean_field"}
    swept = bl.sweep(sweep={"refresh_interval": range(1, 402)}, **vertex)
    (table,) = (one for one in swept.shown if isinstance(one, Table))
    assert [row["N"] for row in table.rows] == [*range(1, 402)]


def test_windows_beyond_the_threshold_are_named():
    """By the loop the ends of every window are where it is stable again and where no more, and in its middle, as on the
    whole grid, growth as measured has the sign; planted, a window dropped and ends swapped fail."""
    rule, bandit = Root(), k_arm((0.9, 0.1, 0.1))
    grid = {"refresh_interval": [4, 8, 16], "learning_rate": {"start": 0.1, "stop": 34.0, "num": 48}}
    swept = bl.sweep(estimator=rule, bandit=bandit, dynamics="mean_field", momentum=0.9, sweep=grid)
    windows = {row["refresh_interval"]: row["stable_again"] for row in swept.threshold}
    assert [len(windows[n]) for n in (4, 8, 16)] == [0, 1, 2]  # a third at 16, 21.1 to 21.7, lies within a step
    one = learner(bandit=bandit, estimator=rule)
    point = measure.find_fixed_point(one, "mean_field", 1.0)
    linear, direction = linearise(one, "mean_field", 1.0, point), measure.generic_direction(point.basis)
    for n, exact, growth in zip((4, 8, 16), swept.threshold, swept.data.growth_rate.squeeze().values, strict=True):
        rates, loop = swept.data.learning_rate.values, linear.loop(0.9, n)

        def radius(rate: float, loop=loop) -> float:
            return float(abs(loop.multipliers(rate)[0]))

        for low, high in windows[n]:
            assert exact["exact"] < low < high
            assert _stable_again(loop, exact["exact"], rates[rates < high])[-1] == [low, rates[rates < high][-1]]
            assert radius(low * (1 - 1e-6)) > 1 > radius(low * (1 + 1e-6))
            assert radius(high * (1 - 1e-6)) < 1 < radius(high * (1 + 1e-6))
            middle = cells(np.sqrt(low * high), 0.9, n)
            assert measure.growth_rate(one, "mean_field", middle, point.theta[None], direction)[0] < 0
        inside = np.any([(rates > low) & (rates < high) for low, high in windows[n]] or [[False]], axis=0)
        beyond = rates > exact["exact"]
        np.testing.assert_array_equal(growth[beyond] < 0, np.broadcast_to(inside, rates.shape)[beyond])
        stored = swept.data.stable_again.sel(refresh_interval=n).values.ravel()
        np.testing.assert_array_equal(stored[~np.isnan(stored)], np.ravel(windows[n]))
    assert "N = 8: stable again from 7.99 to 16.3 (learning rate), beyond the threshold" in swept.shown


def test_no_window_is_named_where_stability_does_not_come_back(run):
    folder, summary = run
    assert all(row["stable_again"] == [] for row in summary["threshold"])
    assert "stable_again" not in xarray.open_zarr(folder / "results.zarr", chunks=None)

"""Axes, run folders and strict JSON."""

import math

import numpy as np
import pytest

from bandit_lab.app.folder import store
from bandit_lab.app.settings.config import SweepSettings
from bandit_lab.lab.sweep import command, plan


def axis(spec, name="learning_rate", **default):
    return plan.axis(f"sweep.{name}", name, spec, default)


def test_list_is_sorted_without_duplicates():
    np.testing.assert_array_equal(axis([0.3, 0.1, 0.3]), [0.1, 0.3])


def test_log_range_has_equal_ratios():
    values = axis({"start": 0.1, "stop": 10, "num": 5, "scale": "log"})
    np.testing.assert_allclose(values[1:] / values[:-1], np.sqrt(10.0), rtol=1e-12)


def test_what_a_range_leaves_out_comes_from_the_default():
    np.testing.assert_allclose(axis({"start": 1}, stop=3, num=3, scale="linear"), [1, 2, 3])


def test_refresh_intervals_are_whole():
    values = axis({"start": 1, "stop": 64, "num": 13, "scale": "log"}, "refresh_interval")
    assert values.dtype == np.int64
    assert values[0] == 1
    assert values[-1] == 64
    assert len(np.unique(values)) == len(values)


def test_coarse_choice_is_part_of_the_grid():
    chosen = plan._log_spaced_choice(np.arange(1, 65), 4)
    np.testing.assert_array_equal(chosen, [1, 4, 16, 64])


def test_range_of_learning_rates_holds_every_threshold():
    low, high = command._learning_rate_range([0.013, 27.1, math.nan, math.inf])
    assert low < 0.013
    assert high > 27.1


def test_manifest_makes_a_run_finished(tmp_path):
    path = tmp_path / "run"
    folder = store.RunFolder(path)
    folder.open("run_dir: null\noverwrite: false\n")
    store.check_folder(path, overwrite=False)  # unfinished: may be run again
    folder.write_summary({"x": 1})
    folder.write_manifest({"command": "sweep", "bandit_lab": "1"})
    with pytest.raises(ValueError, match="run_dir: expected a new folder, or overwrite=true"):
        store.check_folder(path, overwrite=False)
    store.check_folder(path, overwrite=True)
    folder.open("seed: 1\n")
    assert {p.name for p in path.iterdir()} == {"config.yaml"}


def test_partial_files_are_never_seen_under_their_name(tmp_path, monkeypatch):
    folder = store.RunFolder(tmp_path / "run")
    folder.open("seed: 0\n")
    monkeypatch.setattr(store, "strict_json", lambda value: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        folder.write_manifest({"y": 2})
    assert not (tmp_path / "run" / "manifest.json").exists()


def small_settings(**changes) -> SweepSettings:
    base = SweepSettings(
        bandit={"name": "two_arm"},
        advantage={"name": "grpo"},
        estimator={"name": "frozen"},
        staleness={"name": "refresh"},
        optimizer={"name": "sgd"},
        memory_limit=1e9,
    )
    for key, value in changes.items():
        setattr(base, key, value)
    return base


def test_memory_estimate_grows_with_what_is_asked_for():
    def need(**changes):
        return plan._bytes_needed(plan.prepare(small_settings(**changes), frozenset()))

    assert need(sweep={"learning_rate": {"num": 100_000}}) > 10 * need(sweep={"learning_rate": {"num": 1000}})
    assert need(steps=10**8) > 10 * need(steps=10**6)
    assert need(seeds=10**9) < 2 * need(seeds=10**6)  # a chunk's worth

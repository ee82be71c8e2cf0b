"""Scores of forecasts on real runs: the split is the stated one, intervals are exact, misses are counted."""

import csv
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from bandit_lab.runs.read import Curve, RewardScale, Series
from experiments.grading.backtest import BASELINES
from experiments.grading.public_forecasts import HALVES, STORED, labels, score_forecasts, share


def test_the_halves_are_told_by_the_hash_of_the_name():
    table = labels()
    for half, rest in zip(HALVES, (0, 1), strict=True):
        for name, label in table[half].items():
            assert int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2 == rest
            assert label in (*table["accepted"], "healthy", "left out")
    assert len(table["development"]) + len(table["scoring"]) == 66


@pytest.mark.skipif("BANDIT_LAB_LOGS" not in os.environ, reason="BANDIT_LAB_LOGS names no folder of real logs")
def test_every_run_of_the_index_has_a_label():
    rows = csv.DictReader((Path(os.environ["BANDIT_LAB_LOGS"]) / "index.csv").read_text().splitlines())
    assert {one["run_id"] for one in rows} == {name for half in HALVES for name in labels()[half]}


def test_intervals_are_those_of_clopper_and_pearson():
    """None of ten: 1 - 0.025^(1/10), by hand."""
    assert share(0, 10)["interval_95"] == [0.0, round(1 - 0.025**0.1, 4)]
    assert share(10, 10)["interval_95"] == [round(0.025**0.1, 4), 1.0]
    assert share(0, 0)["share"] is None


def test_forecasts_are_counted_by_half_and_a_run_that_falls_at_its_end_is_missed():
    """Two saturated rises in one half are forecast and covered; with the end of one thrown down, one is not."""
    step = np.arange(80.0)

    def run(seed, end=0.0):
        noise = 0.01 * np.random.default_rng(seed).normal(size=80)
        reward = 0.8 * (1 - np.exp(-step / 6)) + noise + np.where(step >= 72, end, 0.0)
        return Curve("x", "", "csv", "unknown", Series(step, reward, "reward"), RewardScale.estimated(reward))

    names = [name for name, _ in zip(labels()["scoring"], range(2), strict=False)]
    well = score_forecasts({name: run(seed) for seed, name in enumerate(names)}, 60, [0.5])
    assert (well["scoring"]["forecasts"], well["scoring"]["refused"]) == (2, 0)
    assert (well["scoring"]["covered"]["found"], well["development"]["forecasts"]) == (2, 0)
    fallen = score_forecasts({names[0]: run(0), names[1]: run(1, -0.6)}, 60, [0.5])["scoring"]
    assert fallen["covered"]["found"] == 1
    assert fallen["mean_error_over_range"]["forecast"] > 0.2
    short = score_forecasts({names[0]: run(0)}, 81, [0.5])["scoring"]
    assert short["runs"] == 0


def test_what_is_stored_of_forecasts_has_both_halves_and_every_baseline():
    found = json.loads(STORED.read_text(encoding="utf-8"))
    for half in HALVES:
        assert set(found[half]["median_error_over_range"]) == {"forecast", *BASELINES}
        assert found[half]["covered"]["runs"] + found[half]["refused"] == found[half]["forecasts"]

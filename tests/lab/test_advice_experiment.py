"""The experiment on advice: absent logs are a reason, and its scores count what they say they count."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import xarray

from bandit_lab.lab.reproduce.experiment import Unavailable, discover, read_setting
from bandit_lab.runs.advise import StalenessLoop, from_curve


@pytest.fixture
def experiment():
    return discover()["advice"].load()


@pytest.fixture
def module(experiment):
    return sys.modules["bandit_lab_experiment_advice"]


def pairs(permitted):
    """Two collapses and three that worked on the scoring half, one of each on the other."""
    columns = {
        "change": [4.0, 2.0, 2.0, 0.5, 4.0, 4.0, 2.0],
        "collapsed": [1, 1, 0, 0, 0, 1, 0],
        "calibration": [0, 0, 0, 0, 0, 1, 1],
        "law": [5.0, 5.0, 5.0, 5.0, np.nan, 14.0, 14.0],
        "exact": [50.0, 50.0, 50.0, 50.0, np.nan, 60.0, 60.0],
        "well": [1, 1, 1, 1, 1, 1, 1],
        "permitted": permitted,
    }
    measured = xarray.Dataset({name: ("pair", np.array(column, float)) for name, column in columns.items()})
    return SimpleNamespace(measured=measured)


def test_without_logs_it_is_skipped_with_the_reason(experiment, monkeypatch, tmp_path):
    for folder in ("", str(tmp_path)):
        monkeypatch.setenv("BANDIT_LAB_LOGS", folder)
        with pytest.raises(Unavailable, match="BANDIT_LAB_LOGS"):
            experiment.check_available(read_setting("advice", "draft"))


def test_scores_by_hand(module):
    """Planted: an advice that permits everything has both collapses."""
    careful, bold = pairs([0, 0, 1, 1, 0, 0, 1]), pairs([1] * 7)
    assert module.score(careful, "advice") == (0, 2, 1, 3)
    assert module.score(careful, "advice", upward=True) == (0, 2, 1, 2)
    assert module.score(careful, "advice", half=1.0) == (0, 1, 0, 1)
    assert module.score(bold, "advice") == (2, 2, 0, 3)
    assert module.score(careful, "keep") == (0, 2, 2, 3)
    assert module.score(careful, "halve") == (0, 2, 2, 3)
    assert module.score(careful, "law") == (2, 2, 1, 3)
    assert module.forbidden_share(careful, upward=False) == 0.5
    assert module.forbidden_share(pairs([0] * 7), upward=True) == 1
    assert module.exact_share(careful) == 1


def test_the_spread_is_that_of_one_half_alone(module):
    """14/4 on the calibration half; on the other 5/2."""
    assert module.needed(pairs([0] * 7), 1.0) == 3.5
    assert module.needed(pairs([0] * 7), 0.0) == 2.5


def test_the_spread_run_by_run_stands_beside_what_the_log_holds(module):
    """Of two collapses the larger counts; what fell, goes down or has no margin needs none; no metric is a dash."""
    labels = ["x, rate: x.a to x.b", "x, rate: x.a to x.c", "x, rate: x.b to x.c", "x, rate: x.c to x.b", "y: 4 to 8"]
    columns = {
        "change": [2.0, 4.0, 2.0, 0.5, 2.0],
        "collapsed": [1] * 5,
        "calibration": [1, 1, 1, 1, 0],
        "law": [6.0, 6.0, np.nan, 8.0, 5.0],
        "well": [1] * 5,
    }
    m = xarray.Dataset({name: ("pair", np.array(column, float)) for name, column in columns.items()})
    m = m.assign({name: ("run", [0.25, np.nan]) for name in module.METRICS})
    m = m.assign_coords(pair=labels, run=["x.a", "x.b"])
    assert module.needed_by_run(m, 1.0) == {"x, rate: x.a": 3.0}
    assert module.needed_by_run(m, 0.0) == {"y: 4": 2.5}
    rows = [row.split(" | ") for row in module.by_metric(SimpleNamespace(measured=m))[2:]]
    assert rows[0] == ["| calibration", "a", "3.00", "0.25", "0.25", "0.25", "0.25 |"]
    assert rows[1] == ["| scored", "y: 4", "2.50", "-", "-", "-", "- |"]


def test_a_metric_is_averaged_over_the_first_fifth(module):
    series = SimpleNamespace(step=np.arange(11.0), value=np.arange(11.0) ** 2)
    log = SimpleNamespace(curve=SimpleNamespace(series={"kl": series}))
    assert module.early(log, "kl") == 5 / 3
    assert np.isnan(module.early(log, "entropy"))
    assert np.isnan(module.early(SimpleNamespace(curve=None), "kl"))


def test_strictness_against_collapses_by_hand(module):
    """Of three changes of one run to the same setting two worked: no rule permits them and not the third."""
    labels = ["a: 1 to 2", "a: 1 to 8", "a: 1 to 8, again", "a: 1 to 8, third", "b: 1 to 2", "c: 1 to 2"]
    columns = {
        "change": [2.0, 8.0, 8.0, 8.0, 2.0, 2.0],
        "collapsed": [0, 0, 0, 1, 0, 0],
        "calibration": [0] * 6,
        "law": [12.0, 12.0, 12.0, 12.0, np.nan, 12.0],
        "well": [1, 1, 1, 1, 1, 0],
    }
    m = xarray.Dataset({name: ("pair", np.array(column, float)) for name, column in columns.items()}, {"pair": labels})
    assert module.in_hindsight(m).tolist() == [True, False, False, False, True, True]
    assert module.at_spread(m, 1.0).tolist() == [True, True, True, True, False, False]
    assert module.at_spread(m, 2.0).tolist() == [True, False, False, False, False, False]
    assert module.counts(m, module.in_hindsight(m), True, 0.0) == (0, 1, 2, 5)
    assert module.counts(m, module.at_spread(m, 1.0), True, 0.0) == (1, 1, 2, 5)


def test_what_a_permit_allows(module):
    loop = StalenessLoop("refresh", 2, 0.9, "ema")
    permit = from_curve(loop, loop.law / 31.5, 2.0)  # twice: 3.5 * 4.5 are taken off
    assert module.allows(permit, "learning_rate", 1e-5, 2e-5)
    assert not module.allows(permit, "learning_rate", 1e-5, 2.1e-5)
    assert module.allows(permit, "refresh_interval", 2, 4)
    assert not module.allows(permit, "refresh_interval", 2, 5)
    assert module.allows(permit, "group_size", 8, 4)
    assert not module.allows(permit, "group_size", 8, 2)


def test_the_scatter_leaves_out_whole_origins(module):
    """Two families of a far origin a factor 100 apart, one pair of another that is all alike."""
    readings = [("far", 0.0, 1.0), ("far", 0.0, 100.0), ("near", 1.0, 7.0), ("near", 1.0, 7.0)]
    origin, family, time = zip(*readings, strict=True)
    m = xarray.Dataset({"equal_family": ("reading", list(family)), "response_time": ("reading", list(time))})
    m = m.assign_coords(reading=list(origin))
    assert module.scatter(m, "far") == 1
    assert module.scatter(m, "near") > module.scatter(m) > 100
    rows = [row.split(" | ") for row in module.by_origin(SimpleNamespace(measured=m))[2:]]
    assert [row[:3] for row in rows] == [["| none", "4", "2"], ["| far", "2", "1"], ["| near", "2", "1"]]


def test_both_halves_hold_collapses_and_no_origin_is_in_both():
    setting = read_setting("advice", "paper")
    origins = {one["name"].partition(",")[0] for one in setting.families} | {one["name"] for one in setting.told}
    assert set(setting.calibration) < origins
    for family in setting.families:
        assert {name.partition(".")[0] for name in family["runs"]} == {family["name"].partition(",")[0]}

"""The conformance suite on diagnostics: those of the package pass, planted defects do not."""

import itertools
import json

import pytest

from bandit_lab.lab.check import run_check, subject_of
from bandit_lab.lab.check.diagnostics import _simulated
from bandit_lab.runs.diagnose import DIAGNOSTICS, FAILURES, Evidence, Finding

FOUND, ALONE = "planted failures are found", "healthy runs are left alone"
COUNT = itertools.count()
ANY, SAME = "any log is judged without an error", "the same log, the same finding"


def says(score, failure="defect"):
    return Finding(failure, score, (Evidence("one", (0.0, 1.0), 1.0, 1.0, "made up", score),))


def deaf(curve, settings, group_size=None):
    return says(0.0, "advantage_degeneracy")


def nervous(curve, settings, group_size=None):
    return says(2.0)


def needs_entropy(curve, settings, group_size=None):
    return says(float(curve.series["entropy"].value[0] < 0))


def short_sighted(curve, settings, group_size=None):
    return says(float(curve.reward[40] > 1e3))


def not_a_number(curve, settings, group_size=None):
    return says(float("nan"))


def says_nothing(curve, settings, group_size=None):
    return Finding("defect", None)


def another(curve, settings, group_size=None):
    return says(0.0, "another")


def moody(curve, settings, group_size=None):
    return says(0.1 * next(COUNT))


def writes(curve, settings, group_size=None):
    curve.reward[0] += 1.0
    return says(0.0)


def below(curve, settings, group_size=None, limit=-1.0):
    return says(2.0 if curve.reward.mean() < limit else 0.0, "too_low")


DEFECTS = [
    *((nervous, ALONE), (needs_entropy, ANY), (short_sighted, ANY), (not_a_number, ANY)),
    *((says_nothing, ALONE), (another, ALONE), (moody, SAME), (writes, SAME)),
]


@pytest.fixture
def registered(monkeypatch):
    def add(function, name="defect"):
        monkeypatch.setattr(DIAGNOSTICS, "_builders", {**DIAGNOSTICS._builders, name: function})

    return add


@pytest.mark.parametrize(("function", "name"), DEFECTS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_planted_defects_are_caught(function, name, registered):
    registered(function)
    result = run_check(name, subject_of("diagnostic", "defect"))
    assert result.status == "FAIL"
    _simulated.cache_clear() if function is writes else None


def test_a_deaf_diagnostic_and_one_that_misses_its_own_example_are_caught(registered):
    registered(deaf, "advantage_degeneracy")
    assert run_check(FOUND, subject_of("diagnostic", "advantage_degeneracy")).status == "FAIL"
    registered(below, "too_low")
    healthy = _simulated(0)[0][0]
    assert run_check(FOUND, subject_of("diagnostic", "too_low")).status == "not applicable"
    below.planted = lambda seed: healthy
    try:
        assert run_check(FOUND, subject_of("diagnostic", "too_low")).status == "FAIL"
        assert run_check(FOUND, subject_of("diagnostic", "too_low", {"limit": 2.0})).status == "pass"
    finally:
        del below.planted


@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_the_package_s_own_keep_the_rules(name):
    """Runs of seed 0: at least 60 % of those with the failure are found, at most 20 % of the healthy are called so."""
    results = [run_check(check, subject_of("diagnostic", name)) for check in (FOUND, ALONE, ANY, SAME)]
    planted = "pass" if name in FAILURES else "not applicable"  # what became of a run is not planted
    assert [result.status for result in results] == [planted, "pass", "pass", "pass"]


def test_options_of_a_diagnostic_are_settings_of_diagnose(tmp_path, monkeypatch, capsys, registered):
    from bandit_lab.app.cli import main

    monkeypatch.chdir(tmp_path)
    registered(below, "too_low")
    log = tmp_path / "log.csv"
    log.write_text("step,reward\n" + "".join(f"{i},{0.4 + 0.01 * (i % 3)}\n" for i in range(1, 41)))
    run = ["diagnose", str(log), "report=false", "quiet=true", "surrogates=19"]
    assert main([*run, "run_dir=a"]) == 0
    assert main([*run, "run_dir=b", "diagnostic.too_low.limit=0.9"]) == 0
    found = [json.loads((tmp_path / name / "summary.json").read_text())["logs"][0]["scores"] for name in ("a", "b")]
    assert [scores["too_low"] for scores in found] == [0.0, 2.0]
    assert main([*run, "diagnostic.too_low.limti=0.9"]) == 2
    assert "diagnostic.too_low.limti: expected one of limit" in capsys.readouterr().err
    assert main([*run, "diagnostic.no_such.limit=0.9"]) == 2
    assert "diagnostic: expected one of" in capsys.readouterr().err

"""Families of public runs in which one setting varies: which belong together, and what a rule is worth, by hand."""

import pytest

from experiments.grading import families

COLUMNS = (
    "run_id,repository,framework,model,task,optimizer_betas,kl_beta,clip_eps,std_normalised,G,learning_rate,K_ref,label"
)


def test_a_family_differs_in_one_setting_alone(tmp_path, monkeypatch):
    """Remarks in brackets are no difference; a second change is, in a column or in the name."""
    alike = "here,own,m,t,{betas},0,0.2,yes"
    rows = [
        ("a", alike.format(betas="0.9 (default)"), "8,1e-6,1"),
        ("b", alike.format(betas="0.9"), "8,1e-5,1"),
        ("c", alike.format(betas="0.9"), "8,1e-5,4"),
        ("d", alike.format(betas="0.5"), "8,3e-5,1"),
        ("no_baseline", alike.format(betas="0.9"), "8,4e-5,1"),
    ]
    text = "\n".join([COLUMNS, *(f"{name},{same},{values},healthy" for name, same, values in rows)])
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "first/index.csv").write_text(text + "\n")
    (tmp_path / "second/index.csv").write_text(COLUMNS + "\n")
    for variable, name in zip(families.FOLDERS, ("first", "second"), strict=True):
        monkeypatch.setenv(variable, str(tmp_path / name))
    assert families.families() == [
        ("here", "K_ref", {"b": 1.0, "c": 4.0}),
        ("here", "learning_rate", {"a": 1e-6, "b": 1e-5}),
    ]


def pair(repository, change, margin, outcome, permitted=False):
    first = (repository, "learning_rate", "a", "b", change, permitted)
    return families.Pair(*first, margin, True, "response time", outcome)


def test_the_divisor_is_that_which_the_others_ask_for():
    """A margin of 12 and a change by 3 that collapsed ask for 4; a repository's own collapses are not looked at."""
    every = [pair("here", 3, 12, "collapsed"), pair("there", 2, 20, "collapsed")]
    assert families.divisor_without(every, "there") == pytest.approx(4, rel=0.002)
    assert families.divisor_without(every, "here") == pytest.approx(10, rel=0.002)
    assert families.divisor_without([], "here") == families.SAFETY
    assert not families.by_divisor(every[0], 4.01)
    assert families.by_divisor(every[0], 3.9)


def test_what_counts_is_counted():
    """Two collapses, one permitted; three that worked, one below, one forbidden above; one that nobody knows."""
    every = [pair("x", 2, 9, "collapsed", True), pair("x", 3, 9, "collapsed"),
             pair("x", 0.5, 9, "worked", True), pair("x", 2, 8, "worked", True),
             pair("x", 4, 9, "worked"), pair("x", 5, 9, "neither")]  # fmt: skip
    allowed = {one: one.permitted for one in every}
    assert [*families.counts(every, allowed, False).values()] == [1, 2, 1, 3, 1]
    assert [*families.counts(every, allowed, True).values()] == [1, 2, 1, 2, 1]

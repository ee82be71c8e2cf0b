"""How sure a verdict is: counts of public runs that were told the same, and what decides between two causes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bandit_lab as bl
from bandit_lab.runs.diagnose import Diagnosis, Evidence, Finding, agreement
from bandit_lab.runs.diagnose.agreement import Agreement, causes, counted_alone, how_sure, sure, sure_line
from bandit_lab.runs.diagnose.evidence import CAUSES_FIRST, CONTROL, NO_REWARD

STORED = Path(__file__).parents[2] / "figures" / "clinic.json"


def told(**scores):
    """A diagnosis with these scores, those of 1 and more as failures."""
    findings = tuple(Finding(name, score, (Evidence("m", (0, 1), 1, 1, "", score),)) for name, score in scores.items())
    return Diagnosis("x", findings, severity={name: ("failure", "") for name, score in scores.items() if score >= 1})


def test_the_shipped_table_is_the_one_that_was_counted():
    counted = json.loads(STORED.read_text(encoding="utf-8"))["agreement"]
    assert {name: row._asdict() for name, row in agreement.table().items()} == counted
    for name, row in agreement.table().items():
        parts = row.same + row.other + (0 if name in ("healthy", "not_judged") else row.healthy)
        assert parts == row.runs
        assert row.repositories <= row.runs
        assert 0 <= row.low <= row.share <= row.high <= 1


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            Agreement(12, 6, 10, 1, 1, 0.8, 0.4, 0.97),
            "How sure: of 12 public runs with the finding stalled 10 had this failure",
        ),
        (Agreement(12, 6, 10, 1, 1, 0.8, 0.4, 0.97), ", 1 another and 1 none (by repository 40 to 97 %)."),
        (
            Agreement(9, 2, 9, 0, 0, 1, 0.2, 1),
            "cannot tell; of 9 public runs with the finding stalled 9 had this failure, 0 another and 0 none, all of 2",
        ),
        (None, "cannot tell; no public run of known outcome"),
    ],
)
def test_a_share_is_told_where_there_is_one(row, words, monkeypatch):
    monkeypatch.setattr(agreement, "table", lambda: {} if row is None else {"stalled": row})
    assert words in sure_line("stalled")


def test_two_causes_and_what_decides_between_them():
    found = told(reward_hacking=1.2, policy_concentration=1.5)
    assert causes(found) == ["reward_hacking", "policy_concentration"]
    assert (
        "draw twenty answers to one prompt: they are one and the same if it is policy concentration" in sure(found)[-1]
    )


def test_behind_one_cause_alone_stands_what_came_nearest():
    assert causes(told(stalled=1.5, advantage_degeneracy=0.8, policy_concentration=0.6)) == [
        "stalled",
        "advantage_degeneracy",
    ]
    assert causes(told(stalled=1.5, advantage_degeneracy=0.4)) == ["stalled"]
    assert causes(told(stalled=0.9)) == []


def test_behind_one_cause_alone_a_test_tells_it_from_the_next_most_probable():
    found = told(collapsed=1.5)
    first, second, *_ = agreement.probabilities(found)
    assert (first, second) == ("collapsed", "healthy")
    assert sure(found)[-1].endswith("the last one is worse if it is collapsed, and not if it is healthy.")
    assert not any(line.startswith("To decide") for line in sure(told(stalled=0.4)))


def test_what_no_public_run_had_is_told_without_a_probability():
    (counts, *_) = sure(told(plumbing=1.0))
    assert counts.startswith("How sure: cannot tell")
    assert "%" not in counts


def test_the_number_is_that_of_the_most_probable_cause():
    """Where a probability is told the counts stand behind it; where none is they are told in its place."""
    found = told(truncated_answers=1.5)
    (first, high), (second, _) = list(agreement.probabilities(found).items())[:2]
    name, value, beside = how_sure(found)
    assert (name, value) == ("most likely", f"{first.replace('_', ' ')} {100 * high:.0f} %")
    assert beside.startswith(f"then {second} ")
    assert "public runs with the finding" not in " ".join(sure(found))
    assert "of 1 public run with the finding truncated answers" in counted_alone(found)[0]
    assert "None of them was labelled truncated answers" in sure(found)[1]
    assert not any("None of them" in line for line in sure(told(stalled=1.5)))
    unseen = told(plumbing=1.0)
    assert how_sure(unseen)[:2] == ("how sure", "cannot tell")
    assert counted_alone(unseen) == []


def test_no_probability_is_told_as_certain(monkeypatch):
    monkeypatch.setattr(agreement, "probabilities", lambda found: {"stalled": 0.996, "healthy": 0.004})
    assert agreement.likely(told(stalled=1.5)) == ["stalled over 99 %", "healthy under 1 %"]


def test_of_a_run_unlike_all_public_ones_nothing_is_told():
    for kind, decide in ((NO_REWARD, True), (CONTROL, False)):
        found = replace(told(plumbing=1.2, collapsed=1.2), unlike=kind)
        assert how_sure(found) == ("how sure", "cannot tell", f"no public run of known outcome was like this: {kind}")
        assert any(line.startswith("To decide") for line in sure(found)) is decide
        assert agreement.probabilities(replace(told(stalled=1.5), unlike=kind)) == {}


def test_a_collapse_and_the_instability_that_it_is_are_one_cause():
    assert causes(told(dynamical_instability=2, collapsed=2, policy_concentration=1.1)) == [
        "dynamical_instability",
        "policy_concentration",
    ]


def test_every_cause_has_a_test_of_its_own():
    """Two that are told apart by the same act show something else each."""
    known = set(agreement._DECIDES)
    assert known | {"no_group_baseline"} == set(CAUSES_FIRST)
    assert len(set(agreement._DECIDES.values())) == len(known)


def test_it_is_printed_and_stored(tmp_path, capsys):
    log = tmp_path / "log.csv"
    log.write_text("step,reward\n" + "\n".join(f"{n},{0.3 + 0.001 * np.sin(n)}" for n in range(90)))
    found = bl.diagnose(str(log), quiet=True, report=False)
    found.show()
    row, every = agreement.table()["stalled"], agreement.probabilities(told(stalled=1.5))
    shown = " ".join(capsys.readouterr().out.split())
    assert "public runs with the finding stalled" not in shown
    assert f"Most likely: stalled {100 * every['stalled']:.0f} %, " in shown
    (stored,) = found.to_dict()["logs"]
    assert stored["probabilities"] == every
    assert stored["counts"] == [{"finding": "stalled", "public_runs": row._asdict()}]

"""The score on public runs: families count once, a miss and a false alarm are counted, a note is neither."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from grpo_clinic.diagnosis import FAILURES, OUTCOMES, Diagnosis, Evidence, Finding
from grpo_clinic.diagnosis.evidence import CAUSES_FIRST
from grpo_clinic.diagnosis.severity import YOUNG
from grpo_clinic.readers import Curve, RewardScale, Series

from experiments.shared.sick_runs.plant import load

ROOT = Path(__file__).parents[3]
spec = importlib.util.spec_from_file_location("clinic", ROOT / "experiments/grading/clinic.py")
clinic = importlib.util.module_from_spec(spec)
spec.loader.exec_module(clinic)


def runs():
    """Nine runs of one repository and one of another, all collapsed, and two healthy ones."""
    many = [clinic.Run(f"many {n}", "collapsed", "many", "own", Path("x")) for n in range(9)]
    well = [clinic.Run(f"well {n}", "healthy", f"repository {n}", "own", Path("x")) for n in range(2)]
    return [*many, clinic.Run("one", "collapsed", "one", "own", Path("x")), *well]


def test_a_perfect_judge_and_each_mistake():
    ideal = {run.name: frozenset() if run.label == "healthy" else frozenset({"collapsed"}) for run in runs()}
    found = clinic.score(runs(), ideal)
    assert (found["named"]["share"], found["false_alarms"]["share"], found["wrong"]) == (1.0, 0.0, [])
    missed = clinic.score(runs(), ideal | {"one": frozenset({"stalled"})})
    assert missed["named"]["found"] == 9
    assert missed["named"]["by_family"] == 0.5
    assert [one["run"] for one in missed["wrong"]] == ["one"]
    alarmed = clinic.score(runs(), ideal | {"well 0": frozenset({"stalled"})})
    assert (alarmed["false_alarms"]["found"], alarmed["false_alarms"]["by_family"]) == (1, 0.5)
    unread = clinic.score(runs(), ideal | {"one": None})
    assert (unread["not_read"], unread["wrong"][0]["said"]) == (1, "not read")


def test_the_interval_over_families_is_that_of_the_bootstrap():
    """Half of 16 families found: a binomial of 16 draws, whose 2.5 % ends lie 2 standard deviations of .125 away."""
    half = [clinic.Run(str(n), "collapsed", str(n), "own", Path("x")) for n in range(16)]
    found = clinic.share(half, {str(n): frozenset({"collapsed"} if n % 2 else ()) for n in range(16)})
    np.testing.assert_allclose(found["by_family_interval_95"], (0.25, 0.75), atol=0.07)


def judged(score, failure="stalled"):
    """A run of which one finding was told, with this score; it is there from 1 on."""
    step = np.arange(100.0)
    curve = Curve("x", "", "test", "TRL", Series(step, step / 200, "reward"), RewardScale(0, 1, True))
    evidence = Evidence("gain", (0, 39), score, 1, "text", score)
    finding = Finding(failure, score, (evidence,))
    return clinic.Judged(Diagnosis("x", (finding,), severity=clinic.severities((finding,), curve)), curve)


def of_repositories(scores, label):
    """One run per score, each of a repository of its own: (runs, judgements)."""
    names = [f"{label} {place}" for place in range(len(scores))]
    runs = [clinic.Run(name, label, name, "own", Path("x")) for name in names]
    return runs, {name: judged(score) for name, score in zip(names, scores, strict=True)}


@pytest.mark.parametrize("careful", [False, True])
def test_a_limit_is_chosen_without_the_repository_that_it_is_scored_on(careful):
    """Failures at .7 of the limit, healthy runs at .55: between them lies a factor that the others show. One failure at
    .7 with nobody else's to choose by is missed."""
    ill, told = of_repositories([0.7, 0.7, 0.7], "stalled")
    well, also = of_repositories([0.55, 0.55], "healthy")
    assert clinic.score([*ill, *well], clinic.ours([*ill, *well], told | also))["named"]["found"] == 0
    said, factors = clinic.refitted([*ill, *well], told | also, careful)
    found = clinic.score([*ill, *well], said)
    assert (found["named"]["found"], found["false_alarms"]["found"]) == (3, 0)
    assert all(0.55 < factors[run.family]["stalled"] <= 0.7 for run in ill)
    alone, _ = clinic.refitted([ill[0], *well], told | also, careful)
    assert alone["stalled 0"] == frozenset()


def test_a_careful_choice_names_least_of_what_is_equal():
    """Failures at twice the limit, healthy runs far below: every factor between is equal."""
    ill, told = of_repositories([2.5, 2.5, 1.2], "stalled")
    well, also = of_repositories([0.1], "healthy")
    near, _ = clinic.refitted([*ill, *well], told | also, careful=False)
    careful, factors = clinic.refitted([*ill, *well], told | also, careful=True)
    assert near["stalled 2"] == {"stalled"}
    assert careful["stalled 2"] == frozenset()  # the two others allow a factor of 2
    assert factors["stalled 2"]["stalled"] == 2


def test_the_shortest_standstill_is_chosen_on_healthy_runs_cut_off():
    """The repository that begins flat decides; without it the other, which rises at once, does."""
    flat = np.concatenate((np.full(45, 0.2), np.linspace(0.2, 0.9, 105)))
    noise = 0.01 * np.random.default_rng(0).normal(size=150)
    runs, told = of_repositories([0.1, 0.1], "healthy")
    for name, reward in zip(told, (flat, np.linspace(0.2, 0.9, 150)), strict=True):
        series = Series(np.arange(150.0), reward + noise, "reward")
        told[name] = clinic.Judged(told[name].found, Curve("x", "", "test", "TRL", series, RewardScale(0, 1, True)))
    found = clinic.cut_off(runs, told)
    assert found[40] == {"healthy 0": 1.0, "healthy 1": 0.0}
    assert 40 < clinic.shortest(found) <= 60
    assert clinic.shortest(found, "healthy 0") < 20


def test_a_beginning_knows_nothing_of_what_comes_later():
    """Of a run that collapses at its end and has one late held-out result: a rise, without that."""
    step = np.arange(60.0)
    reward = Series(step, np.where(step < 45, 0.2 + 0.01 * step, 0.0), "reward")
    late, both = Series(step[50:], step[50:], "eval"), Series(step, step, "kl")
    curve = Curve(
        "x", "", "test", "TRL", reward, RewardScale(0, 1, False), series={"kl": both, "entropy": late}, eval=late
    )
    start = clinic._start(curve, 40)
    assert (start.reward.size, start.eval, set(start.series)) == (40, None, {"kl"})
    assert start.series["kl"].value.max() == 39
    well = clinic.Run("x", "healthy", "x", "own", Path("x"))
    found = clinic.early([well], {"x": clinic.Judged(judged(0.1).found, curve)})
    assert (found[40]["found"], found[60]["found"]) == (0, 1)


def test_the_shipped_length_is_the_chosen_one():
    stored = json.loads((ROOT / "figures/clinic.json").read_text(encoding="utf-8"))["shortest standstill"]
    assert stored["chosen"] == YOUNG
    assert stored["chosen_without_one"] == [YOUNG]


def test_a_limit_known_beforehand_is_not_chosen_anew():
    runs = [clinic.Run(str(n), "reward_hacking", str(n), "own", Path("x")) for n in range(3)]
    said, _ = clinic.refitted(runs, {str(n): judged(0.7, "reward_hacking") for n in range(3)}, careful=False)
    assert set(said.values()) == {frozenset()}


def test_what_lies_beyond_its_limit_and_is_no_failure_stays_none():
    runs, told = of_repositories([2.0, 2.0, 0.99], "stalled")
    said, _ = clinic.refitted(runs, told, careful=False)
    assert said["stalled 2"] == frozenset()


def test_a_folder_that_nobody_named_is_told_in_one_line(monkeypatch):
    monkeypatch.delenv("BANDIT_LAB_RUN_CORPUS", raising=False)
    with pytest.raises(SystemExit, match=r"^BANDIT_LAB_RUN_CORPUS: expected a folder with index.csv, got nothing$"):
        clinic.labelled()


TITLES = ("diagnose", *clinic.other_programs.TITLES)


def percent(one):
    share, low, high = (round(100 * x) for x in (one["by_family"], *one["by_family_interval_95"]))
    return f"{share} % ({low} to {high})"


def test_the_page_tells_what_every_program_said():
    """One row per program, and one per failure with a cell for each."""
    stored = json.loads((ROOT / "figures/clinic.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    for title in TITLES:
        named, alarms = (stored[title][key] for key in ("named", "false_alarms"))
        program, *rest = title.split(" ", 1)
        cells = [
            " ".join([f"`{program}`", *rest]),
            f"{named['found']} of {named['runs']}",
            percent(named),
            str(stored[title]["troubled_and_told_anything"]),
            f"{alarms['found']} of {alarms['runs']}",
            percent(alarms),
        ]
        assert f"| {' | '.join(cells)} |" in page
    for kind, one in stored["diagnose"]["by_failure"].items():
        others = [str(stored[title]["by_failure"][kind]["found"]) for title in TITLES[1:]]
        cells = [kind.replace("_", " "), f"{one['found']} of {one['runs']}", *others]
        assert f"| {' | '.join(cells)} |" in page


def test_there_is_one_table_of_what_answers_a_label():
    assert load("real_runs")["accepted"] == clinic.ACCEPTED
    every = {*CAUSES_FIRST, *FAILURES, *OUTCOMES}
    assert {name for names in clinic.ACCEPTED.values() for name in names} <= every
    assert set(clinic.BEFOREHAND) <= every


@pytest.mark.parametrize("name", [*TITLES, "refitted, near", "refitted, careful"])
def test_what_is_stored_adds_up(name):
    found = json.loads((ROOT / "figures/clinic.json").read_text(encoding="utf-8"))[name]
    kinds = found["by_failure"].values()
    assert sum(one["runs"] for one in kinds) == found["named"]["runs"]
    assert sum(one["found"] for one in kinds) == found["named"]["found"]
    missed = found["named"]["runs"] - found["named"]["found"] + found["false_alarms"]["found"]
    assert len(found["wrong"]) == missed


def test_a_healthy_run_that_ends_early_is_judged_by_what_there_was_until_then():
    """It falls to nothing at 60 %: an alarm at 75 % and while it is watched, none at a half. The planted defect is the
    fall itself; a run that only rises has none at all."""
    rng, step = np.random.default_rng(3), np.arange(1.0, 121.0)
    rises = 0.2 + 0.5 * (1 - np.exp(-step / 20)) + 0.02 * rng.normal(size=120)
    rewards = {"falls": np.where(step < 72, rises, 0.02), "rises": rises}
    judged = {}
    for name, reward in rewards.items():
        one = Curve(name, "x", "x", "x", Series(step, reward, "reward"), RewardScale(0, 1, True))
        judged[name] = clinic.Judged(clinic.diagnose(one), one)
    healthy = [clinic.Run(name, "healthy", name, "own", Path("x")) for name in rewards]
    found = clinic.prefixes(healthy, judged)
    assert [found[part]["found"] for part in ("0.25", "0.5", "0.75")] == [0, 0, 1]
    assert set(found["all"]["wrong"]) == {"falls 0.75"}
    assert set(found["watched"]["wrong"]) == {"falls"}

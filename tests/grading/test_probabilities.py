"""The probabilities of named causes: what a model may know, what it finds where the truth is known, what is shipped."""

import json
from pathlib import Path

import numpy as np
import pytest

from bandit_lab.runs.diagnose import Diagnosis, Evidence, Finding, agreement
from bandit_lab.runs.diagnose.evidence import CAUSES_FIRST
from experiments.grading import causes

ROOT = Path(__file__).parents[2]
STALLED, HACKED = (CAUSES_FIRST.index(name) for name in ("stalled", "reward_hacking"))


def drawn(count, seed=3):
    """Runs, each of a repository of its own: half healthy, half stalled. Of the stalled ones 80 % are told so, of the
    healthy ones 10 %; 30 % of all are told of hacking, which says nothing."""
    rng = np.random.default_rng(seed)
    cause = rng.integers(0, 2, count)
    named = np.zeros((count, len(CAUSES_FIRST)))
    named[:, STALLED] = rng.random(count) < np.where(cause == 1, 0.8, 0.1)
    named[:, HACKED] = rng.random(count) < 0.3
    first = np.where(named[:, HACKED] > 0, HACKED, np.where(named[:, STALLED] > 0, STALLED, len(CAUSES_FIRST)))
    return causes.Table(cause, named, named, first, np.arange(count))


def posterior(table):
    """P(stalled) [N] by Bayes' rule from the shares that the runs were drawn with."""
    ill = np.where(table.named[:, STALLED] > 0, 0.8, 0.2)
    well = np.where(table.named[:, STALLED] > 0, 0.1, 0.9)
    return ill / (ill + well)


@pytest.mark.parametrize("name", ["naive Bayes", "logistic"])
def test_a_model_finds_what_the_runs_were_drawn_with(name):
    """3,000 runs: a share of 10 % is known to .8 %, the posterior to 2 %; five standard errors are .1."""
    table = drawn(3000)
    told = causes.MODELS[name](table, 0.1)(table)
    np.testing.assert_allclose(told.sum(axis=1), 1)
    np.testing.assert_allclose(told[:, causes.CAUSES.index("stalled")], posterior(table), atol=0.1)


def test_the_shares_see_the_first_finding_alone():
    """Behind hacking, which says nothing, a standstill is not seen: half of these runs are stalled."""
    table = drawn(3000)
    told = causes.shares(table, 0.1)(table)[:, causes.CAUSES.index("stalled")]
    np.testing.assert_allclose(told[table.first == HACKED], 0.5, atol=0.1)
    np.testing.assert_allclose(told[table.first == STALLED], 0.8 / 0.9, atol=0.1)


@pytest.mark.parametrize("name", ["shares", "naive Bayes", "logistic"])
def test_a_repository_is_told_by_the_others_alone(name):
    """In one repository every finding means the opposite: its runs are told what it means elsewhere, and wrongly."""
    table = drawn(60)
    odd = table.family >= 50
    cause = np.where(odd, (table.named[:, STALLED] == 0).astype(int), (table.named[:, STALLED] > 0).astype(int))
    turned = causes.Table(cause, table.named, table.strength, table.first, np.where(odd, 50, table.family))
    told = causes.without_each(turned, causes.MODELS[name], 0.1)
    surely = odd & (table.named[:, HACKED] == 0)
    assert np.all(told[surely, turned.cause[surely]] < 0.5)
    seen = causes.MODELS[name](turned, 0.1)(turned)
    assert causes.log_loss(turned, seen)[odd].mean() < causes.log_loss(turned, told)[odd].mean()


def test_losses_and_reliability_of_known_probabilities():
    table = drawn(4)
    told = np.full((4, len(causes.CAUSES)), 0.05)
    told[:, 0] = 0.8
    right = table.cause == 0
    np.testing.assert_allclose(causes.log_loss(table, told), np.where(right, -np.log(0.8), -np.log(0.05)))
    off = 0.8**2 + 0.95**2 + 3 * 0.05**2
    np.testing.assert_allclose(causes.brier(table, told), np.where(right, 0.2**2 + 4 * 0.05**2, off))
    assert causes.reliability(table, told) == [{"runs": 4, "told": 0.8, "true": round(float(right.mean()), 3)}]


def test_no_finding_of_two_names_counts_twice():
    assert agreement.events(["dynamical_instability", "collapsed"]) == {"collapsed"}
    assert agreement.events(["stalled", "collapsed"]) == {"stalled", "collapsed"}


def diagnosis(*named):
    findings = tuple(Finding(name, 2.0, (Evidence("m", (0, 1), 1, 1, "", 2.0),)) for name in named)
    return Diagnosis("x", findings, severity=dict.fromkeys(named, ("failure", "")))


@pytest.mark.parametrize("named", [(), ("stalled",), ("dynamical_instability", "collapsed", "answer_length")])
def test_the_shipped_model_is_that_naive_bayes(named):
    """Its file read by hand: odds of each cause, by finding, over their sum."""
    known = json.loads(agreement.MODEL.read_text(encoding="utf-8"))
    there = {"collapsed" if name == "dynamical_instability" else name for name in named}
    odds = np.exp(known["log_share"])
    for name, row in known["log_found"].items():
        share = np.exp(row)
        np.testing.assert_allclose(np.log1p(-share), known["log_not_found"][name], atol=2e-3)
        odds = odds * (share if name in there else 1 - share)
    told = agreement.probabilities(diagnosis(*named))
    assert [*told.values()] == sorted(told.values(), reverse=True)
    np.testing.assert_allclose([told[name] for name in known["causes"]], odds / odds.sum(), atol=2e-3)


def test_nothing_is_told_of_what_no_public_run_had():
    assert agreement.probabilities(diagnosis("sampler_mismatch")) == {}
    unjudged = Diagnosis("x", (Finding("stalled", None, missing="few"),))
    assert unjudged.verdict == ("not_judged",)
    assert agreement.probabilities(unjudged) == {}


def test_the_page_tells_what_is_stored():
    stored = json.loads((ROOT / "figures/causes.json").read_text(encoding="utf-8"))
    known = agreement.model()
    assert (stored["runs"], stored["repositories"]) == (known.runs, known.repositories)
    page = " ".join((ROOT / "docs/real_runs.md").read_text(encoding="utf-8").split())
    for name, one in stored["models"].items():
        gains = []
        for key in ("log_loss", "brier"):
            low, high = one[f"{key}_gain_interval_95"]
            gains.append("-" if name == "shares" else f"{one[f'{key}_gain_over_shares']:.2f} ({low:.2f} to {high:.2f})")
        right = f"{100 * one['first_cause_right']:.0f} %"
        cells = [name, f"{one['log_loss']:.2f}", gains[0], f"{one['brier']:.2f}", gains[1], right]
        assert f"| {' | '.join(cells)} |" in page
    for name in ("shares", "naive Bayes"):
        for row in stored["models"][name]["reliability"]:
            assert f"| {name} | {row['runs']} | {100 * row['told']:.0f} % | {100 * row['true']:.0f} % |" in page


def test_what_is_shipped_was_better_on_repositories_left_out():
    """The rule of the script: the interval of the gain in log loss lies above zero."""
    stored = json.loads((ROOT / "figures/causes.json").read_text(encoding="utf-8"))["models"]["naive Bayes"]
    assert stored["log_loss_gain_interval_95"][0] > 0

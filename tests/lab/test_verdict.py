"""The line in words with which `predict` begins: every regime from numbers alone, then from settings."""

import itertools
import json
import re
from pathlib import Path

import pytest
from spoken_points import spoken

from bandit_lab.app.cli import main
from bandit_lab.lab.predict.verdict import amount

RINGS = {"law": 0.8, "exact": 2.3, "radius": 0.9, "regime": "oscillatory", "period": 14.2, "bifurcation": "flip"}
GROWS = {"law": 0.8, "exact": 0.5, "radius": 1.2, "regime": "unstable", "period": 83.0}
CALM = {"law": 0.01, "exact": 0.02, "radius": 0.99, "regime": "overdamped"}

WORDS = {
    "stable, rings, the law is careful": (
        spoken(1.0, **RINGS),
        "stable: eta is 2.3 times below the exact threshold; rings with a period of 14 steps; "
        "the published law would call it unstable",
    ),
    "stable, overdamped, the law agrees": (
        spoken(0.004, **CALM),
        "stable: eta is 5 times below the exact threshold; decays without ringing; the published law agrees",
    ),
    "only a softer direction is seen": (
        spoken(0.004, **CALM | {"regime": "oscillatory"}),
        "stable: eta is 5 times below the exact threshold; rings in its stiffest direction alone; "
        "the published law agrees",
    ),
    "just below": (
        spoken(0.0192, **CALM),
        "stable: eta is 4 % below the exact threshold; decays without ringing; "
        "the published law would call it unstable",
    ),
    "unstable by a complex pair": (
        spoken(1.0, **GROWS, bifurcation="neimark_sacker"),
        "unstable: eta is 2 times above the exact threshold; a complex pair leaves the unit circle there "
        "(Neimark-Sacker); swings with a period of 83 steps grow; the published law agrees",
    ),
    "unstable by a flip, the law is unsafe": (
        spoken(0.7, **GROWS | {"period": 2.0}, bifurcation="flip"),
        "unstable: eta is 1.4 times above the exact threshold; a multiplier passes -1 there (flip); "
        "swings with a period of 2 steps grow; the published law would call it stable",
    ),
    "at the threshold": (
        spoken(0.501, **GROWS, bifurcation="flip"),
        "unstable: eta is at the exact threshold; a multiplier passes -1 there (flip); "
        "swings with a period of 83 steps grow; the published law would call it stable",
    ),
    "unstable without swinging": (
        spoken(1.0, **GROWS | {"period": None}),
        "unstable: eta is 2 times above the exact threshold; displacements grow without swinging; "
        "the published law agrees",
    ),
    "repels": (
        spoken(0.1, law_reason="the fixed point repels", exact=0.0, radius=1.01, regime="unstable"),
        "unstable: the fixed point repels at every learning rate; displacements grow without swinging",
    ),
    "no threshold": (
        spoken(1.0, **RINGS | {"exact": None}, exact_reason="stable up to learning rate 40, the end of the scan"),
        "stable: no exact threshold is known (stable up to learning rate 40, the end of the scan); "
        "rings with a period of 14 steps; the published law would call it unstable",
    ),
    "a stable window beyond the first threshold": (
        spoken(3.0, **RINGS),
        "stable: eta is 1.3 times above the exact threshold, in a stable window beyond it; "
        "rings with a period of 14 steps; the published law would call it unstable",
    ),
    "a window that the scan passed over": (
        spoken(0.25, **GROWS | {"period": None}),
        "unstable: eta is 2 times below the exact threshold that a scan found, in a narrow window that it passed "
        "over; displacements grow without swinging; the published law would call it stable",
    ),
    "inside an island": (
        spoken(1.0, 35, **GROWS, bifurcation="flip", islands=[[30, 43]], searched=1024),
        "unstable: eta is 2 times above the exact threshold; a multiplier passes -1 there (flip); "
        "swings with a period of 83 steps grow; N = 35 lies in an island of unstable refresh intervals, 30 to 43; "
        "the published law agrees",
    ),
    "between islands": (
        spoken(1.0, 8, **RINGS, islands=[[3, 3], [30, 43], [50, 60], [70, 71], [90, 1024]], searched=1024),
        "stable: eta is 2.3 times below the exact threshold; rings with a period of 14 steps; "
        "islands of unstable refresh intervals at this eta: 3, 30 to 43, 50 to 60, ...; "
        "the published law would call it unstable",
    ),
    "unstable from some interval on is no island": (
        spoken(0.004, **CALM, islands=[[46, 1024]], searched=1024),
        "stable: eta is 5 times below the exact threshold; decays without ringing; the published law agrees",
    ),
    "complex stiffness": (
        spoken(1.0, **RINGS, stiffness=0.2313 + 0.058j),
        "stable: eta is 2.3 times below the exact threshold; rings with a period of 14 steps; the stiffness is "
        "complex (14 degrees): it rings at every learning rate; the published law would call it unstable",
    ),
    "complex stiffness, the law unsafe": (
        spoken(0.5, **RINGS | {"exact": 1.0, "law": 3.846}, stiffness=0.2313 + 0.058j),
        "stable: eta is 2 times below the exact threshold; rings with a period of 14 steps; the stiffness is complex "
        "(14 degrees): it rings at every learning rate, and the law allows 3.8 times too much; "
        "the published law agrees",
    ),
    "on-policy lag": (
        spoken(0.004, 0, **CALM | {"law": None}, law_reason="the law has no bound at refresh interval 0"),
        "stable: eta is 5 times below the exact threshold; decays without ringing; "
        "the published law has no bound at refresh interval 0",
    ),
    "noise carries runs away": (
        spoken(1.0, **RINGS, collapsed=0.372),
        "stable: eta is 2.3 times below the exact threshold; rings with a period of 14 steps; "
        "the published law would call it unstable; noise carries 37 % of runs to the vertex within 1,000 steps",
    ),
    "no fixed point": (
        spoken(1.0, kl_weight=1.2, no_fixed_point="no interior fixed point ...: a vertex", critical_weight=1.50887),
        "the policy runs to a vertex: no interior fixed point at KL weight 1.2; one exists from KL weight 1.509",
    ),
    "no KL term": (
        spoken(1.0, kl_weight=0.0, no_fixed_point="it runs to a vertex"),
        "the policy runs to a vertex: no interior fixed point at KL weight 0; any KL weight > 0 may have one",
    ),
    "fixed point not found": (spoken(1.0, no_fixed_point="the search ended"), "no verdict: the search ended"),
    "adam": (
        spoken(0.05, unsupported_reason="no linear theory of the optimiser adam", held_moment=15.7),
        "no verdict: no linear theory of the optimiser adam; with its second moment held at the noise, eta is "
        "310 times below the threshold (leading order); sampled runs of `sweep` show what it does",
    ),
    "another optimiser": (
        spoken(0.05, unsupported_reason="no linear theory of the optimiser lion"),
        "no verdict: no linear theory of the optimiser lion; sampled runs of `sweep` show what it does",
    ),
    "drawn ages": (
        spoken(0.05, unsupported_reason="ages drawn", exact=0.24),
        "stable in the mean square: eta is 4.8 times below the threshold of the mean square "
        "(an age is drawn at every step)",
    ),
    "drawn ages, too fast": (
        spoken(0.48, unsupported_reason="ages drawn", exact=0.24),
        "unstable in the mean square: eta is 2 times above the threshold of the mean square "
        "(an age is drawn at every step)",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_words_of_every_regime(case):
    said, expected = WORDS[case]
    assert said == expected


def test_whatever_the_numbers_the_first_word_is_the_regime_and_nothing_is_left_blank():
    """All combinations of what may be missing: no None, no nan, no empty clause."""
    several = itertools.product(
        ("overdamped", "oscillatory", "unstable"), (None, 0.0, 0.02, 3.0), (None, 0.3), (None, 2.0, 1e7),
        (None, "flip", "neimark_sacker"), ((), [[2, 5]]), (1.0, 1 + 1j, 2.0),
    )  # fmt: skip
    for regime, exact, law, cycle, kind, islands, stiffness in several:
        numbers = (law, "", exact, "", 0.9, "", regime, kind, stiffness, islands, 1024)
        text = spoken(0.1, 4, 1.0, *numbers, period=cycle)
        assert text.split(":")[0] == ("unstable" if regime == "unstable" else "stable")
        assert all(clause.strip() for clause in text.split(";"))
        assert not {"None", "nan", "inf"} & set(text.replace(",", " ").split())
        if law is not None:
            assert ("law agrees" in text) == ((law > 0.1) == (regime != "unstable"))


@pytest.mark.parametrize(
    ("value", "text"), [(1.04, "1"), (2.34, "2.3"), (14.2, "14"), (379.5, "380"), (52345, "52,000"), (2.5e7, "2.5e+07")]
)
def test_amounts(value, text):
    assert amount(value) == text


SETTINGS = {
    "dynamics=mean_field": "stable: eta is 550 times below the exact threshold; rings with a period of 94 steps",
    "dynamics=mean_field refresh_interval=8 learning_rate=0.4": "unstable: eta is 1.6 times above the exact threshold",
    "dynamics=mean_field bandit.rewards=[1,0] kl_weight=1.2": "the policy runs to a vertex: no interior fixed point at "
    "KL weight 1.2; one exists from KL weight 1.509",
    "optimizer=adam": "no verdict: no linear theory of the optimiser adam; with its second moment held",
    "optimizer=nadamw": "no verdict: no linear theory of the optimiser nadamw; with its second moment held",
    "optimizer=lion": "no verdict: no linear theory of the optimiser lion; no fixed point of the mean update",
    "staleness=random refresh_interval=4": "stable in the mean square: eta is 4.9 times below",
    "staleness=lag refresh_interval=0": "stable: eta is",
    "momentum=0 refresh_interval=4 learning_rate=2.7134 group_size=16": "stable: eta is 4 % below",
    "dynamics=mean_field kl_weight=.72 bandit=k_arm bandit.kind=fixed bandit.rewards=[-.93,.67,-.33] "
    "bandit.reference_logits=[2.05,-2.9,1.21]": "stable: eta is 14 times below the exact threshold",
}


@pytest.mark.parametrize("given", SETTINGS)
def test_predict_begins_with_its_verdict(given, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "run_dir=here", *given.split()]) == 0
    said = json.loads(Path("here/summary.json").read_text())["verdict"]
    out = capsys.readouterr().out
    assert said.startswith(SETTINGS[given])
    assert " ".join(out.split()).startswith(said)
    if "collapsed" in said or "group_size=16" in given:
        assert "% of runs to the vertex within 1,000 steps" in said
    assert ("stiffness is complex" in said) == ("-.93" in given)


def test_the_readme_quotes_what_its_command_prints(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    command, quoted = re.search(
        r"^    python -m bandit_lab (predict [^\n#]*=[^\n#]*)\n[^`]*?`(stable: .*?)`", page, re.MULTILINE | re.DOTALL
    ).groups()
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), "run_dir=here"]) == 0
    assert json.loads(Path("here/summary.json").read_text())["verdict"] == " ".join(quoted.split())

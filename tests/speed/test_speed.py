"""How speed changes with the work, and what every rule costs: the scripts measure and write. No time is asserted."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bandit_lab.app.plugins import registries
from bandit_lab.bandits import BANDITS
from bandit_lab.lab.bench.timing import Timed
from experiments.shared import script
from experiments.speed import scaling, variants
from experiments.speed.policies import policy_flops


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_scaling_writes_six_panels_and_memory(monkeypatch, capsys):
    """One point is measured; the others, and processes, are made up."""
    real = scaling._rate
    answer = {"first_seconds": 1.0, "later_seconds": 0.1, "peak_bytes": 3 * 10**8, "above_import_bytes": 10**8}
    monkeypatch.setattr(scaling, "probe", lambda *arguments, **options: answer)
    monkeypatch.setattr(
        scaling, "_rate", lambda point, *rest: real(point, *rest) if point[:2] == ("settings", 16) else 1e6 * point.x
    )
    assert scaling.main(["quick=true", "seeds=1024", "steps=3", "run_dir=here"]) == script.OK
    summary = json.loads(Path("here/summary.json").read_text())
    assert {row["panel"] for row in summary["rows"]} == set(scaling.PANELS)
    assert len(scaling.PANELS) == 6
    assert {row["axis"] for row in summary["memory"]} == {"steps", "seeds"}
    assert summary["one_setting_over_many"] == pytest.approx(1 / 256)
    assert {"scaling.png", "memory.png"} <= {p.name for p in Path("here").iterdir()}


def test_every_registered_rule_has_a_cost_or_a_reason(monkeypatch, capsys):
    """Rules are those of the registries; one that costs twice as much as the plain one is printed as 2.

    NumPy costs 12, with a mean over ages as much for fewer steps; `log_policy` alone costs 3 for half the steps. It
    has 600 operations a step, and products have 250,000 a second."""

    def made_up(runs, *rest):
        costs = {"rule": 2.0, "plain": 1.0, "numpy": 12.0, "alone": 3.0}
        return {name: Timed(np.full(2, costs[name]), None) for name in runs}

    monkeypatch.setattr(variants, "ensemble_engine", lambda *arguments: lambda seed: None)
    monkeypatch.setattr(variants, "policy_engine", lambda *arguments: lambda seed: None)
    monkeypatch.setattr(variants, "in_turn", made_up)
    monkeypatch.setattr(variants, "policy_flops", lambda bandit: 600.0)
    monkeypatch.setattr(variants, "product_flops", lambda: 250.0 * 1e3)
    clock = itertools.count()
    monkeypatch.setattr(variants, "time", SimpleNamespace(perf_counter=lambda: 1.5 * next(clock)))
    assert variants.main(["sizes=[A,D]", "quick=true", "run_dir=here"]) == script.OK
    rows = json.loads(Path("here/summary.json").read_text())["rows"]
    rules = {f"{kind}={name}" for kind in (*variants.KINDS, "bandit") for name in registries()[kind]}
    rules |= {f"optimizer={name}" for name in variants.COMMON_OPTAX}
    assert {row["variant"] for row in rows} == rules
    assert {row["case"] for row in rows} == {"A", "D"}
    assert all(("cost" in row) != bool(row["not_served"]) for row in rows)
    averaged = 6 * 200 / variants.FEWEST_STEPS  # 200 steps of 33 ages each
    for row in (row for row in rows if "cost" in row):
        over_numpy = averaged if row["variant"] == "staleness=random_mean" and row["case"] == "A" else 6
        assert (row["cost"]["median"], row["over_numpy"]) == (2, over_numpy)
        own = row["variant"] in ("bandit=contextual", "bandit=neural", "bandit=sequence")
        assert row.get("over_policy") == (3 if own else None)
        filled = 5 * row["seed_steps_per_second"] / 6 * 600 / 250_000
        assert row.get("of_products") == (pytest.approx(filled) if own else None)
    assert all(row["first_call"] == 1.5 for row in rows if "cost" in row)
    assert "staleness=random: reference path" in capsys.readouterr().out
    chosen = ["only=[adam,k3,two_arm]", "run_dir=chosen"]
    assert variants.main(["sizes=[A,D]", "quick=true", *chosen]) == script.OK
    rows = json.loads(Path("chosen/summary.json").read_text())["rows"]
    assert [row["variant"] for row in rows] == ["kl_estimator=k3", "optimizer=adam", "bandit=two_arm"] * 2


def test_operations_are_counted_where_none_is_skipped():
    """Every weight has a product and a sum, forward and back. Most features of `contextual` are zero: no count."""
    neural, contextual = BANDITS["neural"](), BANDITS["contextual"]()
    flops = policy_flops(neural)
    assert flops is not None
    weights = neural.initial_parameters.shape[-1]
    assert flops > 4 * weights
    assert policy_flops(contextual) is None


@pytest.mark.parametrize(
    ("main", "arguments", "line"),
    [
        (variants.main, ["only=[dopo]"], "variants: only: expected one of adam, adamw, ages, batch_std"),
        (variants.main, ["sizes=[A,E]"], "variants: sizes: expected one of A, B, C, D, got 'E'"),
        (
            scaling.main,
            ["paper=true", "quick=true"],
            "scaling: quick: expected false, as paper=true is given",
        ),
        (scaling.main, ["papers=true"], "scaling: papers: expected one of"),
    ],
)
def test_bad_input_is_one_line(main, arguments, line, capsys):
    assert main(arguments) == script.BAD_INPUT
    err = capsys.readouterr().err
    assert err.startswith(line)
    assert err.count("\n") == 1

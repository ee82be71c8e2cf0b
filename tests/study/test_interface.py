"""The Python interface: the commands as functions, with the command line's numbers, defaults and errors."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray
from omegaconf import OmegaConf

import bandit_lab as bl
from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.simulate import run
from bandit_lab.study import interface, plugins
from bandit_lab.study.cli import BAD_INPUT, explicit_keys, main, rewritten
from bandit_lab.study.settings import compose
from bandit_lab.study.settings.config import SCHEMAS
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.arguments import as_overrides

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


KEYWORDS = {
    "predict": (
        {"refresh_interval": 8, "bandit": {"name": "k_arm", "rewards": (0.9, 0.5)}, "advantage": "dr_grpo"},
        ["refresh_interval=8", "bandit=k_arm", "bandit.rewards=[0.9,0.5]", "advantage=dr_grpo"],
    ),
    "sweep": (
        {
            "sweep": {"learning_rate": {"num": 3}},
            "sampled": {"start": "initial"},
            "optimizer": {"name": "adam", "options": {"b2": 0.99}},
            "momentum": np.float64(0.5),
        },
        ["sweep.learning_rate={num: 3}", "sampled.start=initial", "optimizer=adam", "optimizer.options.b2=0.99",
         "momentum=0.5"],
    ),
    "fit": ({"paths": ["a=b, ${c}.json"], "where": "a=b"}, ["where=a=b", "--", "a=b, ${c}.json"]),
}  # fmt: skip


@pytest.mark.parametrize("command", KEYWORDS)
def test_keywords_are_the_settings_of_the_command_line(command):
    keywords, arguments = KEYWORDS[command]
    overrides = rewritten(as_overrides(command, arguments))
    plugins.load([], overrides)
    with compose.hydra_ready():
        expected = OmegaConf.to_object(compose.composed(command, overrides))
    found, explicit = interface.composed(command, keywords | {"run_dir": "here"})
    assert replace(OmegaConf.to_object(found), run_dir=None) == expected
    assert explicit == explicit_keys(overrides) | {"run_dir"}


@pytest.mark.parametrize("command", [name for name in SCHEMAS if name not in ("status", "export", "watch")])
def test_defaults_are_those_of_the_command_line(command):
    plugins.load([])
    with compose.hydra_ready():
        expected = OmegaConf.to_container(compose.composed(command, []))
    assert OmegaConf.to_container(interface.composed(command, {"run_dir": "here"})[0]) == expected | {"run_dir": "here"}
    without = OmegaConf.to_container(interface.composed(command, {})[0])
    assert without == expected | {key: None for key in ("compilation_cache", "cache") if key in expected}


def test_a_document_holds_what_the_command_writes_and_nothing_is_printed_or_left(tmp_path, capsys):
    double = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    try:
        found = bl.predict(refresh_interval=8, learning_rate=0.1)
        assert not jax.config.jax_enable_x64
    finally:
        jax.config.update("jax_enable_x64", double)
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []
    assert main(["predict", "refresh_interval=8", "learning_rate=0.1", "run_dir=here"]) == 0
    assert found.to_dict() == json.loads(Path("here/summary.json").read_bytes())
    capsys.readouterr()
    assert bl.status("here").to_dict()["state"] == "finished"
    with pytest.raises(ValueError, match="run_dir: expected a run with results"):
        bl.export("here")
    bl.predict(refresh_interval=8, learning_rate=0.1, run_dir="there")
    assert capsys.readouterr() == ("", "")
    assert {p.name for p in Path("there").iterdir()} == {p.name for p in Path("here").iterdir()}
    assert Path("there/summary.json").read_bytes() == Path("here/summary.json").read_bytes()
    assert "key" in found.table("statements")
    assert "oscillator" in found._repr_html_()


MISTAKES = {
    "learning_rate=-1": {"learning_rate": -1.0},
    "learning_rate=abc": {"learning_rate": "abc"},
    "learning_rate=null": {"learning_rate": None},
    "learning_rat=1": {"learning_rat": 1},
    "momentum=2": {"momentum": 2.0},
    "bandit=foo": {"bandit": "foo"},
    "bandit.foo=1": {"bandit": {"foo": 1}},
    "advantage.eps=abc": {"advantage": {"eps": "abc"}},
    "optimizer=adam optimizer.options.foo=1": {"optimizer": {"name": "adam", "options": {"foo": 1}}},
    "plugins=[no_such_module]": {"plugins": ["no_such_module"]},
    "bandit.rewards=[0.9,1.1]": {"bandit": {"rewards": [0.9, 1.1]}},
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_value_errors_with_the_line_of_the_command(text, capsys):
    assert main(["predict", *text.split()]) == BAD_INPUT
    line = capsys.readouterr().err.removeprefix("bandit_lab predict: ").strip()
    with pytest.raises(ValueError, match="expected") as error:
        bl.predict(**MISTAKES[text])
    assert " ".join(str(error.value).split()).replace("got null", "got 'null'") == line
    assert list(Path().iterdir()) == []


def test_what_is_swept_must_be_traced():
    with pytest.raises(ValueError, match=r"sweep\.group_size: expected one of .* use -m"):
        bl.sweep(sweep={"group_size": [8, 16]})
    with pytest.raises(ValueError, match="bandit: expected a variant's name, or a dictionary"):
        bl.predict(bandit=3)


@pytest.mark.slow
def test_a_sweep_and_a_fit_are_documents_too(capsys):
    few = {"sweep": {"refresh_interval": [2], "learning_rate": {"num": 4}}, "momentum": 0.5, "dynamics": "mean_field"}
    found = bl.sweep(**few, pictures=False)
    assert capsys.readouterr() == ("", "")
    assert list(Path().iterdir()) == []
    assert found.data["threshold_exact"].attrs["units"]
    row = found.table("threshold").iloc[0]
    assert row["exact"] == pytest.approx(found.data["threshold_exact"].item())
    log = {"log_history": [{"step": i, "reward": 0.5 + 0.01 * (i % 3)} for i in range(40)]}
    Path("log.json").write_text(json.dumps(log))
    fitted = bl.fit("log.json", models=["constant"])
    assert len(fitted.table("logs")) == 1
    assert [path.name for path in Path().iterdir()] == ["log.json"]


SETTING = {
    "seeds": 200,
    "steps": 30,
    "refresh_interval": 4,
    "learning_rate": 0.3,
    "momentum": 0.5,
    "group_size": 8,
    "seed": 3,
}


@pytest.mark.parametrize(
    ("bandit", "path"),
    [("two_arm", "auto"), pytest.param("k_arm", "auto", marks=pytest.mark.nightly), ("k_arm", "reference")],
)
def test_simulated_runs_are_those_of_the_engine(bandit, path, tmp_path, capsys):
    found = bl.simulate(bandit=bandit, path=path, **SETTING)
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []
    made = {"two_arm": two_arm, "k_arm": k_arm}[bandit]()
    learner = Learner(made, staleness=STALENESS["refresh"](), group_size=8, horizon=4)
    cell = Hyper(*(np.array([value]) for value in (0.3, 0.5, 4, 1.0)))
    runs = run(learner, "sampled", cell, steps=30, seeds=200, seed=3, path=path)
    np.testing.assert_array_equal(found.reward_mean, runs.reward_mean[0])
    np.testing.assert_array_equal(found.reward_variance, runs.reward_variance[0])
    np.testing.assert_array_equal(found.tail_mean, runs.summary.tail_mean[0])
    assert found.sizes == {"step": 31, "seed": 200, "arm": made.law.probabilities.shape[1]}
    np.testing.assert_allclose(found.final_policy.sum("arm"), 1, atol=1e-6)
    means = xarray.DataArray(np.asarray(made.true_means)[0], dims="arm")
    np.testing.assert_allclose((found.final_policy @ means).mean(), found.reward_mean[-1], atol=1e-6)
    np.testing.assert_allclose(found.final_policy.max("arm"), found.final_max_probability, atol=1e-6)
    assert found.attrs["path"] == ("fast" if path == "auto" else "reference")
    assert found.attrs["bandit.rewards"] == interface.composed("predict", {"bandit": bandit})[0].bandit.rewards
    units = {"reward_mean": "reward", "reward_variance": "reward^2", "final_policy": "1", "step": "steps"}
    assert {name: found[name].attrs["units"] for name in units} == units
    assert found.identical(bl.simulate(bandit=bandit, path=path, **SETTING))


def test_outcomes_of_simulated_runs():
    """Far below the threshold runs return; far above they are lost; without a fixed point none can be judged."""
    calm = bl.simulate(learning_rate=0.02, momentum=0.0, steps=1500, seeds=20, kl_weight=1.0)
    assert set(np.unique(calm.outcome)) <= {1, 2}
    wild = bl.simulate(learning_rate=50.0, momentum=0.9, steps=100, seeds=20, refresh_interval=8)
    assert set(np.unique(wild.outcome)) <= {3, 4, 5}
    vertex = bl.simulate(kl_weight=0.0, steps=5, seeds=2)
    assert "outcome" not in vertex
    assert vertex.attrs["no_outcome"]
    exact = bl.simulate(dynamics="mean_field", steps=5)
    assert exact.sizes["seed"] == 1
    assert "exact dynamics" in exact.attrs["no_outcome"]
    assert exact.attrs["precision"] == "float64"


@pytest.mark.parametrize(
    ("keywords", "line"),
    [
        ({"learning_rat": 1}, "learning_rat: expected a setting of simulate (did you mean learning_rate?), got an un"),
        ({"run_dir": "x"}, "run_dir: expected a setting of simulate"),
        ({"seeds": 0}, "seeds: expected an integer >= 1, got 0"),
        ({"path": "fast", "dynamics": "finite_group"}, "path: expected reference (dynamics=finite_group enumerates"),
        ({"dynamics": "finite_group", "bandit": {"name": "k_arm", "kind": "fixed"}}, "group_size: expected"),
        ({"refresh_interval": 2.5}, "refresh_interval: expected an integer"),
    ],
)
def test_bad_input_of_a_simulation(keywords, line):
    with pytest.raises(ValueError, match=re.escape(line)):
        bl.simulate(**keywords)


def test_the_example_of_the_readme_runs(capsys):
    example = next(code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "bl.simulate(" in code)
    assert len(example.splitlines()) <= 12
    exec(compile(example, "README.md", "exec"), {})
    assert [path.suffix for path in Path().iterdir()] == [".png"]


def test_a_notebook_shows_no_tables_that_a_command_prints(monkeypatch, capsys):
    """There rich hands what it prints to IPython, past the stdout that the interface keeps to itself."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    report.show(report.new_table("a title", "a column"), "a line")
    shown = capsys.readouterr().out
    assert "a title" in shown
    assert shown.endswith("a line\n")

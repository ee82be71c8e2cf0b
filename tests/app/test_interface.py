"""The Python interface: the commands as functions, with the command line's numbers, defaults and errors."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas
import pytest
import xarray
from omegaconf import OmegaConf

import bandit_lab as bl
from bandit_lab.app import interface, plugins
from bandit_lab.app.cli import BAD_INPUT, explicit_keys, main, rewritten
from bandit_lab.app.plots.style import style
from bandit_lab.app.settings import compose
from bandit_lab.app.settings.config import SCHEMAS
from bandit_lab.app.terminal import report
from bandit_lab.app.terminal.arguments import as_overrides
from bandit_lab.bandits import BANDITS, k_arm, two_arm
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.grpo.advantage import GRPO
from bandit_lab.grpo.staleness.lag import Lag
from bandit_lab.simulation import run

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


@pytest.mark.parametrize("command", SCHEMAS)
def test_defaults_are_those_of_the_command_line(command):
    plugins.load([])
    with compose.hydra_ready():
        expected = OmegaConf.to_container(compose.composed(command, []))
    assert OmegaConf.to_container(interface.composed(command, {"run_dir": "here"})[0]) == expected | {"run_dir": "here"}
    without = OmegaConf.to_container(interface.composed(command, {})[0])
    assert without == expected | {key: None for key in ("cache",) if key in expected}


SIGNED = ("predict", "sweep", "reproduce", "explore", "check")


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


ARRAYS = [
    np.array([0.9, 0.5]),
    np.array([0.9, 0.5], np.float32),
    jnp.array([0.9, 0.5]),
    pandas.Series([0.9, 0.5], index=["a", "b"]),
    xarray.DataArray([0.9, 0.5], dims="arm"),
    (0.9, 0.5),
]


@pytest.mark.parametrize("rewards", ARRAYS, ids=lambda one: type(one).__name__)
def test_arrays_are_accepted_where_a_list_is(rewards):
    """Single precision stands for the number that it prints: 0.9, and not 0.8999999761581421."""
    config, _ = interface.composed("predict", {"bandit": {"name": "k_arm", "rewards": rewards}})
    assert OmegaConf.to_container(config.bandit)["rewards"] == [0.9, 0.5]
    config, _ = interface.composed("sweep", {"sweep": {"learning_rate": rewards}, "momentum": jnp.float32(0.3)})
    assert OmegaConf.to_container(config.sweep) == {"learning_rate": [0.9, 0.5]}
    assert config.momentum == 0.3


def test_a_variant_may_be_an_object():
    """What is built, at either precision of JAX, its builder, and its name are the same setting."""
    setting = {"refresh_interval": 8, "learning_rate": 0.1, "staleness": "lag"}
    options = {"bandit": {"name": "k_arm", "rewards": [0.9, 0.5]}, "advantage": {"name": "grpo", "eps": 0.01}}
    expected = bl.predict(**options, **setting).to_dict()
    for double in (True, False):
        with jax.enable_x64(double):
            built = k_arm([0.9, 0.5])
        assert (
            bl.predict(**setting | {"staleness": Lag()}, bandit=built, advantage=GRPO(eps=0.01)).to_dict() == expected
        )
    assert "given" not in BANDITS
    of_builder = bl.predict(bandit=k_arm, **setting)
    assert of_builder.to_dict() == bl.predict(bandit="k_arm", **setting).to_dict() != expected
    few = {"steps": 5, "seeds": 3, "kl_weight": 0.0}
    runs = bl.simulate(bandit=k_arm([0.9, 0.5]), **few)
    np.testing.assert_array_equal(runs.reward_mean, bl.simulate(bandit=options["bandit"], **few).reward_mean)


@dataclass(frozen=True)
class Half:
    """An advantage that nobody registered: half of what GRPO gives."""

    smallest_group = 2
    linear = False
    centred = True
    drops_silent = False

    def advantages(self, values, shares, size):
        return 0.5 * GRPO().advantages(values, shares, size)


@dataclass(frozen=True)
class Linear(Half):
    """The same, which says that it is linear in the rewards."""

    linear = True


def test_an_object_that_is_not_registered_stands_for_one_call(monkeypatch):
    setting = {"dynamics": "mean_field", "refresh_interval": 2}
    half, whole = bl.predict(advantage=Half(), kl_weight=0.5, **setting), bl.predict(**setting)
    assert whole.stiffness == pytest.approx(2 * half.stiffness)
    monkeypatch.setattr(Half, "__module__", "__main__")  # as in a notebook, where a class has no file
    monkeypatch.delattr("__main__.__file__", raising=False)
    assert bl.predict(advantage=Half(), kl_weight=0.5, **setting).stiffness == half.stiffness
    with pytest.raises(ValueError, match=r"advantage: expected one of batch_std, .*, got 'given'"):
        bl.predict(advantage="given")
    with pytest.raises(ValueError, match=r"advantage: expected the name of a registered variant beside run_dir"):
        bl.predict(advantage=Half(), run_dir="here")
    with pytest.raises(ValueError, match=r"optimizer: expected a variant's name, .*, got <built-in function len>"):
        bl.predict(optimizer=len)


@pytest.mark.slow
def test_a_variant_is_checked_as_an_object(capsys):
    """One that is right passes. One that says of itself what is not so fails; its document is there all the same."""
    found = bl.check(advantage=Half())
    assert {row.variant for row in found.checks} == {"given"}
    assert found.failed == 0
    wrong = bl.check(advantage=Linear())
    assert wrong.failed == sum(row.status == "FAIL" for row in wrong.checks) > 0
    assert wrong.incomplete
    assert capsys.readouterr() == ("", "")
    assert list(Path().iterdir()) == []


def test_the_module_shows_its_functions_alone():
    assert dir(bl) == sorted(bl.__all__)
    assert set(interface.__all__) | {"__version__"} == set(bl.__all__)


ROWS = [{"step": 2 * i, "reward": 0.5 + 0.3 * np.sin(i / 5), "entropy": 1 / (i + 1)} for i in range(100)]
FRAME = pandas.DataFrame(ROWS)


def test_what_is_swept_must_be_traced():
    with pytest.raises(ValueError, match=r"sweep\.group_size: expected one of .* use -m"):
        bl.sweep(sweep={"group_size": [8, 16]})
    with pytest.raises(ValueError, match="bandit: expected a variant's name, or a dictionary"):
        bl.predict(bandit=3)


@pytest.mark.slow
def test_a_sweep_is_a_document_too(capsys):
    few = {"sweep": {"refresh_interval": [2], "learning_rate": {"num": 4}}, "momentum": 0.5, "dynamics": "mean_field"}
    found = bl.sweep(**few, pictures=False)
    assert capsys.readouterr() == ("", "")
    assert list(Path().iterdir()) == []
    assert found.data["threshold_exact"].attrs["units"]
    row = found.table("threshold").iloc[0]
    assert row["exact"] == pytest.approx(found.data["threshold_exact"].item())


def test_results_are_drawn_whole_or_on_given_axes():
    grid = {"sweep": {"refresh_interval": [1, 2], "learning_rate": {"num": 4}, "momentum": [0.0, 0.5]}}
    found = bl.sweep(**grid, dynamics="mean_field", run_dir="here")
    again = bl.sweep(**grid, dynamics="mean_field", run_dir="here")
    for one in (found, again):
        assert "stability is lost at" in one.plot().figure.texts[0].get_text().replace("\n", " ")
        assert "data:image/png" in one._repr_html_()
    figure = plt.figure()
    left, right = figure.subplots(1, 2)
    assert found.plot(ax=left) is left
    assert found.plot(ax=right, momentum=0.0).figure is figure
    titles = [axes.get_title() for axes in (left, right, found.plot(momentum=0.5))]
    assert titles == [rf"momentum $\mu$ = {momentum}" for momentum in ("0.5", "0", "0.5")]
    figure = plt.figure(figsize=(3.4, 2.6))  # of a small panel the legend covers a part
    shown, whole = found.plot(ax=figure.subplots(), momentum=0.5).get_legend(), plt.figure(figsize=(9, 9)).subplots()
    figure.draw_without_rendering()
    names = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    assert not any(box.overlaps(shown.get_window_extent()) for box in names.values())
    told = {text.get_text() for text in shown.get_texts()} | {name.replace("\n", " ") for name in names}
    assert {text.get_text().replace("\n", " ") for text in found.plot(ax=whole, momentum=0.5).texts} <= told
    column = found.plot(ax=plt.figure(figsize=(3.4, 3.4), layout="constrained").subplots())
    column.figure.draw_without_rendering()
    legend = column.get_legend().get_window_extent()  # below the axes, where it hides no data, and whole
    assert not legend.overlaps(column.get_window_extent())
    assert 0 <= legend.x0 < legend.x1 <= column.figure.bbox.x1
    assert legend.y0 >= 0
    plt.close("all")
    with pytest.raises(ValueError, match=r"plot: expected .* picture \(of branch, .* got Prediction"):
        bl.predict().plot()


def test_the_window_system_of_a_notebook_is_left_alone(monkeypatch):
    monkeypatch.setattr("builtins.__IPYTHON__", True, raising=False)
    before = plt.get_backend()
    plt.switch_backend("svg")
    with style():
        assert plt.get_backend() == "svg"
    plt.switch_backend(before)


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


def test_several_values_are_a_dimension_and_each_is_a_call_of_its_own():
    few = {"seeds": 20, "steps": 10, "kl_weight": 1.0}
    found = bl.simulate(learning_rate=jnp.array([0.1, 0.3]), refresh_interval=[1, 4], **few)
    assert found.sizes["learning_rate"] == found.sizes["refresh_interval"] == 2
    assert found.learning_rate.attrs["units"] == "logits per unit gradient"
    assert "learning_rate" not in found.attrs
    assert found.attrs["seeds"] == 20
    one = bl.simulate(learning_rate=0.3, refresh_interval=4, **few)
    part = found.sel(learning_rate=0.3, refresh_interval=4, drop=True)
    assert part.assign_attrs(one.attrs).identical(one)
    with pytest.raises(ValueError, match=r"learning_rate: expected a number > 0, got -1"):
        bl.simulate(learning_rate=[0.1, -1], **few)
    with pytest.raises(ValueError, match="momentum: expected at least one value"):
        bl.simulate(momentum=[], **few)


def test_curves_of_every_seed_are_the_runs_behind_the_mean():
    found = bl.simulate(seeds=20, steps=10, curves=True)
    assert found.reward.dims == ("seed", "step")
    np.testing.assert_allclose(found.reward.mean("seed"), found.reward_mean, rtol=1e-6)
    np.testing.assert_allclose(found.reward.var("seed"), found.reward_variance, rtol=1e-4, atol=1e-12)


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


def test_a_finished_run_is_opened_and_drawn_again(capsys):
    """What it says is what the command returned; a folder without a finished run is one line."""
    grid = {"sweep": {"refresh_interval": [1, 2], "learning_rate": {"num": 4}, "momentum": [0.0]}}
    found = bl.sweep(**grid, dynamics="mean_field", run_dir="swept")
    again = bl.load("swept")
    assert again.to_dict()["threshold"] == found.to_dict()["threshold"]
    again.plot().figure.savefig("again.pdf")
    assert Path("again.pdf").read_bytes().startswith(b"%PDF")
    plt.close("all")
    verdict = bl.predict(refresh_interval=8, run_dir="predicted").verdict
    assert bl.load(Path("predicted")).verdict == verdict
    Path("empty").mkdir()
    for folder in ("empty", "nowhere"):
        with pytest.raises(ValueError, match=r"folder: expected that of one finished run"):
            bl.load(folder)

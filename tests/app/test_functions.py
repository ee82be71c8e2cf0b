"""The functions of the package: settings as keywords, the numbers of the command, nothing printed and nothing left."""

import html
import json
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import bandit_lab as bl
from bandit_lab.app import plugins
from bandit_lab.app.cli import main
from bandit_lab.app.settings.names import NAMES
from bandit_lab.bandits import k_arm
from bandit_lab.grpo.advantage.grpo import GRPO
from bandit_lab.grpo.staleness.lag import Lag

LOOP: list = []
LOOP.append(LOOP)
FEW = {"sweep": {"refresh_interval": [1, 2], "learning_rate": {"num": 4}}, "momentum": 0.5, "dynamics": "mean_field"}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_names_are_those_of_the_registries():
    """But for the optimisers of optax, of which any may be named."""
    for kind, registry in plugins.chosen_from().items():
        ours = {name for name in registry if not registry.is_outside(name)}
        assert ours == set(NAMES[kind]) - ({"adam", "adamw"} if kind == "optimizer" else set()), kind


def test_a_document_holds_what_the_command_writes_and_nothing_is_printed_or_left(tmp_path, capsys):
    double = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    try:
        prediction = bl.predict(refresh_interval=8, learning_rate=0.1)
        assert not jax.config.jax_enable_x64
    finally:
        jax.config.update("jax_enable_x64", double)
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []
    assert main(["predict", "refresh_interval=8", "learning_rate=0.1", "run_dir=here"]) == 0
    assert prediction.to_dict() == json.loads(Path("here/summary.json").read_bytes())
    capsys.readouterr()
    bl.predict(refresh_interval=8, learning_rate=0.1, run_dir="there")
    assert capsys.readouterr() == ("", "")
    assert Path("there/summary.json").read_bytes() == Path("here/summary.json").read_bytes()
    assert Path("there/config.yaml").read_text() == Path("here/config.yaml").read_text().replace("here", "there")
    assert repr(prediction).startswith(prediction.verdict)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"learning_rate": -1}, "learning_rate"),
        ({"learning_rate": 5e-324}, "learning_rate"),
        ({"bandit": "two_arms"}, "bandit"),
        ({"bandit": {"name": "k_arm", "rewads": [1, 0]}}, "bandit.rewads"),
        ({"bandit": {"name": "two_arm", "rewards": [0.9, 1.1]}}, r"bandit.rewards\[1\]"),
        ({"bandit": {"name": "two_arm", "rewards": LOOP}}, "bandit.rewards"),
        ({"momentum": 10**400}, "momentum"),
        ({"momentum": 1j}, "momentum"),
        ({"advantage": "rloo", "group_size": 1}, "group_size"),
        ({"advantage": GRPO(), "run_dir": "here", "estimator": object()}, "estimator"),
    ],
)
def test_a_mistake_is_the_commands_line(given, key):
    with pytest.raises(ValueError, match=rf"^{key}: expected .*, got "):
        bl.predict(**given)


def test_objects_and_arrays_say_the_same_as_names():
    named = bl.predict(bandit={"name": "k_arm", "rewards": [0.9, 0.5, 0.1]}, staleness="lag", refresh_interval=3)
    given = bl.predict(bandit=k_arm((0.9, 0.5, 0.1)), staleness=Lag(), refresh_interval=np.int64(3))
    arrays = bl.predict(
        bandit={"name": "k_arm", "rewards": jnp.array([0.9, 0.5, 0.1], jnp.float32)}, staleness=Lag, refresh_interval=3
    )
    assert named.thresholds == given.thresholds == arrays.thresholds


@dataclass(frozen=True)
class Half:
    """An advantage that nobody registered: half of what GRPO gives."""

    smallest_group = 2
    linear = False
    centred = True
    drops_silent = False

    def advantages(self, values, shares, size):
        return 0.5 * GRPO().advantages(values, shares, size)


def test_an_object_that_nobody_registered_is_used_and_beside_a_folder_refused():
    whole, half = bl.predict(), bl.predict(advantage=Half())
    assert half.fixed_point.expected_reward < whole.fixed_point.expected_reward
    assert bl.simulate(advantage=Half(), seeds=4, steps=5, path="reference").sizes["seed"] == 4
    with pytest.raises(ValueError, match="advantage: expected the name of a registered variant beside run_dir"):
        bl.predict(advantage=Half(), run_dir="here")
    assert list(Path().iterdir()) == []


def test_a_sweep_is_a_document_too_and_its_folder_can_be_loaded(capsys):
    swept = bl.sweep(**FEW, run_dir="here")
    again = bl.load("here")
    assert capsys.readouterr() == ("", "")
    assert swept.data["threshold_exact"].attrs["units"]
    assert swept.table("threshold").iloc[0]["exact"] == pytest.approx(again.data["threshold_exact"].values.ravel()[0])
    assert repr(swept).startswith("refresh: stability is lost at ")
    figure = Figure(figsize=(3.4, 2.6))  # inches, a column of a paper
    axes = again.plot(ax=figure.subplots())
    assert {*axes.lines[0].get_xdata()} >= {1, 2}
    figure.draw_without_rendering()
    assert axes.get_legend().get_window_extent().y1 < axes.get_window_extent().y0
    drawn = figure.get_tightbbox()
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= 3.4
    assert drawn.y1 <= 2.6


def test_a_sweep_without_a_folder_is_that_of_a_folder_and_writes_nothing(tmp_path, monkeypatch):
    """Sampled runs that are kept, too. Planted: a temporary folder, which lost the verdict and a notebook's table."""
    monkeypatch.setattr("tempfile.mkdtemp", None)
    few = {**FEW, "dynamics": "sampled", "seeds": 8, "steps": 20, "sampled": {"multiple": [0.5, 1.2]}}
    held = bl.sweep(**few)
    assert list(tmp_path.iterdir()) == []
    bl.sweep(**few, run_dir="here")
    kept = bl.load("here")
    xarray.testing.assert_identical(kept.data[[*held.data.variables]], held.data)
    for swept in (held, kept):
        assert repr(swept).startswith(swept.verdict)
    assert html.escape(held.verdict) in held._repr_html_()
    assert "<td>" in held._repr_html_()


def test_runs_of_several_values_are_a_dimension():
    runs = bl.simulate(learning_rate=[0.1, 0.3], seeds=8, steps=20, curves=True)
    assert runs.reward_mean.dims == ("learning_rate", "step")
    alone = bl.simulate(learning_rate=0.3, seeds=8, steps=20, curves=True)
    np.testing.assert_array_equal(runs.reward.sel(learning_rate=0.3), alone.reward)

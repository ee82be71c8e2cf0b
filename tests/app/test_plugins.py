"""Variants from outside: modules, entry points, their settings, and mistakes in them, each of which is one line."""

import sys

import composing
import pytest
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from bandit_lab.app import plugins
from bandit_lab.app.cli import main

BANDIT = """
from bandit_lab.bandits import k_arm, register_bandit

@register_bandit("{name}")
def {name}(rewards=(0.8, 0.4), shift: float = 0.1, labels=("a", "b"), start=None, odd=object()):
    return k_arm([r - shift for r in rewards])
"""
SHAPELESS = """
from dataclasses import dataclass
import jax, jax.numpy as jnp
from bandit_lab.bandits import Bandit, RewardLaw, register_bandit

@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mine(Bandit):
    law: RewardLaw
    initial_parameters: jax.Array
    reference_log_policy: jax.Array

    def log_policy(self, theta):
        return jax.nn.log_sigmoid(jnp.stack([theta[0], -theta[0]]))

@register_bandit("mine")
def mine(rewards=(0.9, 0.1)):
    chances = jnp.array(rewards)
    law = RewardLaw(jnp.array([0.0, 1.0]), jnp.stack([1 - chances, chances], axis=-1)[None])
    return Mine(law, jnp.zeros(1), jnp.log(jnp.full((1, 2), 0.5)))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory whose modules can be imported; what they register is forgotten afterwards."""
    before = {kind: dict(registry._builders) for kind, registry in plugins.registries().items()}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [p for p in sys.path if p])
    yield tmp_path
    for kind, registry in plugins.registries().items():
        registry._builders = before[kind]
        ConfigStore.instance().repo.pop(kind, None)  # no variant of ours is there: they are files
    plugins._load_entry_points.cache_clear()


def composed(*arguments):
    return composing.composed("predict", *arguments)


def test_a_module_of_the_working_directory_brings_its_own_settings(folder):
    (folder / "plug_a.py").write_text(BANDIT.format(name="plug_a"))
    before = list(sys.path)
    plugins.load(["plug_a"])
    assert sys.path == before
    bandit = OmegaConf.to_container(composed("bandit=plug_a", "bandit.shift=0.2").bandit)
    assert bandit == {
        "name": "plug_a",
        "rewards": [0.8, 0.4],
        "shift": 0.2,
        "labels": ["a", "b"],
        "start": None,
        "odd": "???",  # no YAML has such a value: it has to be given
    }


def test_an_installed_package_announces_its_module(folder, capsys):
    (folder / "plug_c.py").write_text(BANDIT.format(name="plug_c"))
    (folder / "plug_c-1.0.dist-info").mkdir()
    (folder / "plug_c-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-c\nVersion: 1.0\n")
    points = folder / "plug_c-1.0.dist-info" / "entry_points.txt"
    points.write_text("[bandit_lab.variants]\nmine = plug_c\n")
    sys.path.append(str(folder))
    plugins._load_entry_points.cache_clear()
    assert main(["predict", "bandit=plug_c", "--cfg", "job"]) == 0
    assert "name: plug_c" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (BANDIT.format(name="two_arm"), ("bandit two_arm: expected one definition, got two", "tabular", "plug_bad")),
        ("def f(:\n", ("plugins: expected modules that can be imported, got 'plug_bad'", "SyntaxError")),
        (SHAPELESS, ("plugins: expected variants that keep the rules",)),
        (
            SHAPELESS.replace("chances =", "1 / 0; chances ="),
            ("bandit mine, plug_bad (", "ZeroDivisionError", "plug_bad.py:18"),
        ),
    ],
    ids=["twice", "syntax", "shape", "builder"],
)
def test_a_mistake_in_a_module_is_one_line(folder, source, words, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "plug_bad", raising=False)
    (folder / "plug_bad.py").write_text(source)
    assert main(["predict", "plugins=[plug_bad]", "run_dir=run", *["bandit=mine"] * (source.count("Mine") > 0)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert all(word in printed.err for word in words), printed.err


def test_an_unknown_option_of_a_plugin_is_named(folder, capsys):
    (folder / "plug_d.py").write_text(BANDIT.format(name="plug_d").replace(", odd=object()", ""))
    assert main(["predict", "plugins=[plug_d]", "bandit=plug_d", "bandit.color=1"]) == 2
    err = capsys.readouterr().err
    assert "bandit.color: expected a setting of bandit=plug_d (rewards, shift, labels, start)" in err

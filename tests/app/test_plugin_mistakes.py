"""Mistakes in a user's file: one line that names the file, or leads to `check`; exit 2."""

import sys

import pytest

from bandit_lab.app import plugins
from bandit_lab.app.cli import main
from bandit_lab.bandits import k_arm

HEAD = """
from dataclasses import dataclass
import jax, jax.numpy as jnp, optax
from bandit_lab.bandits import Bandit, RewardLaw, register_bandit
from bandit_lab.grpo import *
"""

BANDIT = (
    HEAD
    + """
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mine(Bandit):
    law: RewardLaw
    initial_parameters: jax.Array
    reference_log_policy: jax.Array

    def log_policy(self, theta):
        return jax.nn.log_sigmoid(jnp.stack([theta[0], -theta[0]]))[None]

@register_bandit("mine")
def mine(rewards=(0.9, 0.1), sharpness=1.0):
    chances = jnp.array(rewards)
    law = RewardLaw(jnp.array([0.0, 1.0]), jnp.stack([1 - chances, chances], axis=-1)[None])
    return Mine(law, jnp.zeros(1), jnp.log(jnp.full((1, 2), 0.5)))
"""
)

MISTAKES = {
    "no [None]": ((")[None]\n\n@reg", ")\n\n@reg"), ("plugins: expected variants that keep the rules",)),
    "misspelt": (("def log_policy", "def log_polcy"), ("log_policy",)),
    "no law": (("return Mine(law, ", "return Mine(None, "), ("plugins: expected variants", "AttributeError")),
    "an error in a method": (("return jax.nn", "self.nothing; return jax.nn"), ("nothing", "mine.py:15")),
    "an error in the builder": (
        ("chances = jnp", "1 / 0; chances = jnp"),
        ("bandit mine, mine (", "built from its options", "ZeroDivisionError", "mine.py:19"),
    ),
    "a branch on theta": (("return jax.nn", "assert theta[0] > -1; return jax.nn"), ("Tracer", "mine.py:15")),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory whose modules can be imported; what they register is forgotten afterwards."""
    before = {kind: dict(registry._builders) for kind, registry in plugins.registries().items()}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [p for p in sys.path if p])
    sys.modules.pop("mine", None)
    yield tmp_path
    for kind, registry in plugins.registries().items():
        registry._builders = before[kind]


def refused(capsys, *arguments) -> str:
    """The one line that a refused command prints."""
    assert main([*arguments, "plugins=[mine]", "run_dir=run"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_bandit_is_one_line(mistake, folder, capsys):
    (old, new), words = MISTAKES[mistake]
    assert old in BANDIT
    (folder / "mine.py").write_text(BANDIT.replace(old, new))
    said = refused(capsys, "predict", "bandit=mine")
    assert all(word in said for word in words), said


def test_the_traceback_is_there_for_who_asks(folder, monkeypatch):
    (folder / "mine.py").write_text(BANDIT.replace(*MISTAKES["an error in a method"][0]))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(AttributeError, match="nothing"):
        main(["predict", "bandit=mine", "plugins=[mine]"])


def test_a_good_file_is_left_alone(folder, capsys):
    (folder / "mine.py").write_text(BANDIT)
    plugins.load(["mine"])
    built = plugins.registries()["bandit"].build("mine", {"rewards": [0.8, 0.3]})
    assert built.law.means.tolist() == k_arm((0.8, 0.3)).law.means.tolist()

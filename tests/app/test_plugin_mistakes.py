"""Mistakes in a user's file: one line with file, method, what was expected and what was got; exit 2; no work."""

import sys

import pytest

from bandit_lab.app import plugins
from bandit_lab.app.cli import main
from bandit_lab.app.plugins import MISSING
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import OPTIMIZERS
from bandit_lab.lab.check.subject import settings_for

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
    "no [None]": (
        (")[None]\n\n@reg", ")\n\n@reg"),
        ("log_policy(theta [1]): expected an array [X, K] = [1, 2], got [2]", "[None]"),
    ),
    "misspelt": (("def log_policy", "def log_polcy"), ("log_policy: expected a method", "log_polcy looks like it")),
    "returns nothing": (("return jax.nn", "jax.nn"), ("log_policy(theta [1]): expected an array", "got None")),
    "NaN rewards": (("[0.0, 1.0]", "[0.0, jnp.nan]"), ("law.values: expected finite numbers, got [0.0, nan]",)),
    "NaN chances": (("jnp.array(rewards)", "jnp.array(rewards) * jnp.nan"), ("law.probabilities: expected finite",)),
    "NaN policy": (
        ("[theta[0], -theta[0]]", "[jnp.sqrt(theta[0] - 1), 0.0]"),
        ("log_policy(theta [1]) at initial_parameters: expected finite numbers, got [[nan",),
    ),
    "NaN slope": (
        ("[theta[0], -theta[0]]", "[jnp.sqrt(theta[0]), -jnp.sqrt(theta[0])]"),
        ("gradient of log_policy", "finite"),
    ),
    "not normalised": (
        ("jax.nn.log_sigmoid(", "("),
        ("exp(log_policy(theta [1])", "probabilities that add up to 1", "[[1.0, 1.0]]"),
    ),
    "law without contexts": (
        ("axis=-1)[None])", "axis=-1))"),
        ("law.probabilities: expected an array [X, K, U] = [1, 2, 2], got [2, 2]",),
    ),
    "a law of other chances": (
        ("1 - chances", "2 - chances"),
        ("law.probabilities: expected probabilities that add up to 1",),
    ),
    "no law": (("return Mine(law, ", "return Mine(None, "), ("law: expected a RewardLaw, got NoneType",)),
    "a number as parameters": (("jnp.zeros(1)", "0.0"), ("initial_parameters: expected an array [D], got float",)),
    "whole parameters": (
        ("jnp.zeros(1)", "jnp.zeros(1, int)"),
        ("initial_parameters: expected floating numbers, got int",),
    ),
    "a flat reference": (
        ("jnp.full((1, 2), 0.5)", "jnp.full(2, 0.5)"),
        ("reference_log_policy: expected an array [X, K], got [2]",),
    ),
    "an empty reference": (
        ("jnp.log(jnp.full((1, 2), 0.5))", "jnp.log(jnp.array([[1.0, 0.0]]))"),
        ("reference_log_policy: expected finite",),
    ),
    "an error in a method": (
        ("return jax.nn", "self.nothing; return jax.nn"),
        ("log_policy(theta [1])", "AttributeError", "nothing", "mine.py:15"),
    ),
    "an error in the builder": (
        ("chances = jnp", "1 / 0; chances = jnp"),
        ("built from its options", "ZeroDivisionError", "mine.py:19"),
    ),
    "wrong shapes in the builder": (
        ("[1 - chances, chances]", "[1 - chances, chances[:1]]"),
        ("built from its options", "ValueError", "mine.py"),
    ),
    "a branch on theta": (
        ("return jax.nn", "assert theta[0] > -1; return jax.nn"),
        ("log_policy(theta [1])", "TracerBoolConversionError", "mine.py:15"),
    ),
    "no dataclass of jax": (
        ("@jax.tree_util.register_dataclass\n", ""),
        ("class: expected one under @jax.tree_util.register_dataclass",),
    ),
    "rewards of one action": (
        (
            "    def log_policy",
            "    def sample_rewards(self, key, context, arms):\n        return 1.0\n\n    def log_policy",
        ),
        ("sample_rewards(key, context, arms [3]): expected an array [G] = [3], got []",),
    ),
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
def test_a_mistake_in_a_bandit_is_one_line_before_any_work(mistake, folder, capsys):
    (old, new), words = MISTAKES[mistake]
    assert old in BANDIT
    (folder / "mine.py").write_text(BANDIT.replace(old, new))
    said = refused(capsys, "predict", "bandit=mine")
    assert all(word in said for word in ("bandit mine, mine (", "mine.py:", *words)), said
    assert not (folder / "run").exists()


RULE = (
    HEAD
    + """
@register_{kind}("mine")
@dataclass(frozen=True)
class Mine:
    smallest_group = 2
    linear = centred = drops_silent = at_snapshot = sampled = False

    def advantages(self, values, shares, size):
        return values - jnp.sum(values * shares, axis=0)

    def weight(self, ratio, advantage):
        return ratio

    def slope(self, log_policy, log_reference):
        return log_policy - log_reference

    def divergence(self, log_policy, log_reference):
        return jnp.sum(log_policy - log_reference, axis=-1)
"""
)
STALENESS = (
    HEAD
    + """
@register_staleness("mine")
@dataclass(frozen=True)
class Mine(Refresh):
    def behaviour(self, state, theta, step, interval, key=None):
        return theta, (theta, theta)
"""
)
OPTIMIZER = (
    HEAD
    + """
@register_optimizer("mine")
def mine(learning_rate, momentum):
    return optax.sgd(learning_rate).update
"""
)
OTHERS = {
    "advantage, mean lost": (
        "advantage",
        ("values - jnp.sum", "jnp.sum"),
        ("advantages(values [4], shares [4], 4): expected an array [U] = [4], got []",),
    ),
    "advantage, many laws": (
        "advantage",
        ("values - jnp.sum", "values.ravel() - jnp.sum"),
        ("advantages(values [3, 1], shares [3, 3], 4): expected an array [U, L] = [3, 3], got [3]",),
    ),
    "advantage, equal rewards": (
        "advantage",
        ("values - jnp.sum(values * shares, axis=0)", "values / jnp.std(values, axis=0)"),
        ("advantages of a group of equal rewards: expected finite numbers",),
    ),
    "advantage, as it was written before": (
        "advantage",
        ("def advantages(self, values, shares, size):", "def population(self, values, shares, size=None):"),
        (
            "expected one method advantages(values [U, L], shares [U, L], size or None) -> [U, L]",
            "got population",
        ),
    ),
    "advantage, shares forgotten": (
        "advantage",
        ("jnp.sum(values * shares, axis=0)", "jnp.mean(values, axis=0)"),
        ("the same as shares of its values as for each by itself",),
    ),
    "advantage, groups mixed up": (
        "advantage",
        ("jnp.sum(values * shares, axis=0)", "jnp.sum(values * shares)"),
        ("the same as shares of its values as for each by itself",),
    ),
    "advantage, not frozen": (
        "advantage",
        ("(frozen=True)", "(frozen=False)"),
        ("class: expected a frozen dataclass", "unhashable"),
    ),
    "estimator, nothing returned": (
        "estimator",
        ("return ratio", "pass"),
        ("weight(ratio, advantage): expected a number, got None",),
    ),
    "estimator, misspelt": ("estimator", ("def weight", "def wait"), ("weight: expected a method",)),
    "estimator, an error": (
        "estimator",
        ("return ratio", "return ratio + none"),
        ("weight(ratio, advantage)", "NameError", "mine.py:17"),
    ),
    "KL, misspelt": ("kl", ("def slope", "def slop"), ("without slope",)),
    "KL, over arms": (
        "kl",
        ("return jnp.sum(log_policy - log_reference, axis=-1)", "return log_policy"),
        ("divergence(log_policy [2, 2], log_reference [2, 2]): expected an array [X] = [2], got [2, 2]",),
    ),
}


@pytest.mark.parametrize("mistake", OTHERS)
def test_a_mistake_in_a_rule_is_one_line_before_any_work(mistake, folder, capsys):
    kind, (old, new), words = OTHERS[mistake]
    code = RULE.replace("{kind}", kind)
    assert old in code
    (folder / "mine.py").write_text(code.replace(old, new))
    setting = "kl_estimator" if kind == "kl" else kind
    said = refused(capsys, "predict", f"{setting}=mine", "group_size=4")
    assert all(word in said for word in (f"{setting} mine", "mine.py:", *words)), said


def test_a_mistake_in_a_memory_or_an_optimiser_is_one_line(folder, capsys):
    (folder / "mine.py").write_text(STALENESS)
    said = refused(capsys, "predict", "staleness=mine")
    assert "behaviour(state, theta [2], step, interval, key): expected a state as init gives it, (2,), got" in said
    sys.modules.pop("mine")
    (folder / "mine.py").write_text(OPTIMIZER)
    said = refused(capsys, "predict", "optimizer=mine")
    assert "mine.py:7): returned: expected an optax.GradientTransformation, got function" in said


def test_sweep_and_check_refuse_the_same_and_the_traceback_is_there_for_who_asks(folder, capsys, monkeypatch):
    (folder / "mine.py").write_text(BANDIT.replace(*MISTAKES["no [None]"][0]))
    assert "log_policy(theta [1])" in refused(capsys, "sweep", "bandit=mine")
    assert "log_policy(theta [1])" in refused(capsys, "check")
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="log_policy"):
        main(["predict", "bandit=mine", "plugins=[mine]"])


@pytest.mark.usefixtures("compiled_quickly")
def test_every_variant_of_the_package_stands_the_same_look():
    for kind, registry in plugins.registries().items():
        for name in registry if registry.probe else ():
            options = {"rewards": [0.8, 0.3]} if name == "k_arm" else settings_for(kind, name)
            assert MISSING not in options.values()
            if kind == "optimizer":
                OPTIMIZERS.probe(OPTIMIZERS[name](0.1, 0.5))
            else:
                registry.probe(registry.build(name, options))


def test_a_good_file_is_left_alone(folder, capsys):
    (folder / "mine.py").write_text(BANDIT)
    plugins.load(["mine"])
    built = plugins.registries()["bandit"].build("mine", {"rewards": [0.8, 0.3]})
    assert built.law.means.tolist() == k_arm((0.8, 0.3)).law.means.tolist()

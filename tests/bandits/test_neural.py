"""Networks that write sequences: probabilities, causality, tasks, the same start in every precision, bad input."""

import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.bandits.neural import TASKS, register_task

pytest.importorskip("equinox", reason="the extra 'neural' is not installed")
from bandit_lab.bandits import neural as module
from bandit_lab.bandits.neural import NETWORKS, neural, register_network

ARCHITECTURES = ("mlp", "gru", "transformer")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_probabilities_of_all_sequences_add_up_and_the_start_is_the_reference(architecture):
    bandit = neural(3, 2, 3, architecture=architecture, width=4)
    theta = bandit.initial_parameters
    np.testing.assert_allclose(bandit.log_policy(theta), bandit.reference_log_policy, rtol=0, atol=1e-14)
    away = theta + 0.3 * jax.random.normal(jax.random.key(0), theta.shape)
    np.testing.assert_allclose(jnp.exp(bandit.log_policy(away)).sum(axis=1), 1, rtol=1e-12)
    assert np.max(np.abs(bandit.log_policy(away) - bandit.reference_log_policy)) > 1e-2


def sees_the_future(bandit) -> bool:
    """Whether the probability of a token depends on those after it, at parameters away from the start."""
    theta = bandit.initial_parameters + 0.5 * jax.random.normal(jax.random.key(1), bandit.initial_parameters.shape)
    each = np.asarray(bandit.log_token_policy(theta))  # [L, X, K]
    tokens = np.asarray(bandit.tokens)
    for place in range(tokens.shape[1]):
        for prefix in np.unique(tokens[:, : place + 1], axis=0):
            same = np.all(tokens[:, : place + 1] == prefix, axis=1)
            if np.max(np.ptp(each[place][:, same], axis=1)) > 1e-12:
                return True
    return False


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_token_depends_on_those_before_it_only(architecture):
    assert not sees_the_future(neural(2, 2, 3, architecture=architecture, width=4))


def test_a_network_that_sees_the_future_is_refused(monkeypatch):
    """And the planted defect of the test above: all tokens are read at every place."""
    import equinox as eqx

    class Blind(eqx.Module):
        weights: jax.Array

        def __call__(self, context, tokens):
            return jnp.sum(tokens) * self.weights

    register_network("sees_all")(lambda contexts, vocabulary, length, width, depth, key: Blind(
        jax.random.normal(key, (length, vocabulary))))  # fmt: skip
    try:
        with pytest.raises(ValueError, match=r"architecture sees_all: expected logits .*, got 'others at token 1'"):
            neural(2, 2, 3, architecture="sees_all")
        monkeypatch.setattr(module, "_check_causal", lambda *arguments: None)
        assert sees_the_future(neural(2, 2, 3, architecture="sees_all"))
    finally:
        NETWORKS._builders.pop("sees_all")


def test_the_start_is_the_same_in_both_precisions():
    in_double = np.asarray(neural(architecture="transformer", width=4).initial_parameters)
    with jax.enable_x64(False):
        in_single = np.asarray(neural(architecture="transformer", width=4).initial_parameters)
    assert in_single.dtype == np.float32
    np.testing.assert_array_equal(in_double.astype(np.float32), in_single)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_single_precision_stays_single(architecture):
    """Also where double precision is enabled: runs are in float32 there."""
    bandit = neural(architecture=architecture, width=4)
    single = jax.tree.map(lambda x: x.astype(np.float32) if x.dtype == np.float64 else x, bandit)
    assert single.log_policy(single.initial_parameters).dtype == np.float32
    text = str(jax.make_jaxpr(single.log_policy)(single.initial_parameters))
    assert not re.search(r"f64\[[^\]]*\] = (dot_general|tanh|exp)", text)


def test_two_builds_share_a_compiled_program():
    """The static part compares by value: only the numbers differ between seeds."""
    one, other = neural(seed=0), neural(seed=1)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert hash(jax.tree.structure(one)) == hash(jax.tree.structure(other))
    assert jax.tree.structure(neural(width=4)) != jax.tree.structure(one)


def test_a_task_of_ones_own_and_a_table_of_rewards():
    register_task("first_is_one")(
        lambda tokens, contexts, vocabulary, seed: np.tile(tokens[:, 0] == 1.0, (contexts, 1))
    )
    try:
        bandit = neural(task="first_is_one", high=1.0, low=0.0)
        np.testing.assert_array_equal(bandit.true_means, [[0, 0, 1, 1]] * 2)
    finally:
        TASKS._builders.pop("first_is_one")
    table = [[0.0, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 1.0]]
    np.testing.assert_allclose(neural(rewards=table).true_means, table, rtol=1e-15)


def test_the_example_of_the_page_is_a_plugin(tmp_path, monkeypatch, capsys):
    from bandit_lab.app import cli

    page = (Path(__file__).parents[2] / "docs" / "neural.md").read_text(encoding="utf-8")
    (code,) = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "@register_" in one]
    (tmp_path / "my_net.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    chosen = re.search(r"'(plugins=\[my_net\])' (bandit=\S+) (\S+) (\S+)`", page).groups()
    try:
        assert cli.main(["predict", *chosen, "dynamics=mean_field", "bandit.contexts=1", "run_dir=out"]) == 0
        assert "exact threshold" in capsys.readouterr().out
    finally:
        NETWORKS._builders.pop("linear", None)
        TASKS._builders.pop("palindrome", None)
        sys.modules.pop("my_net", None)

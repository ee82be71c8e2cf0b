"""Samplers and corrections by themselves: laws, limits in which they are none, bad options."""

import re
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner

from bandit_lab.bandits.sequence import SequenceBandit, sequence
from bandit_lab.grpo import (
    CORRECTIONS,
    SAMPLERS,
    Clipped,
    LogitNoise,
    Masked,
    OwnLaw,
    Rounding,
    Temperature,
    TopK,
    TopP,
    Truncated,
    Uncorrected,
)
from bandit_lab.simulation import drift_of

POLICY = np.array([[0.5, 0.2, 0.2, 0.1], [0.1, 0.1, 0.1, 0.7]])
LAWS = {
    "hot": (Temperature(2.0), np.sqrt(POLICY) / np.sqrt(POLICY).sum(axis=1, keepdims=True)),
    "nucleus": (TopP(0.6), [[5 / 7, 2 / 7, 0, 0], [0, 0, 0, 1]]),
    "nucleus of one": (TopP(0.5), [[1, 0, 0, 0], [0, 0, 0, 1]]),
    "likeliest": (TopK(2), [[5 / 7, 2 / 7, 0, 0], [1 / 8, 0, 0, 7 / 8]]),
    "noise": (LogitNoise((np.log(2), 0, 0, 0)), [[10 / 15, 2 / 15, 2 / 15, 1 / 15], [2 / 11, 1 / 11, 1 / 11, 7 / 11]]),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_are_their_definitions(name):
    """Equal answers at a cut: the first of them is kept. To 1e-12."""
    sampler, expected = LAWS[name]
    np.testing.assert_allclose(np.exp(sampler.log_law(jnp.log(POLICY))), expected, atol=1e-12)


def test_rounded_logits_stand_on_the_grid_of_their_type():
    """bf16 keeps 8 bits of a mantissa, fp8 4: 2.3 is 2.296875, or 2.25. Beyond 240 fp8 is 240."""
    for kind, logit in (("bf16", 2.296875), ("fp8", 2.25)):
        rounded = Rounding(kind).log_law(jax.nn.log_softmax(jnp.array([[2.3, -2.3]])))
        np.testing.assert_allclose(rounded[0, 0] - rounded[0, 1], 2 * logit, rtol=1e-12)
    rounded = Rounding("fp8").log_law(jnp.array([[0.0, -1e3]]))
    np.testing.assert_allclose(rounded[0, 0] - rounded[0, 1], 480.0, rtol=1e-12)


def drift(places=((0.4, -0.2, 0.1), (0.1, 0.3, -0.5)), dynamics="finite_group", **rules):
    one = drift_of(learner(estimator=Uncorrected(), group_size=4, **rules), dynamics)
    return np.asarray(one(*map(jnp.asarray, places), 0.7))


@pytest.mark.parametrize(
    "sampler", [Temperature(1.0), TopP(1.0), TopK(3), LogitNoise(std=0.0), LogitNoise((0.3, 0.3, 0.3))], ids=repr
)
def test_samplers_that_change_nothing(sampler):
    """The drift is the policy's own to 1e-14; a static noise that does change it is seen."""
    np.testing.assert_allclose(drift(sampler=sampler), drift(), atol=1e-14)
    assert np.max(np.abs(drift(sampler=LogitNoise(std=0.1)) - drift())) > 1e-3


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_correction_of_nothing_is_nothing(name):
    """Where the policy itself draws, bit for bit; where another law draws each one is seen."""
    rule = CORRECTIONS.build(name, {"largest": 1.1} if name == "tis" else {})
    np.testing.assert_array_equal(drift(correction=rule), drift())
    hot = {"sampler": Temperature(0.6)}
    assert (np.max(np.abs(drift(correction=rule, **hot) - drift(**hot))) > 1e-3) == (name != "none")


def test_importance_weights_repair_the_direction_and_leave_the_std():
    """Infinite groups: mean-only, the policy's own drift; with the std, its own times sigma_pi/sigma_b. To 1e-12."""
    places = ((1.5, 0.3, -0.5),) * 2
    rules = {"sampler": Temperature(0.6), "correction": CORRECTIONS.build("importance", {})}

    def reward_part(advantage, **more):
        trained = learner(advantage, estimator=Uncorrected(), **more)
        return np.asarray(drift_of(trained, "mean_field")(*map(jnp.asarray, places), 0.0)), trained

    own, _ = reward_part("dr_grpo")
    np.testing.assert_allclose(reward_part("dr_grpo", **rules)[0], own, atol=1e-12)
    own, trained = reward_part("grpo")
    policy = np.exp(np.asarray(trained.bandit.log_policy(jnp.asarray(places[0]))))[0]
    drawn = policy ** (1 / 0.6) / np.sum(policy ** (1 / 0.6))
    wins = np.array([law @ np.asarray(trained.bandit.law.means)[0] for law in (policy, drawn)])
    own_std, std = np.sqrt(wins * (1 - wins))
    np.testing.assert_allclose(reward_part("grpo", **rules)[0], own * own_std / std, atol=1e-12)
    assert abs(own_std / std - 1) > 0.01


BAD = [
    ("sampler", "temperature", {"tau": 0}, "sampler.tau: expected a number > 0, got 0"),
    ("sampler", "top_p", {"p": 1.5}, "sampler.p: expected a number in (0, 1], got 1.5"),
    ("sampler", "logit_noise", {"noise": [1, "a"]}, "sampler.noise[1]: expected a finite number, got 'a'"),
    ("sampler", "rounding", {"format": "int4"}, "sampler.format: expected one of bf16, fp8, got 'int4'"),
    ("correction", "tis", {"largest": 0.5}, "correction.largest: expected a number >= 1, got 0.5"),
]


@pytest.mark.parametrize(("kind", "name", "options", "line"), BAD)
def test_bad_options_are_one_line(kind, name, options, line):
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        {"sampler": SAMPLERS, "correction": CORRECTIONS}[kind].build(name, options)


@pytest.mark.parametrize("sampler", [TopK(2), TopP(0.5)], ids=repr)
def test_weights_need_every_answer(sampler):
    """Importance weights of answers that are never drawn are refused, those of the estimator and of the correction."""
    learner(sampler=sampler)
    for rules in ({"estimator": Clipped()}, {"correction": Truncated()}, {"correction": Masked()}):
        (rule,) = rules.values()
        line = f"sampler: expected one that can draw every answer, as the weights {rule!r} need, got {sampler!r}"
        with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
            learner(sampler=sampler, **rules)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AnyOrder(SequenceBandit):
    """Sequences of which nothing is said."""

    lexicographic = False


def test_sequences_in_no_known_order_have_no_sampler():
    bandit = sequence()
    unordered = AnyOrder(bandit.law, bandit.initial_parameters, bandit.reference_log_policy, bandit.tokens)
    line = "sampler: expected exact where sequences are not said to be in lexicographic order, got Temperature"
    with pytest.raises(ValueError, match=line):
        learner(bandit=unordered, sampler=Temperature())
    learner(bandit=unordered, sampler=OwnLaw())
    learner(bandit=bandit, sampler=Temperature())

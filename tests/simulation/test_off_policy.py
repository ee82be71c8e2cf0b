"""Effective sample size, chi^2, KL, masked share and cosine: against sums by hand, along runs, from `simulate`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner

import bandit_lab as bl
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import (
    CORRECTIONS,
    ESTIMATORS,
    Hyper,
    Masked,
    Temperature,
    TopK,
    Truncated,
    init,
    update,
)
from bandit_lab.simulation import sampled
from bandit_lab.simulation.off_policy import Distance, distance, off_policy

THETA, BEHAVIOUR = np.array([1.2, 0.1, -0.6]), np.array([0.2, 0.3, -0.1])
SUCCESS = np.array([0.8, 0.55, 0.2])  # of `settings.learner`


def law(logits):
    weights = np.exp(logits - np.max(logits))
    return weights / weights.sum()


def tempered(policy, tau):
    return law(np.log(policy) / tau)


def by_hand(drawn, policy, weight):
    """The four numbers. weight: (arm, sign of the advantage) -> factor."""
    joint = [
        (drawn[k] * chance, weight(k, sign))
        for k in range(len(drawn))
        for sign, chance in ((1, SUCCESS[k]), (-1, 1 - SUCCESS[k]))
    ]
    mean, square = (sum(chance * w**power for chance, w in joint) for power in (1, 2))
    some = drawn > 0
    return (
        mean**2 / square,
        sum(chance for chance, w in joint if w == 0),
        np.sum(policy[some] ** 2 / drawn[some]) - np.sum(drawn),
        np.sum(drawn[some] * np.log(drawn[some] / policy[some])),
    )


OLD, NEW = law(BEHAVIOUR), law(THETA)
HOT = tempered(OLD, 1.6)
FEW = np.array([OLD[0], OLD[1], 0]) / OLD[:2].sum()


def clip(k, sign):
    ratio = NEW[k] / OLD[k]
    return 0.0 if (sign > 0 and ratio > 1.2) or (sign < 0 and ratio < 0.8) else ratio


def mask(k, sign):
    mismatch = OLD[k] / HOT[k]
    return mismatch * (0.9 <= mismatch <= 1.3)


CASES = {
    "ratio": ({"estimator": ESTIMATORS["ratio"]()}, OLD, lambda k, sign: NEW[k] / OLD[k]),
    "clipped": ({"estimator": ESTIMATORS["clipped"]()}, OLD, clip),
    "clipped, importance": (
        {"estimator": ESTIMATORS["clipped"](), "sampler": Temperature(1.6),
         "correction": CORRECTIONS.build("importance", {})}, HOT, lambda k, sign: clip(k, sign) * OLD[k] / HOT[k]),
    "truncated": (
        {"sampler": Temperature(1.6), "correction": Truncated(1.05)}, HOT, lambda k, sign: min(OLD[k] / HOT[k], 1.05)),
    "masked": ({"sampler": Temperature(1.6), "correction": Masked(0.9, 1.3)}, HOT, mask),
    "few": ({"sampler": TopK(2)}, FEW, lambda k, sign: 1.0),
}  # fmt: skip


def measured(trained):
    return [float(x) for x in distance(trained, jnp.asarray(THETA), jnp.asarray(BEHAVIOUR))]


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_their_definitions(name):
    """To 1e-12. Planted: the policy's own law, or no weights, give others."""
    rules, drawn, weight = CASES[name]
    found = measured(learner(**rules))
    np.testing.assert_allclose(found, by_hand(drawn, NEW, weight), rtol=1e-12, atol=1e-14)
    swapped = by_hand(NEW, np.maximum(drawn, 1e-3), weight)
    unweighted = by_hand(drawn, NEW, lambda k, sign: NEW[k] if name == "few" else 1.0)
    planted = [swapped, unweighted]
    assert all(np.max(np.abs(np.subtract(found, other))) > 1e-3 for other in planted)


def test_second_moments_mask_by_group():
    """m2po at a threshold between the squares of two log ratios leaves the others out, by their share."""
    change = np.log(NEW / OLD) ** 2
    order = np.argsort(change)
    kept = order[:1]
    bound = float((change[order[0]] * OLD[order[0]] + change[order[1]] * OLD[order[1]]) / OLD[order[:2]].sum())
    assert bound > change[order[0]]
    found = measured(learner(estimator=ESTIMATORS.build("m2po", {"threshold": 0.99 * bound})))
    np.testing.assert_allclose(found[1], 1 - OLD[kept].sum(), rtol=1e-12)


def test_tokens_have_weights_of_their_own():
    """Sequences under a hot sampler, masked: with `clipped` the share is of tokens, with `ratio` of sequences."""
    bandit = sequence()
    theta = jnp.asarray(np.random.default_rng(0).normal(size=bandit.initial_parameters.shape))
    tokens = np.asarray(bandit.log_token_policy(theta))
    rule = {"sampler": Temperature(1.8), "correction": Masked(0.9, 1.1)}
    shares = {}
    for name in ("clipped", "ratio"):
        trained = learner(bandit=bandit, estimator=ESTIMATORS[name](), **rule)
        shares[name] = float(distance(trained, theta, theta)[1])
    drawn = [_hot(part) for part in _rows(tokens)]
    law_of = np.exp(np.sum(drawn, axis=0))
    apart = [part - hot for part, hot in zip(tokens, drawn, strict=True)]
    outside = lambda x: (np.exp(x) < 0.9) | (np.exp(x) > 1.1)  # noqa: E731
    by_token = np.mean([np.sum(law_of * outside(x)) for x in apart]) / len(law_of)
    whole = np.sum(law_of * outside(np.sum(apart, axis=0))) / len(law_of)
    np.testing.assert_allclose([shares["clipped"], shares["ratio"]], [by_token, whole], rtol=1e-9)
    assert abs(by_token - whole) > 0.01


def _rows(tokens):
    """[L][X, K] log-probabilities, with the size of a beginning: tokens of one vocabulary, lexicographic."""
    length, _, arms = tokens.shape
    size = round(arms ** (1 / length))
    return [(part, size, size ** (length - 1 - place)) for place, part in enumerate(tokens)]


def _hot(row):
    part, size, behind = row
    x, arms = part.shape
    own = part.reshape(x, arms // (size * behind), size, behind)
    logits = own / 1.8
    return (logits - np.log(np.sum(np.exp(logits), axis=2, keepdims=True))).reshape(x, arms)


SEEDS, STEPS = 5, 6
RULES = {"estimator": ESTIMATORS["clipped"](), "sampler": Temperature(1.4), "correction": Truncated(1.2)}
CELL = Hyper(0.7, 0.4, 2, 0.5)


def along(trained, key):
    """The four numbers and the cosine of every update of one run, step by step."""
    gradient, state = sampled(trained), init(trained, CELL, jnp.asarray(trained.bandit.initial_parameters))
    rows, before = [], None
    for _ in range(STEPS):
        state, info = update(trained, gradient, CELL, key, state)
        now = np.asarray(info.gradient)
        cosine = np.nan if before is None else now @ before / np.linalg.norm(now) / np.linalg.norm(before)
        rows.append([*map(float, distance(trained, info.theta, info.behaviour)), cosine])
        before = now
    return np.array(rows)


def test_runs_are_seen_at_every_update():
    """Means over five runs to 1e-9, float64. Planted: cosines one update later, or of another run, are others."""
    trained = learner(staleness="lag", horizon=2, **RULES)
    found = np.stack(off_policy(trained, CELL, steps=STEPS, seeds=SEEDS, seed=3, dtype=np.float64), axis=1)
    from bandit_lab.simulation.cells import cell_identity

    name = cell_identity(Hyper(*(np.array([x]) for x in CELL)))[0]
    root = jax.random.fold_in(jax.random.key(3), name)
    runs = np.stack([along(trained, jax.random.fold_in(root, n)) for n in range(SEEDS)])
    np.testing.assert_allclose(found[1:], runs.mean(axis=0)[1:], rtol=1e-9, atol=1e-12)
    assert np.isnan(found[0, 4])
    assert np.max(np.abs(np.diff(found[1:, 4]))) > 1e-3
    assert np.max(np.abs(runs[0] - found)[1:]) > 1e-3


def test_nothing_is_off_policy_on_policy():
    trained = learner(estimator=ESTIMATORS["clipped"]())
    found = Distance(*off_policy(trained, Hyper(0.5, 0.0, 1, 1.0), steps=3, seeds=2, dtype=np.float64))
    np.testing.assert_allclose(found.effective_sample_size, 1, rtol=1e-12)
    for one in (found.masked, found.chi_square, found.sampler_kl):
        np.testing.assert_allclose(one, 0, atol=1e-12)


SIMULATED = {"learning_rate": 0.5, "steps": 4, "seeds": 3, "bandit": {"name": "two_arm"}}


def test_simulate_has_them_where_another_law_draws():
    """By default with a sampler alone; asked for, with any learner that is drawn; the runs themselves are the same."""
    own = bl.simulate(**SIMULATED)
    assert "sampler_kl" not in own
    asked = bl.simulate(**SIMULATED, estimator="clipped", off_policy=True)
    assert asked.effective_sample_size.dims == ("update",)
    hot = bl.simulate(**SIMULATED, sampler={"name": "temperature", "tau": 1.5})
    assert hot.sampler_kl.attrs["units"] == "nats"
    assert float(hot.sampler_kl[-1]) > 1e-4
    without = bl.simulate(**SIMULATED, sampler={"name": "temperature", "tau": 1.5}, off_policy=False)
    np.testing.assert_array_equal(hot.final_policy, without.final_policy)
    assert "sampler_kl" not in without
    many = bl.simulate(**{**SIMULATED, "learning_rate": [0.1, 0.5]}, estimator="clipped", off_policy=True)
    assert many.masked.dims == ("learning_rate", "update")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dynamics": "mean_field"}, "off_policy: expected false with exact dynamics: nothing is drawn, got True"),
        ({"staleness": {"name": "random_mean"}}, "off_policy: expected false where several policies act at once, got"),
    ],
)
def test_what_cannot_be_measured_is_said(settings, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        bl.simulate(**SIMULATED, **settings, off_policy=True)

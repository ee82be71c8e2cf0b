"""Every option of every bandit is varied against a few lines of NumPy that share no code with the package.

The registries say which options there are. One that nothing varies fails here, with what to write.
"""

from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.bandits import BANDITS
from bandit_lab.bandits.neural import TASKS

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def log_softmax(x):
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


def bandit_by_hand(means, variances, reference, start, policy, reported=None):
    """What a bandit is: [X, K] each, start [D], policy: parameters [D] -> log-probabilities [X, K]."""
    means = np.atleast_2d(np.asarray(means, float))
    reported = means if reported is None else np.atleast_2d(np.asarray(reported, float))
    return {"means": means, "variances": np.atleast_2d(variances), "reported": reported, "start": np.asarray(start),
            "reference": np.atleast_2d(log_softmax(np.asarray(reference, float))), "policy": policy}  # fmt: skip


def softmax_arms(theta):
    return log_softmax(theta)[None]


def k_arm(rewards=(0.9, 0.7, 0.5, 0.3, 0.1), reference_logits=None, initial_logits=None, kind="bernoulli", **more):
    rewards, flat = np.array(rewards), np.zeros(len(rewards))
    variances = rewards * (1 - rewards) if kind == "bernoulli" else flat
    reference = flat if reference_logits is None else reference_logits
    return bandit_by_hand(
        rewards, variances, reference, flat if initial_logits is None else initial_logits, softmax_arms, **more
    )


def two_arm(rewards=(0.9, 0.1), **options):
    return k_arm(rewards, **options)


def gaussian(rewards=(1.0, 0.5, 0.0), stds=(0.5, 0.5, 0.5), **options):
    return k_arm(rewards, kind="fixed", **options) | {"variances": np.array([stds]) ** 2}


def modes(rewards=(0.9, 0.9, 0.1, 0.1), sizes=(2, 2, 4, 8), spread=0.0, seed=0):
    logits = spread * np.random.default_rng(seed).standard_normal(sum(sizes))
    return k_arm([r for r, n in zip(rewards, sizes, strict=True) for _ in range(n)], logits, logits)


def proxy(rewards=(0.9, 0.6, 0.1), true_rewards=(0.2, 0.8, 0.1), **options):
    return k_arm(rewards, reported=true_rewards, **options)


def noisy_verifier(rewards=(1.0, 0.0), true_positive=0.8, false_positive=0.3, **options):
    return k_arm([true_positive * r + false_positive * (1 - r) for r in rewards], reported=rewards, **options)


def contextual(contexts=8, arms=4, overlap=0.0, conflict=0.0, difficulty=0.0, spread=1.0, high=1.0, low=0.0,
               dimension=None, seed=0, features=None, rewards=None):  # fmt: skip
    draw = np.random.default_rng(seed)
    odds = difficulty + spread * draw.standard_normal(contexts)
    success, logits = np.full((contexts, arms), low), np.full((contexts, arms), -np.log(arms - 1.0))
    for x in range(contexts):
        good = int(x >= contexts - round(conflict * contexts))
        success[x, good], logits[x, good] = high, -odds[x]
    count = (contexts + 1) * arms
    parts = np.eye(count) if dimension is None else draw.standard_normal((count, dimension)) / np.sqrt(dimension)
    own, shared = parts[: contexts * arms].reshape(contexts, arms, -1), parts[contexts * arms :]
    phi = np.sqrt(1 - overlap) * own + np.sqrt(overlap) * shared[None] if features is None else np.array(features)
    success = success if rewards is None else np.array(rewards)
    bandit = bandit_by_hand(success, success * (1 - success), logits, np.zeros(phi.shape[-1]), None)
    return bandit | {"policy": lambda theta: log_softmax(bandit["reference"] + phi @ theta)}


def sequence(vocabulary=2, length=3, rewards=None, initial_logits=None):
    tokens, free = list(product(range(vocabulary), repeat=length)), vocabulary + (length - 1) * vocabulary**2
    means = np.array([0.9] + [0.1] * (len(tokens) - 1) if rewards is None else rewards)

    def policy(theta):
        first, rows = log_softmax(theta[:vocabulary]), theta[vocabulary:].reshape(length - 1, vocabulary, vocabulary)
        later = [log_softmax(table) for table in rows]
        return np.array([[first[s[0]] + sum(later[i][s[i], s[i + 1]] for i in range(length - 1)) for s in tokens]])

    start = np.zeros(free) if initial_logits is None else initial_logits
    return bandit_by_hand(means, means * (1 - means), np.zeros(len(tokens)), start, policy)


RIGHT = {
    "parity": lambda s, x, v, n: float(sum(s) % 2 == x % 2),
    "copy": lambda s, x, v, n: np.mean([a == b for a, b in zip(s, np.base_repr(x + v**n, v)[-n:], strict=True)]),
}
"""(sequence, prompt, vocabulary, length) -> how well it answers."""


def neural(contexts=2, vocabulary=2, length=2, task="parity", width=8, depth=1, high=0.9, low=0.1, scale=1.0, seed=0,
           rewards=None):  # fmt: skip
    """The multilayer perceptron; its start is the package's, which a seed decides (see below)."""
    tokens = list(product(range(vocabulary), repeat=length))
    digits = [[str(a) for a in s] for s in tokens] if task == "copy" else tokens
    scores = np.array([[RIGHT[task](s, x, vocabulary, length) for s in digits] for x in range(contexts)])
    success = low + (high - low) * scores if rewards is None else np.array(rewards)
    sizes = [contexts + length + length * vocabulary, *(width,) * depth, vocabulary]
    options = {"contexts": contexts, "vocabulary": vocabulary, "length": length, "width": width, "depth": depth}
    start = np.asarray(BANDITS["neural"](**options, seed=seed).initial_parameters)

    def logits(theta, x, s, place):
        before = [float(i < place and s[i] == a) for i in range(length) for a in range(vocabulary)]
        h = np.concatenate([np.eye(contexts)[x], np.eye(length)[place], before])
        for layer, (n, m) in enumerate(pairwise(sizes)):
            weight, bias, theta = theta[: n * m].reshape(m, n), theta[n * m : n * m + m], theta[n * m + m :]
            h = weight @ h + bias
            h = h if layer == depth else np.tanh(h)
        assert not len(theta)
        return h

    def policy(theta):
        def one(x, s):
            at = [(logits(start, x, s, i), logits(theta, x, s, i), s[i]) for i in range(length)]
            return sum(log_softmax(first + scale * (now - first))[token] for first, now, token in at)

        return np.array([[one(x, s) for s in tokens] for x in range(contexts)])

    return bandit_by_hand(success, success * (1 - success), policy(start), start, policy)


BY_HAND = {"k_arm": k_arm, "two_arm": two_arm, "gaussian": gaussian, "modes": modes, "proxy": proxy,
           "noisy_verifier": noisy_verifier, "contextual": contextual, "sequence": sequence,
           "neural": neural}  # fmt: skip
LOGITS = {"reference_logits": (0.3, -0.2), "initial_logits": (0.5, 0.1)}
OF_THREE = {"reference_logits": (0.3, -0.2, 0.1), "initial_logits": (0.5, 0.1, -0.3)}
VARIED = {
    "k_arm": {"rewards": (0.2, 0.9, 0.5, 0.3, 0.1), "kind": "fixed", "reference_logits": (0.1, 0.2, 0.3, -0.5, 0.0),
              "initial_logits": (0.1, 0.2, 0.3, -0.5, 0.0)},
    "two_arm": {"rewards": (0.3, 0.6), "kind": "fixed", **LOGITS},
    "gaussian": {"rewards": (0.1, 0.4, -0.3), "stds": (0.3, 0.5, 0.8), **OF_THREE},
    "modes": {"rewards": (0.2, 0.9, 0.1, 0.3), "sizes": (1, 2, 1, 3), "spread": 0.7, "seed": 3},
    "proxy": {"rewards": (0.2, 0.6, 0.3), "true_rewards": (0.5, 0.1, 0.9), "kind": "fixed", **OF_THREE},
    "noisy_verifier": {"rewards": (0.7, 0.2), "true_positive": 0.6, "false_positive": 0.1, **LOGITS},
    "contextual": {"contexts": 3, "arms": 3, "overlap": 0.4, "conflict": 0.6, "difficulty": 0.6, "spread": 0.3,
                   "high": 0.9, "low": 0.2, "dimension": 5, "seed": 4,
                   "features": np.random.default_rng(0).normal(size=(8, 4, 3)).tolist(),
                   "rewards": np.random.default_rng(1).uniform(size=(8, 4)).tolist()},
    "sequence": {"vocabulary": 3, "length": 2, "rewards": tuple(np.linspace(0.1, 0.8, 8)),
                 "initial_logits": tuple(np.linspace(-1, 1, 10))},
    "neural": {"contexts": 3, "vocabulary": 3, "length": 3, "task": "copy", "width": 5, "depth": 2, "high": 0.7,
               "low": 0.2, "scale": 2.5, "seed": 5, "rewards": [[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]]},
}  # fmt: skip
BESIDE = {("modes", "seed"): {"spread": 0.7}}
"""Options without which another one does nothing."""
ELSEWHERE = {
    ("neural", "architecture"): "test_the_parameters_of_an_architecture_are_those_of_its_layers",
}
PARAMETERS = {
    "mlp": lambda x, v, n, w, d: (x + n + n * v) * w + w + (d - 1) * (w * w + w) + w * v + v,
    "gru": lambda x, v, n, w, d: (x + v) * w + d * (6 * w * w + 4 * w) + w * v + v,
    "transformer": lambda x, v, n, w, d: (x + v + n) * w + d * (8 * w * w + 7 * w) + 2 * w + w * v + v,
}


def uncovered(names=BANDITS, varied=VARIED):
    """What no comparison varies, in words."""
    missing = []
    for name in names:
        if name not in BY_HAND:
            missing.append(f"bandit {name}: no formula; write it in {__name__}, from its docstring")
            continue
        for option in BANDITS.defaults(name):
            if option not in varied.get(name, {}) and (name, option) not in ELSEWHERE:
                missing.append(
                    f"bandit {name}, option {option}: no independent comparison varies it; give it a value in VARIED "
                    f"of {__name__} and an argument of the function {name} there"
                )
    return missing


def test_every_bandit_has_a_formula_and_every_option_a_value():
    assert not uncovered(), "\n".join(uncovered())
    assert all(callable(globals()[test]) for test in ELSEWHERE.values())
    assert set(TASKS) == set(RIGHT)


def seen(bandit):
    """The same of the package's bandit; its policy is looked at near its start."""
    law = bandit.law
    means = np.asarray(law.means)
    return {
        "means": means,
        "variances": np.asarray(law.probabilities @ law.values**2) - means**2,
        "reported": np.asarray(bandit.true_means),
        "start": np.asarray(bandit.initial_parameters),
        "reference": np.asarray(bandit.reference_log_policy),
    }


def near(start):
    return start + 0.5 * np.sin(1.0 + np.arange(len(start)))


ROWS = [(name, option) for name, each in VARIED.items() for option in (None, *each)]


@pytest.mark.parametrize(("name", "option"), ROWS)
def test_a_bandit_is_the_one_by_hand(name, option):
    """Law, reference, start, and the policy away from it, to 1e-12. Planted: the option left out is another bandit."""
    beside = BESIDE.get((name, option), {})
    options = {**beside, option: VARIED[name][option]} if option else {}
    expected, bandit = BY_HAND[name](**options), BANDITS.build(name, options)
    law = seen(bandit)
    for part, value in law.items():
        np.testing.assert_allclose(value, expected[part], atol=1e-12, err_msg=part)
    theta = near(law["start"])
    np.testing.assert_allclose(bandit.log_policy(jnp.asarray(theta)), expected["policy"](theta), atol=1e-12)
    if option:
        other = BY_HAND[name](**beside)
        parts = [(other[part], expected[part]) for part in law]
        same = all(np.shape(a) == np.shape(b) and np.allclose(a, b, atol=1e-3) for a, b in parts)
        assert not same or np.max(np.abs(other["policy"](theta) - expected["policy"](theta))) > 1e-3


@pytest.mark.parametrize("task", sorted(RIGHT))
def test_a_task_is_the_one_by_hand(task):
    options = {"contexts": 4, "vocabulary": 3, "task": task, "seed": 2}
    np.testing.assert_allclose(BANDITS.build("neural", options).law.means, neural(**options)["means"], atol=1e-12)


def test_the_parameters_of_an_architecture_are_those_of_its_layers():
    for architecture, count in PARAMETERS.items():
        for shape in ((2, 2, 2, 4, 1), (3, 2, 3, 6, 2)):
            names = ("contexts", "vocabulary", "length", "width", "depth")
            bandit = BANDITS.build("neural", {**dict(zip(names, shape, strict=True)), "architecture": architecture})
            assert len(bandit.initial_parameters) == count(*shape), architecture


@pytest.mark.parametrize("name", [name for name in sorted(VARIED) if name != "neural"])
def test_drawn_rewards_have_the_mean_and_the_variance_by_hand(name):
    """Every option but features at once or, where they exclude each other, few: 40,000 rewards an arm of the last
    context, seed 1, |z| <= 5 on mean and variance (false alarm 1e-5). Planted: the default options."""
    exclude = {"sequence": ("vocabulary", "length"), "contextual": ("features", "rewards", "contexts", "arms")}
    options = {key: value for key, value in VARIED[name].items() if key not in exclude.get(name, ())}
    bandit, n = BANDITS.build(name, options), 40_000
    contexts, arms = bandit.reference_log_policy.shape

    def off(expected):
        worst = 0.0
        for arm in range(min(arms, 3)):
            drawn = bandit.sample_rewards(jax.random.key(arm), jnp.int32(contexts - 1), jnp.full(n, arm))
            drawn, mean = np.asarray(drawn), expected["means"][contexts - 1, arm]
            variance = expected["variances"][contexts - 1, arm]
            square = (drawn - mean) ** 2
            for value, sample in ((mean, drawn), (variance, square)):
                worst = max(worst, abs(sample.mean() - value) / (sample.std() / np.sqrt(n) + 1e-9))
        return worst

    assert off(BY_HAND[name](**options)) <= 5
    assert off(BY_HAND[name](**{k: options[k] for k in options if k in ("sizes",)})) > 5

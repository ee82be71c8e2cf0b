"""A neural network that writes sequences: a softmax bandit with V^L arms a prompt, whose logits a network gives.

A task says what a sequence of L tokens out of V must be to earn its reward.
Every sequence is enumerated, so that the expected update, the stiffness and all that follows are exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from bandit_lab import _checks
from bandit_lab._registry import Registry
from bandit_lab._types import Array
from bandit_lab.bandits.base import Bandit, RewardLaw, register_bandit
from bandit_lab.bandits.contextual import table

MOST_SEQUENCES = 2**14
"""Sequences of all prompts together: each is one pass of the network at every step."""
MOST_PARAMETERS = 2**20

NETWORKS: Registry[Any] = Registry("architecture", given=("contexts", "vocabulary", "length", "width", "depth", "key"))
"""For developers. A new network is a function under `@register_network("its_name")`:

    (contexts X, vocabulary V, length L, width, depth, key) -> an equinox module

whose `__call__(context, tokens [L])` gives logits [L, V]: of every token, given the prompt and the tokens before it
only. Its arrays of floats are the parameters; everything else is static.
"""
register_network = NETWORKS.register
TASKS: Registry[NDArray[np.float64]] = Registry("task", given=("tokens", "contexts", "vocabulary", "seed"))
"""For developers. A new task is a function under `@register_task("its_name")`:

    (tokens [K, L] integers, contexts X, vocabulary V, seed) -> [X, K] in [0, 1]

how well each sequence answers each prompt: 1 is right, 0 is wrong.
"""
register_task = TASKS.register
Scores = NDArray[np.float64]
Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class _Network:
    """A network without its parameters. rest: the static part of the module. shapes: of its arrays, in order."""

    rest: Any
    shapes: tuple[tuple[int, ...], ...]

    def logits(self, theta: Array, contexts: int, tokens: Array) -> Array:
        """theta [D], tokens [K, L] -> [X, K, L, V]."""
        import equinox as eqx

        leaves, start = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            leaves.append(theta[start : start + size].reshape(shape))
            start += size
        template, rest = self.rest
        module = eqx.combine(jax.tree.unflatten(template, leaves), rest)
        over_sequences = jax.vmap(module, in_axes=(None, 0))
        logits = jax.vmap(over_sequences, in_axes=(0, None))(jnp.arange(contexts), tokens)
        return logits.astype(theta.dtype)  # a module's own constants may be of another type


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NeuralBandit(Bandit):
    """X prompts, K = V^L sequences each; theta are the weights of a network.

    Logits are those of the start plus `scale` times what training has added: 1 is the network itself, a large scale
    keeps the weights near their start (the lazy regime).

    tokens: [K, L] integers, in lexicographic order. start_logits: [X, K, L, V].
    """

    law: RewardLaw
    initial_parameters: Array
    reference_log_policy: Array
    tokens: Array
    start_logits: Array
    scale: Array
    network: _Network = field(metadata={"static": True})
    costly = True
    lexicographic = True

    def logits(self, theta: Array) -> Array:
        """Logits of every token at every place of every sequence: parameters [D] -> [X, K, L, V]."""
        logits = self.network.logits(theta, self.start_logits.shape[0], self.tokens)
        return self.start_logits + self.scale * (logits - self.start_logits)

    def log_token_policy(self, theta: Array) -> Array:
        """Log-probability of every token given the prompt and those before: [D] -> [L, X, K]."""
        logits = self.logits(theta)
        chosen = jax.nn.one_hot(self.tokens, logits.shape[-1], dtype=logits.dtype)
        return jnp.moveaxis(jnp.sum(jax.nn.log_softmax(logits) * chosen, axis=-1), -1, 0)

    def log_policy(self, theta: Array) -> Array:
        """Log-probability of every sequence: [D] -> [X, K]."""
        return jnp.sum(self.log_token_policy(theta), axis=0)


@register_bandit("neural")
def neural(
    contexts: int = 2,
    vocabulary: int = 2,
    length: int = 2,
    task: str = "parity",
    architecture: str = "mlp",
    width: int = 8,
    depth: int = 1,
    high: float = 0.9,
    low: float = 0.1,
    scale: float = 1.0,
    seed: int = 0,
    rewards: Sequence[Sequence[float]] | None = None,
) -> NeuralBandit:
    """A network that writes `length` tokens out of `vocabulary` for each of `contexts` prompts.

    Args:
      task: parity, copy or one of your own: how well a sequence answers a prompt, from 0 to 1.
      architecture: mlp, gru, transformer or one of your own, of `width` units in `depth` layers.
      high, low: success probabilities of a right and of a wrong sequence, in [0, 1].
      scale: of what training adds to the logits; a large one keeps the weights near their start.
      seed: of the initial weights, and given to the task.
      rewards: [X, K] success probabilities in place of a task's, sequences in lexicographic order.

    Raises:
      ValueError: any of these out of range, more than MOST_SEQUENCES sequences in all or MOST_PARAMETERS parameters,
        an unknown task or architecture, equinox not installed.
    """
    count, size = _checks.integer("bandit.contexts", contexts, 1), _checks.integer("bandit.vocabulary", vocabulary, 2)
    steps = _checks.integer("bandit.length", length, 1)
    few = f"at most {MOST_SEQUENCES} sequences of all prompts together, contexts * vocabulary^length"
    _checks.require(steps * np.log(size) + np.log(count) < np.log(MOST_SEQUENCES) + 1e-9, "bandit.length", few,
                    f"{count} * {size}^{steps}")  # fmt: skip
    for name, share in (("high", high), ("low", low)):
        inside = 0 <= _checks.finite_number(f"bandit.{name}", share) <= 1
        _checks.require(inside, f"bandit.{name}", "a number in [0, 1]", share)
    _checks.positive("bandit.scale", scale)
    drawn = _checks.integer("bandit.seed", seed, 0)
    tokens = np.array(list(product(range(size), repeat=steps)))
    network, start = _build(architecture, count, size, steps, width, depth, drawn)
    sequences = TASKS[_checks.choice("bandit.task", task, TASKS)](tokens, count, size, drawn)
    scores: Any = np.asarray(sequences, float)
    fits = scores.shape == (count, len(tokens)) and bool(np.all((scores >= 0) & (scores <= 1)))
    _checks.require(fits, f"task {task}", f"scores [{count}, {len(tokens)}] in [0, 1]", scores.shape)
    success = low + (high - low) * scores
    if rewards is not None:
        success = table("bandit.rewards", rewards, (count, len(tokens)))
        inside = bool(np.all((success >= 0) & (success <= 1)))
        _checks.require(inside, "bandit.rewards", "numbers in [0, 1]", rewards)
    logits = np.asarray(_double(lambda: network.logits(jnp.asarray(start), count, jnp.asarray(tokens))))
    _check_causal(architecture, logits)
    law = RewardLaw(jax.device_put(np.array([0.0, 1.0])), jax.device_put(np.stack([1 - success, success], axis=-1)))
    unfinished = NeuralBandit(
        law,
        jax.device_put(start),
        jax.device_put(np.zeros(scores.shape)),
        jax.device_put(tokens),
        jax.device_put(logits),
        jax.device_put(np.asarray(float(scale))),
        network,
    )
    reference = np.asarray(_double(lambda: unfinished.log_policy(jnp.asarray(start))))
    odd = int(np.sum(~np.isfinite(reference)))
    wanted = f"none of {reference.size} sequences without probability at the start, which is the reference policy"
    _checks.require(not odd, f"bandit.architecture {architecture}", wanted, odd)
    return NeuralBandit(**{**vars(unfinished), "reference_log_policy": jax.device_put(reference)})


def _check_causal(architecture: str, logits: np.ndarray) -> None:
    """Logits [X, K, L, V] at a place must be those of every sequence that begins with the same tokens."""
    contexts, _, length, vocabulary = logits.shape
    for place in range(length):
        alike = logits[:, :, place].reshape(contexts, vocabulary**place, -1, vocabulary)
        depends = not np.allclose(alike, alike[:, :, :1], rtol=1e-9, atol=1e-9, equal_nan=True)
        wanted = "logits that depend on the prompt and the tokens before alone"
        _checks.require(not depends, f"bandit.architecture {architecture}", wanted, f"others at token {place + 1}")


def _double(work: Callable[[], Any]) -> Any:
    """`work()` in float64, whatever the session's precision: the start must not depend on it."""
    with jax.enable_x64(True):
        return work()


def _build(
    architecture: str, contexts: int, vocabulary: int, length: int, width: int, depth: int, seed: int
) -> tuple[_Network, np.ndarray]:
    """The network and its initial parameters [D], the same in every precision."""
    try:
        import equinox as eqx

        from bandit_lab.bandits import _networks  # noqa: F401  (it registers the built-in ones)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"bandit: expected the extra 'neural' for bandit=neural (pip install '.[neural]' in a clone), got {error}"
        ) from None
    name = _checks.choice("bandit.architecture", architecture, NETWORKS)
    size, layers = _checks.integer("bandit.width", width, 1), _checks.integer("bandit.depth", depth, 1)

    def make() -> tuple[Any, Any]:
        built = NETWORKS[name](contexts, vocabulary, length, size, layers, jax.random.key(seed))
        return eqx.partition(built, eqx.is_inexact_array)

    shapes = jax.tree.leaves(_double(lambda: eqx.filter_eval_shape(make)[0]))
    count = sum(int(np.prod(x.shape)) for x in shapes)
    _checks.require(count <= MOST_PARAMETERS, "bandit.width", f"at most {MOST_PARAMETERS} parameters", count)
    arrays, rest = _double(make)
    leaves, template = jax.tree.flatten(arrays)
    network = _Network((template, rest), tuple(x.shape for x in leaves))
    return network, np.concatenate([np.asarray(x, float).reshape(-1) for x in leaves])


@register_task("parity")
def parity(tokens: Tokens, contexts: int, vocabulary: int, seed: int) -> Scores:
    """Right where the sum of the tokens is even; odd for every other prompt."""
    return (tokens.sum(axis=1) % 2 == np.arange(contexts)[:, None] % 2).astype(float)


@register_task("copy")
def copy(tokens: Tokens, contexts: int, vocabulary: int, seed: int) -> Scores:
    """The share of tokens that agree with the prompt's number, written in base V."""
    places = vocabulary ** np.arange(tokens.shape[1])[::-1]
    digits = np.arange(contexts)[:, None] // places % vocabulary
    return (tokens == digits[:, None, :]).mean(axis=2)

"""What a sequence must say to earn its reward: tasks for bandits whose arms are all sequences of L tokens out of V."""

import numpy as np
from numpy.typing import NDArray

from bandit_lab._registry import Registry

TASKS: Registry[NDArray[np.float64]] = Registry("task", given=("tokens", "contexts", "vocabulary", "seed"))
"""For developers. A new task is a function under `@register_task("its_name")`:

    (tokens [K, L] integers, contexts X, vocabulary V, seed) -> [X, K] in [0, 1]

how well each sequence answers each prompt: 1 is right, 0 is wrong.
"""
register_task = TASKS.register

Scores = NDArray[np.float64]
Tokens = NDArray[np.int64]


@register_task("parity")
def parity(tokens: Tokens, contexts: int, vocabulary: int, seed: int) -> Scores:
    """Right where the sum of the tokens is even; odd for every other prompt."""
    return (tokens.sum(axis=1) % 2 == np.arange(contexts)[:, None] % 2).astype(float)


@register_task("addition")
def addition(tokens: Tokens, contexts: int, vocabulary: int, seed: int) -> Scores:
    """Right where the tokens add up to the prompt's number modulo V."""
    return (tokens.sum(axis=1) % vocabulary == np.arange(contexts)[:, None] % vocabulary).astype(float)


@register_task("copy")
def copy(tokens: Tokens, contexts: int, vocabulary: int, seed: int) -> Scores:
    """The share of tokens that agree with the prompt's number, written in base V."""
    places = vocabulary ** np.arange(tokens.shape[1])[::-1]
    digits = np.arange(contexts)[:, None] // places % vocabulary
    return (tokens == digits[:, None, :]).mean(axis=2)


@register_task("random")
def random(tokens: Tokens, contexts: int, vocabulary: int, seed: int) -> Scores:
    """A table of numbers drawn uniformly from [0, 1] with the bandit's seed."""
    return np.random.default_rng((seed, 1)).uniform(size=(contexts, len(tokens)))

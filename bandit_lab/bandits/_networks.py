"""Autoregressive networks, written with equinox: logits of every token, given the prompt and the tokens before it.

Equinox, because a module is a plain pytree: it becomes one vector of parameters and a static rest without any state of
its own, and jax transforms it like any function. It is an optional dependency: this file is imported when a network is
asked for (the extra `neural`).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.bandits.neural import register_network


def _before(tokens: Array, vocabulary: int) -> Array:
    """[L, L, V]: at place i the tokens before i, one-hot, zeros from i on."""
    length = tokens.shape[0]
    seen = jnp.tril(jnp.ones((length, length)), -1)
    return seen[:, :, None] * jax.nn.one_hot(tokens, vocabulary)


class _MLP(eqx.Module):
    """Tanh layers on the one-hot prompt, place and tokens before."""

    layers: eqx.nn.MLP
    contexts: int = eqx.field(static=True)
    vocabulary: int = eqx.field(static=True)

    def __call__(self, context: Array, tokens: Array) -> Array:
        """Logits [L, V] of each token of `tokens` [L], integers, given `context` and the tokens before."""
        length = tokens.shape[0]
        prompt = jnp.broadcast_to(jax.nn.one_hot(context, self.contexts), (length, self.contexts))
        before = _before(tokens, self.vocabulary).reshape(length, -1)
        read = jnp.concatenate([prompt, jnp.eye(length), before], axis=1)
        return jax.vmap(self.layers)(read.astype(self.layers.layers[0].weight.dtype))


@register_network("mlp")
def mlp(contexts: int, vocabulary: int, length: int, width: int, depth: int, key: Array) -> _MLP:
    """`depth` hidden layers of tanh units."""
    size = contexts + length + length * vocabulary
    layers = eqx.nn.MLP(size, vocabulary, width, depth, activation=jnp.tanh, key=key)
    return _MLP(layers, contexts, vocabulary)


class _GRU(eqx.Module):
    """A stack of gated recurrent units that starts from the prompt and reads the tokens before."""

    prompts: Array
    embedding: Array
    cells: tuple[eqx.nn.GRUCell, ...]
    head: eqx.nn.Linear

    def __call__(self, context: Array, tokens: Array) -> Array:
        """As `_MLP.__call__`."""
        read = jnp.concatenate([jnp.zeros_like(self.embedding[:1]), self.embedding[tokens[:-1]]])

        def step(hidden: tuple[Array, ...], x: Array) -> tuple[tuple[Array, ...], Array]:
            new = []
            for cell, before in zip(self.cells, hidden, strict=True):
                x = cell(x, before)
                new.append(x)
            return tuple(new), self.head(x)

        start = tuple(self.prompts[context] for _ in self.cells)
        return jax.lax.scan(step, start, read)[1]


@register_network("gru")
def gru(contexts: int, vocabulary: int, length: int, width: int, depth: int, key: Array) -> _GRU:
    """`depth` layers of gated recurrent units of `width` numbers."""
    keys = jax.random.split(key, depth + 3)
    cells = tuple(eqx.nn.GRUCell(width, width, key=k) for k in keys[3:])
    prompts, embedding = (jax.random.normal(k, (n, width)) for k, n in zip(keys, (contexts, vocabulary), strict=False))
    return _GRU(prompts, embedding, cells, eqx.nn.Linear(width, vocabulary, key=keys[2]))


class _Layer(eqx.Module):
    """Attention over what came before, then two tanh layers, each behind a layer norm and beside a skip."""

    attention: eqx.nn.MultiheadAttention
    dense: eqx.nn.MLP
    norms: tuple[eqx.nn.LayerNorm, eqx.nn.LayerNorm]

    def __call__(self, x: Array) -> Array:
        """[L, W] -> [L, W]."""
        first, second = (jax.vmap(norm) for norm in self.norms)
        normed = first(x)
        x = x + self.attention(normed, normed, normed, mask=jnp.tril(jnp.ones((len(x), len(x)), bool)))
        return x + jax.vmap(self.dense)(second(x))


class _Transformer(eqx.Module):
    """Place i reads the prompt (i = 0) or the token before, attends to the places up to it, and writes logits."""

    prompts: Array
    embedding: Array
    places: Array
    layers: tuple[_Layer, ...]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __call__(self, context: Array, tokens: Array) -> Array:
        """As `_MLP.__call__`."""
        x = jnp.concatenate([self.prompts[context][None], self.embedding[tokens[:-1]]]) + self.places
        for layer in self.layers:
            x = layer(x)
        return jax.vmap(lambda row: self.head(self.norm(row)))(x)


@register_network("transformer")
def transformer(contexts: int, vocabulary: int, length: int, width: int, depth: int, key: Array) -> _Transformer:
    """`depth` layers of attention with two heads (one where `width` is odd) and layer norm."""
    keys = jax.random.split(key, depth + 4)
    heads = 2 if width % 2 == 0 else 1
    layers = []
    for k in keys[4:]:
        for_attention, for_dense = jax.random.split(k)
        norms: Any = (eqx.nn.LayerNorm(width), eqx.nn.LayerNorm(width))
        attention = eqx.nn.MultiheadAttention(heads, width, key=for_attention)
        dense = eqx.nn.MLP(width, width, 2 * width, 1, activation=jnp.tanh, key=for_dense)
        layers.append(_Layer(attention, dense, norms))
    sizes = zip(keys, (contexts, vocabulary, length), strict=False)
    prompts, embedding, places = (jax.random.normal(k, (n, width)) for k, n in sizes)
    head = eqx.nn.Linear(width, vocabulary, key=keys[3])
    return _Transformer(prompts, embedding, places, tuple(layers), eqx.nn.LayerNorm(width), head)

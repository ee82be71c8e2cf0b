"""The words of a generator as bytes on standard output, without end, for a battery of tests to read.

    python experiments/generator/stream.py generator=hash order=step lanes=4096 count=33 seed=0 | battery crush

order=step: as the engine draws them, for every step the words [count, lanes]; lanes are replicas 0, 1, ... of one cell.
order=cell: for every step lane by lane; lanes are 64 replicas each of the cells named 0, 1, 2, ...
order=lane: lane after lane in blocks of about 2^20 words; lanes=1 is all words of one lane.
"""

import os
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._types import Array
from bandit_lab.simulation.fast.random_bits import GENERATORS, lane_keys, require_enough_words

SETTINGS = {"generator": "hash", "order": "step", "lanes": "4096", "count": "33", "seed": "0"}
REPLICAS = 64
BLOCK_WORDS = 2**20


def block_of_steps(generator: str, order: str, lanes: int, count: int, seed: int) -> tuple[int, Callable[[int], Array]]:
    """Steps per block, and the words of the block that starts at a step, in the order of the stream."""
    index = np.arange(lanes, dtype=np.uint32)
    names, replicas = (index // REPLICAS, index % REPLICAS) if order == "cell" else (np.zeros_like(index), index)
    keys = lane_keys(jax.random.key_data(jax.random.key(seed)), names, replicas)
    steps = max(1, BLOCK_WORDS // (count * (1 if order == "lane" else lanes)))
    axes = {"step": (0, 1, 2), "cell": (0, 2, 1), "lane": (2, 0, 1)}[order]  # from [steps, count, lanes]

    @jax.jit
    def block(start: Array) -> Array:
        words = GENERATORS[generator].random_bits
        _, drawn = lax.scan(lambda c, t: (c, words(keys, t, count)), None, start + jnp.arange(steps, dtype=jnp.uint32))
        return jnp.transpose(drawn, axes)

    return steps, lambda start: block(jnp.uint32(start))


def main(words: list[str]) -> None:
    """Write until the reader closes the pipe."""
    settings = SETTINGS | dict(word.split("=", 1) for word in words)
    lanes, count = int(settings["lanes"]), int(settings["count"])
    steps, block = block_of_steps(settings["generator"], settings["order"], lanes, count, int(settings["seed"]))
    start = 0
    while True:
        require_enough_words(start + steps, 1)  # beyond 2^32 steps a lane starts again
        data = memoryview(np.asarray(block(start))).cast("B")
        try:
            sys.stdout.buffer.write(data)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left for the exit to flush
            return
        start += steps


if __name__ == "__main__":
    main(sys.argv[1:])

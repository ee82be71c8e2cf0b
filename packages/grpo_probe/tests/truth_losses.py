"""Every loss's applied gradient written down by hand, and its dense derivatives: answers of one or two of three words.

g(l, o) is the gradient by l that TRL's loss hands on, as a formula without anything detached. With c(L, L_old) its
expectation over all groups, J = dL/dtheta and F = -J^T c, the fresh part is sum c grad^2 L + J^T c_L J, the stale part
J^T c_{L_old} J, which holds the sampling law's score.
"""

from itertools import combinations_with_replacement
from math import factorial

import numpy as np
import torch
from datasets import Dataset
from torch.func import functional_call
from transformers import Qwen2Config, Qwen2ForCausalLM

PROMPT = (2, 2)
ANSWERS = [(1,), *((one, two) for one in (0, 2) for two in (0, 1, 2))]
"""The second word of these ends an answer; two words are the most."""
GAINS = dict(zip(ANSWERS, (0.3, 1.0, 0.0, 0.6, 0.2, 0.9, 0.1), strict=True))
MASK = torch.tensor([[1.0, float(len(answer) > 1)] for answer in ANSWERS], dtype=torch.float64)


def network(seed):
    """Width 4, three words, float64; some 200 parameters."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=3,
        hidden_size=4,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16,
        initializer_range=0.6,
        tie_word_embeddings=False,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config).double()


def data():
    return Dataset.from_dict({"prompt": ["red red"] * 4, "row": [0] * 4})


def reward(completion_ids, **rest):
    return [GAINS[tuple(ids)] for ids in completion_ids]


def log_probs(model, flat=None):
    """[answer, token], zero where there is none."""
    ids = torch.tensor([[*PROMPT, *answer, 0][: len(PROMPT) + 2] for answer in ANSWERS])
    given = {"input_ids": ids, "use_cache": False}
    logits = (model(**given) if flat is None else functional_call(model, flat, kwargs=given)).logits
    log = torch.log_softmax(logits[:, len(PROMPT) - 1 : -1], -1)
    return log.gather(-1, ids[:, len(PROMPT) :, None])[..., 0] * MASK


def groups(size):
    """Multisets [M, size] of answers, and their ordered ways [M]."""
    sets = np.array(list(combinations_with_replacement(range(len(ANSWERS)), size)))
    counts = np.stack([(sets == one).sum(1) for one in range(len(ANSWERS))], 1)
    return sets, np.array([factorial(size) / np.prod([factorial(n) for n in row]) for row in counts])


def applied(loss, log, old, reference, drawn, sets, beta=0.0, corrected=False, level="token", cap=5.0):
    """g [M, size, token] of every group, before the expectation."""
    log, old, reference, mask = (one[sets] for one in (log, old, reference, MASK))
    rewards = torch.tensor(list(GAINS.values()), dtype=torch.float64)[sets]
    gain = (rewards - rewards.mean(1, keepdim=True))[..., None]
    length, size = mask.sum(-1, keepdim=True), sets.shape[1]
    moved = (log - old) * mask
    ratio = torch.exp(moved)
    if level == "sequence":
        weight = torch.exp(moved.sum(-1, keepdim=True) / length) / (1.0 if loss == "luspo" else length)
        return -gain * weight * mask / size
    if loss == "cispo":
        weight = ratio.clamp(max=cap)
    elif loss == "sapo":  # temperatures 1 and 1.05, TRL's
        warmth = torch.where(gain > 0, 1.0, 1.05)
        gate = torch.sigmoid(warmth * (ratio - 1))
        weight = 4 * gate * (1 - gate) * ratio
    elif loss == "vespo":  # k, lambda: 2, 3 where the advantage is not negative, else 3, 2
        power, rate = torch.where(gain >= 0, 2.0, 3.0), torch.where(gain >= 0, 3.0, 2.0)
        total = moved.sum(-1, keepdim=True)
        weight = torch.exp(rate + power * total - rate * torch.exp(total))
    else:
        weight = ratio
    away = torch.exp(reference - log)
    pull = 1 - away
    if corrected:
        pull = (pull + away - (reference - log) - 1) * ratio
    tokens = mask.sum((1, 2), keepdim=True)
    share = {
        "grpo": 1 / (length * size),
        "sapo": 1 / (length * size),
        "luspo": torch.tensor(1 / size),
        "dr_grpo": torch.tensor(1 / (2 * size)),
        "bnpo": 1 / tokens,
    }.get(loss, 1 / (drawn.detach()[:, None, None] * tokens).sum())
    return (-gain * weight + beta * pull) * mask * share


def dense(model, reference, loss, size, **more):
    """Fresh and stale part [D, D]."""
    names = [name for name, _ in model.named_parameters()]
    shapes = [one.shape for one in model.parameters()]
    start = torch.cat([one.detach().reshape(-1) for one in model.parameters()]).requires_grad_()
    for one in (model, reference):
        one.set_attn_implementation("eager")  # which has a second derivative
    parts = torch.split(start, [shape.numel() for shape in shapes])
    flat = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
    log = log_probs(model, flat)
    target = log_probs(reference).detach()
    sets, ways = groups(size)

    def expected(present, old):
        drawn = torch.as_tensor(ways) * torch.exp((old * MASK).sum(-1)[sets].sum(-1))
        each = drawn[:, None, None] * applied(loss, present, old, target, drawn, torch.as_tensor(sets), **more)
        total = torch.zeros_like(present)
        return total.index_add(0, torch.as_tensor(sets).reshape(-1), each.reshape(-1, each.shape[-1]))

    at = log.detach()
    by_present, by_old = torch.autograd.functional.jacobian(expected, (at, at))
    slope = torch.autograd.grad((log * expected(at, at)).sum(), start, create_graph=True)[0]
    bent = torch.stack([torch.autograd.grad(one, start, retain_graph=True)[0] for one in slope])
    rows = torch.stack([torch.autograd.grad(one, start, retain_graph=True)[0] for one in log.reshape(-1)])
    count = at.numel()
    fresh = bent + rows.T @ by_present.reshape(count, count) @ rows
    return fresh.numpy(), (rows.T @ by_old.reshape(count, count) @ rows).numpy()

"""The client's stiffness without sampling and without the probe: every group enumerated, dense derivatives, float64.

S(L, L_old) is the surrogate whose gradient by theta is the expected update, L [prompt, word] the log-policy. The fresh
part is its Hessian, the stale part J^T S_{L L_old} J.
"""

from copy import deepcopy
from itertools import combinations_with_replacement
from math import factorial
from typing import NamedTuple

import client
import numpy as np
import torch
from torch.func import functional_call


class Truth(NamedTuple):
    """-dF/dtheta and -dF/dtheta_old [D, D], and F [D]."""

    fresh: np.ndarray
    stale: np.ndarray
    update: np.ndarray

    @property
    def leading(self) -> float:
        """Largest real part of an eigenvalue of the sum."""
        return float(np.linalg.eigvals(self.fresh + self.stale).real.max())


def multisets(size: int) -> tuple[np.ndarray, np.ndarray]:
    """All groups [M, size] of words without order, and how many ordered ones each stands for [M]."""
    groups = np.array(list(combinations_with_replacement(range(len(client.WORDS)), size)))
    counts = np.stack([(groups == word).sum(axis=1) for word in range(len(client.WORDS))], axis=1)
    ways = [factorial(size) / np.prod([factorial(n) for n in row]) for row in counts]
    return groups, np.array(ways)


def advantages(rewards: torch.Tensor, std: bool) -> torch.Tensor:
    """TRL's: less the group's mean, over its std (ddof 1) + 1e-4 if asked for. rewards [..., size]."""
    centred = rewards - rewards.mean(-1, keepdim=True)
    return centred / (rewards.std(-1, keepdim=True) + 1e-4) if std else centred


def surrogate(
    log: torch.Tensor, old: torch.Tensor, reference: torch.Tensor, size: int, beta: float, std: bool, corrected: bool
) -> torch.Tensor:
    """S(L, L_old): expectation over groups from L_old of mean(A ratio) - beta k3, mean over prompts.

    corrected: k3 times the ratio too (TRL's `use_bias_correction_kl`), which leaves no stale part of the KL term.
    """
    groups, ways = (torch.as_tensor(one) for one in multisets(size))
    rewards = torch.as_tensor(client.REWARDS)
    drawn = ways * torch.exp(old[:, groups].sum(-1))  # [prompt, M]
    gain = (advantages(rewards[:, groups], std) * torch.exp(log - old)[:, groups]).mean(-1)
    away = reference - log
    penalty = (torch.exp(log if corrected else old) * (torch.exp(away) - away - 1)).sum(-1)
    return ((drawn * gain).sum(-1) - beta * penalty).mean()


def truth(
    policy: torch.nn.Module, reference: torch.nn.Module, size: int, beta: float, std: bool, corrected: bool
) -> Truth:
    """Dense derivatives at the present parameters. Costs one double backward per parameter."""
    network = deepcopy(policy).double().eval()
    for module in network.modules():
        vars(module).pop("forward", None)  # TRL's fused head, bound to the model that was copied
    network.set_attn_implementation("eager")
    names = [name for name, one in network.named_parameters() if one.requires_grad]
    shapes = [network.get_parameter(name).shape for name in names]
    theta = torch.cat([network.get_parameter(name).detach().reshape(-1) for name in names])
    ids = torch.tensor([[client.WORDS.index(word) for word in prompt.split()] for prompt in client.PROMPTS])
    target = torch.log(torch.as_tensor(client.policy(reference)))

    def log_policy(flat: torch.Tensor) -> torch.Tensor:
        parts = torch.split(flat, [shape.numel() for shape in shapes])
        given = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        logits = functional_call(network, given, kwargs={"input_ids": ids, "use_cache": False}).logits[:, -1]
        return torch.log_softmax(logits, dim=-1)

    start = theta.clone().requires_grad_()
    log = log_policy(start)
    old = log.detach()
    first = torch.autograd.grad(surrogate(log, old, target, size, beta, std, corrected), start, create_graph=True)[0]
    fresh = torch.stack([torch.autograd.grad(one, start, retain_graph=True)[0] for one in first])
    rows = torch.stack([torch.autograd.grad(one, start, retain_graph=True)[0] for one in log.reshape(-1)])
    mixed = torch.autograd.functional.hessian(
        lambda one, other: surrogate(one, other, target, size, beta, std, corrected), (old, old)
    )[0][1].reshape(old.numel(), old.numel())
    return Truth(-fresh.numpy(), -(rows.T @ mixed @ rows).detach().numpy(), first.detach().numpy())

"""Covariance of one group's gradient estimate g = (1/G) sum_i A_i (e_{a_i} - pi), in logit space [K, K].

Derived here.

`binary_covariance`, exact at any G for binary rewards: given k successes the successful actions are independent draws
from pi_+ = pi r/J, the others from pi_- = pi (1-r)/(1-J), and the advantages are the numbers A_+(k), A_-(k); so

    E[g|k] = (1/G) [k A_+ (pi_+ - pi) + (G-k) A_- (pi_- - pi)],
    Cov[g|k] = (1/G^2) [k A_+^2 C_+ + (G-k) A_-^2 C_-],   C = Diag(pi) - pi pi^T of pi_+-,

and the law of total covariance over k ~ Bin(G, J) (`dapo`: given that the group is not silent) finishes.

`leading_covariance`, any rewards, order 1/G: by the delta method the estimator is the mean of the influence function
psi = (1/(sigma+eps)) [(r-J) score - grad J - (grad J/(2 sigma (sigma+eps))) ((r-J)^2 - sigma^2)] (standardised; without
the last term mean-only and leave-one-out), so the covariance is Cov[psi]/G. Divided by a power a of the std alone,
psi = sigma^-a [(r-J) score - grad J - (a grad J/(2 sigma^2)) ((r-J)^2 - sigma^2)]. Without a baseline the members of a
group are independent: psi = r score - grad J, and Cov[psi]/G is exact at any G.

`centred_covariance`, any rewards, mean-only and leave-one-out, exact at any G: g is (G-1)/G times (leave-one-out: 1
times) the sample covariance of reward and score, with y = r - J, c = E[y score], V = Cov[score],

    Cov = E[y^2 score score^T]/G - (G-2)/(G(G-1)) c c^T + E[y^2] V/(G(G-1)).

The exact KL term is a function of the logits and adds no noise; the sampled k3 loss does, its advantages are
A - beta (1 - ref/pi). Two deterministic arms, standardised: the group gradient is the group's own std, variance
Var[s_k], leading (1-2p)^2/(4G), which vanishes at p = 1/2.
"""

from typing import NamedTuple

import numpy as np

from bandit_lab import _checks
from bandit_lab.theory.block_map import Matrix, ones_complement
from bandit_lab.theory.group_law import GroupLaw


class Atoms(NamedTuple):
    """Joint law of one sample: `score` e_a - pi [M, K], `reward` [M], `weight` [M] (sum 1)."""

    score: np.ndarray
    reward: np.ndarray
    weight: np.ndarray


def reward_atoms(policy: np.ndarray, outcomes: list[list[tuple[float, float]]]) -> Atoms:
    """Atoms of (action, reward): `outcomes[a]` lists (reward, probability) of arm a. Raises ValueError if improper."""
    policy = np.asarray(policy, float)
    _checks.require(len(outcomes) == len(policy), "outcomes", f"{len(policy)} lists", len(outcomes))
    score, reward, weight = [], [], []
    for arm, law in enumerate(outcomes):
        total = sum(p for _, p in law)
        _checks.require(abs(total - 1) < 1e-9, f"outcomes[{arm}]", "probabilities that sum to 1", total)
        for value, p in law:
            score.append(np.eye(len(policy))[arm] - policy)
            reward.append(value)
            weight.append(policy[arm] * p)
    return Atoms(np.array(score), np.array(reward, float), np.array(weight))


def binary_covariance(
    law: GroupLaw, success: np.ndarray, policy: np.ndarray, penalty: np.ndarray | None = None
) -> np.ndarray:
    """Exact covariance [K, K] of one group's estimate at finite G, binary rewards; zero at G = infinity.

    `penalty` [K]: kl_weight (1 - ref/pi) of the sampled k3 loss, subtracted from the advantage of each action (k3 adds
    noise of its own); None for the exact KL.
    """
    policy, success = np.asarray(policy, float), np.asarray(success, float)
    if law.group_size is None:
        return np.zeros((len(policy), len(policy)))
    size, k = law.group_size, np.arange(law.group_size + 1)
    weight = law.success_weights(policy @ success, policy @ (1 - success))
    up, down = law.table()
    score = np.eye(len(policy)) - policy
    mean, inner = np.zeros((size + 1, len(policy))), np.zeros((len(policy), len(policy)))
    for count, advantage, chosen in ((k, up, policy * success), (size - k, down, policy * (1 - success))):
        share = _normalised(chosen)
        pull = advantage[:, None] - (0.0 if penalty is None else np.asarray(penalty, float))
        each = (pull * share) @ score
        mean += count[:, None] * each / size
        inner += (score.T * ((weight * count) @ (pull**2 * share))) @ score
        inner -= (each * (weight * count)[:, None]).T @ each
    centred = mean - weight @ mean
    return (centred * weight[:, None]).T @ centred + inner / size**2


def leading_covariance(advantage: str, atoms: Atoms, eps: float = 0.0, power: float = 0.5) -> np.ndarray:
    """G times the covariance [K, K] as G -> infinity, any rewards; for `none` at every G. Options as in `GroupLaw`.

    `advantage`: grpo, dapo, dr_grpo, rloo, none or tempered. Raises ValueError for another one.
    """
    _checks.choice("advantage", advantage, ("grpo", "dapo", "dr_grpo", "rloo", "none", "tempered"))
    gap = atoms.reward - atoms.weight @ atoms.reward
    gradient = (atoms.weight * gap) @ atoms.score
    psi = (atoms.reward if advantage == "none" else gap)[:, None] * atoms.score - gradient
    variance = float(atoms.weight @ gap**2)
    if advantage == "tempered":
        psi = psi - power / 2 * np.outer(gap**2 / variance - 1, gradient)
        psi = psi / variance ** (power / 2)
    elif advantage in ("grpo", "dapo"):
        sigma = np.sqrt(variance)
        psi = psi - np.outer((gap**2 - variance) / (2 * sigma * (sigma + eps)), gradient)
        psi = psi / (sigma + eps)
    return (psi * atoms.weight[:, None]).T @ psi


def centred_covariance(advantage: str, atoms: Atoms, group_size: int) -> np.ndarray:
    """Exact covariance [K, K] of one group's estimate for dr_grpo or rloo, any rewards, G >= 2.

    Raises ValueError for another advantage, a group below 2.
    """
    _checks.choice("advantage", advantage, ("dr_grpo", "rloo"))
    size = _checks.integer("group_size", group_size, 2)
    gap = atoms.reward - atoms.weight @ atoms.reward
    weighted = atoms.score * (atoms.weight * gap**2)[:, None]
    drift = (atoms.weight * gap) @ atoms.score
    spread = (atoms.score * atoms.weight[:, None]).T @ atoms.score
    pairs = size * (size - 1)
    exact = weighted.T @ atoms.score / size - np.outer(drift, drift) * (size - 2) / pairs
    exact = exact + (atoms.weight @ gap**2) * spread / pairs
    return exact if advantage == "rloo" else exact * ((size - 1) / size) ** 2


def reward_std(policy: np.ndarray, means: np.ndarray, covariance: Matrix) -> float:
    """Standard deviation of the expected reward, sqrt(s^T S s), s = F r; `covariance` reduced or [K, K]."""
    policy, means = np.asarray(policy, float), np.asarray(means, float)
    return _deviation(policy * (means - policy @ means), covariance)


def logit_std(policy: np.ndarray, means: np.ndarray, covariance: Matrix) -> float:
    """Standard deviation of the log-odds of the best arm, (e_b - pi)/(1 - pi_b); two arms: of the logit gap."""
    policy = np.asarray(policy, float)
    best = int(np.argmax(means))
    return _deviation((np.eye(len(policy))[best] - policy) / (1 - policy[best]), covariance)


def _deviation(direction: np.ndarray, covariance: Matrix) -> float:
    covariance = np.asarray(covariance)
    if covariance.shape[0] == len(direction) - 1:
        direction = ones_complement(len(direction)).T @ direction
    return float(np.sqrt(direction @ covariance @ direction))


def _normalised(mass: np.ndarray) -> np.ndarray:
    total = mass.sum()
    return mass / total if total > 0 else mass

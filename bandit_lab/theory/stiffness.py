"""The reward signal as a function of the policy, and the stiffness that it makes at a fixed point.

The signal is the factor h of grad J, and how h changes with the logits.

`BinarySignal` covers success probabilities at any group size (h depends on J alone); `MomentSignal` covers any
rewards at G = infinity, where the group std is sigma^2 = E[r^2] - J^2 over policy and reward noise together:
h = 1/(sigma + eps), grad h = -grad(sigma^2)/(2 sigma (sigma + eps)^2), grad(sigma^2) = F m2 - 2 J F r, F = Diag(pi) -
pi pi^T, m2 the second moments per arm; divided by a power a of the std, h = sigma^-a, grad h = -a h grad(sigma^2)/(2
sigma^2). Derived here.

The stiffness is split into the part felt at the current policy and that felt at the rollout policy.
Derived here, K arms. Let s = F r, D = Hessian of J (`reward_hessian`), h the signal factor. The mean drift is

    frozen       g(theta_old, theta_old)
    uncorrected  h_old F_old r + Abar_old (pi_old - pi) - beta F (theta - theta_ref)     (no ratio; exact KL)
    ratio        h_old F r - beta F (theta - theta_ref)

with Abar the mean advantage, 0 for centred rules. At the fixed point h r - beta (theta - theta_ref) is constant, and
dF applied to a constant vanishes, so that the ratio drift has fresh derivative -beta F exactly; hence H = -d drift:

    ratio        H_fresh = beta F,                       H_stale = -s (grad h)^T
    uncorrected  H_fresh = beta F + h D + Abar F,        H_stale = -h D - s (grad h)^T - Abar F
    frozen       H_fresh = 0,                            H_stale = beta F - s (grad h)^T

The sum is the same for all three. For binary rewards grad h = h'(J) s and H is symmetric; else it is not.

The sampled k3 loss has the gradient -beta sum_a pi_old(a) (1 - ref_a/pi_a)(e_a - pi), on policy -beta (pi - ref). Its
fresh derivative is -beta R, R = Diag(ref) - ref pi^T - pi ref^T + pi pi^T (the weights 1 - ref/pi sum to zero under
pi), its total -beta F. The on-policy H is then beta F - h D - s (grad h)^T, of which beta R (`uncorrected`, plus
Abar F) or beta R - h D (`ratio`) is fresh.

One logit, two arms (all values times 2 for two logits): ratio beta p(1-p) and (1-2p) sqrt(p(1-p))/2 for r = (1, 0).
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from bandit_lab import _checks
from bandit_lab.theory.block_map import reduce_matrix
from bandit_lab.theory.group_law import GroupLaw

MOMENT_ADVANTAGES: tuple[str, ...] = ("grpo", "dr_grpo", "rloo", "none", "tempered")
"""Those of `group_law.ADVANTAGES` whose infinite groups see a reward's mean and variance alone."""
ESTIMATORS: tuple[str, ...] = ("frozen", "uncorrected", "ratio", "clipped", "clip_higher", "cispo")
"""The last three clip: near a fixed point they are `ratio`."""
KL_ESTIMATORS: tuple[str, ...] = ("exact", "k3")


def fisher(policy: np.ndarray) -> np.ndarray:
    """F = Diag(pi) - pi pi^T [K, K], the Jacobian of softmax and the covariance of one action's indicator."""
    policy = np.asarray(policy, float)
    return np.diag(policy) - np.outer(policy, policy)


def reward_hessian(policy: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Hessian [K, K] of J = pi . r in the logits: Diag(pi d) - pi_a pi_b (d_a + d_b), d = r - J. Derived here."""
    policy, means = np.asarray(policy, float), np.asarray(means, float)
    gap = means - policy @ means
    return np.diag(policy * gap) - np.outer(policy, policy) * (gap[:, None] + gap[None, :])


class Signal(Protocol):
    """Turns rewards into a drift h(pi) F(pi) r.

    For developers. A new signal writes `means` [K], `label`, `factor` (h), `factors` (of many policies [N, K] at once)
    and `gradient` (dh/dlogits [K]). `mean_advantage` is 0 if advantages sum to zero in a group. `unbounded`: h diverges
    where the best arm has all the mass. `reweights_actions`: surviving actions have another law than pi.
    """

    @property
    def means(self) -> np.ndarray: ...
    @property
    def label(self) -> str: ...
    @property
    def unbounded(self) -> bool: ...
    @property
    def reweights_actions(self) -> bool: ...
    def factor(self, policy: np.ndarray) -> float: ...
    def factors(self, policies: np.ndarray) -> np.ndarray: ...
    def gradient(self, policy: np.ndarray) -> np.ndarray: ...
    def mean_advantage(self, policy: np.ndarray) -> float: ...


@dataclass(frozen=True)
class BinarySignal:
    """Success probabilities `success` [K] seen through a `GroupLaw`. Raises ValueError outside [0, 1] or K < 2."""

    law: GroupLaw
    success: tuple[float, ...]

    def __post_init__(self) -> None:
        values = _checks.numbers("rewards", [float(r) for r in self.success])
        _checks.require(len(values) >= 2, "rewards", "at least 2 arms", list(values))
        _checks.require(all(0 <= r <= 1 for r in values), "rewards", "probabilities in [0, 1]", list(values))
        object.__setattr__(self, "success", values)

    @cached_property
    def means(self) -> np.ndarray:
        """Expected reward per arm [K]."""
        return np.array(self.success)

    @property
    def label(self) -> str:
        """`G = infinity` or `G = ...`."""
        return self.law.label

    @property
    def reweights_actions(self) -> bool:
        """True if dropping silent groups changes how often an action is seen (finite groups only)."""
        return self.law.rule.drops and self.law.group_size is not None

    @property
    def unbounded(self) -> bool:
        """True if h diverges at the vertex of the best arm: the law diverges at J = 1 and the best arm reaches it."""
        return self.law.unbounded and max(self.success) == 1.0

    def _pair(self, policy: np.ndarray) -> tuple[float, float]:
        return float(policy @ self.means), float(policy @ (1 - self.means))

    def factor(self, policy: np.ndarray) -> float:
        """h(J(pi))."""
        return float(self.law.factor(*self._pair(policy)))

    def factors(self, policies: np.ndarray) -> np.ndarray:
        """`factor` of every policy [N, K]."""
        return self.law.factor(policies @ self.means, policies @ (1 - self.means))

    def gradient(self, policy: np.ndarray) -> np.ndarray:
        """h'(J) F r [K]."""
        return float(self.law.slope(*self._pair(policy))) * (fisher(policy) @ self.means)

    def mean_advantage(self, policy: np.ndarray) -> float:
        """Mean advantage of a group member; 0 for centred rules."""
        return float(self.law.mean_advantage(*self._pair(policy)))


@dataclass(frozen=True)
class MomentSignal:
    """Any rewards with means and within-arm variances [K], at G = infinity; options as those of `GroupLaw`.

    Raises ValueError for an advantage without a closed form here, fewer than 2 arms, variances < 0.
    """

    reward_means: tuple[float, ...]
    variances: tuple[float, ...] = field(default=())
    advantage: str = "grpo"
    eps: float = 0.0
    power: float = 0.5
    label: str = field(default="G = infinity", init=False)
    reweights_actions: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        means = _checks.numbers("rewards", [float(r) for r in self.reward_means])
        _checks.require(len(means) >= 2, "rewards", "at least 2 arms", list(means))
        spread = self.variances if len(self.variances) else (0.0,) * len(means)
        spread = _checks.numbers("reward variances", [float(v) for v in spread], len(means))
        _checks.require(min(spread) >= 0, "reward variances", "numbers >= 0", list(spread))
        _checks.choice("advantage", self.advantage, MOMENT_ADVANTAGES)
        object.__setattr__(self, "reward_means", means)
        object.__setattr__(self, "variances", spread)

    @cached_property
    def means(self) -> np.ndarray:
        """Expected reward per arm [K]."""
        return np.array(self.reward_means)

    @property
    def unbounded(self) -> bool:
        """True if the best arm is noise-free and the std alone divides."""
        best = int(np.argmax(self.means))
        return self.law.unbounded and self.variances[best] == 0

    @cached_property
    def law(self) -> GroupLaw:
        """The rule with its options."""
        return GroupLaw(self.advantage, None, self.eps, power=self.power)

    def factor(self, policy: np.ndarray) -> float:
        """1/(sigma^power + eps): power 1 for grpo, 0 without a std."""
        return float(self.factors(policy[None])[0])

    def factors(self, policies: np.ndarray) -> np.ndarray:
        """`factor` of every policy [N, K]."""
        power, eps, _ = self.law.rule.divides(self.law)
        gap = self.means - (policies @ self.means)[:, None]
        variance = np.sum(policies * (gap**2 + np.array(self.variances)), axis=-1)
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (variance ** (power / 2) + eps))

    def gradient(self, policy: np.ndarray) -> np.ndarray:
        """dh/dlogits [K]."""
        if not self.law.std_power:
            return np.zeros(len(self.means))
        square = (self.means - policy @ self.means) ** 2 + np.array(self.variances)
        half = self.law.std_power / 2
        return -(self.factor(policy) ** 2) * half * (policy @ square) ** (half - 1) * (fisher(policy) @ square)

    def mean_advantage(self, policy: np.ndarray) -> float:
        """J for none, 0 for the others: they are centred."""
        return float(policy @ self.means) if self.advantage == "none" else 0.0


class Split(NamedTuple):
    """Stiffness matrices [K, K] in logit space, reward per logit^2: `fresh` (current) and `stale` (rollout policy)."""

    fresh: np.ndarray
    stale: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """On-policy stiffness H = fresh + stale [K, K]."""
        return self.fresh + self.stale

    def reduced(self) -> tuple[np.ndarray, np.ndarray]:
        """Both parts without the all-ones direction, [K-1, K-1] each."""
        return reduce_matrix(self.fresh), reduce_matrix(self.stale)

    def spectrum(self) -> np.ndarray:
        """Eigenvalues [K-1] of the total, largest real part first (real for binary rewards)."""
        values = np.linalg.eigvals(reduce_matrix(self.total))
        values = values.real if np.abs(values.imag).max() <= 1e-12 * np.abs(values).max() else values
        return values[np.argsort(-values.real)]


def stiffness_split(
    signal: Signal, policy: np.ndarray, kl_weight: float, estimator: str = "frozen", kl_estimator: str = "exact"
) -> Split:
    """Fresh and stale stiffness at the fixed point `policy` [K]; clip variants act as `ratio` near a fixed point.

    Raises ValueError for an unknown estimator. Derived in this module.
    """
    _checks.choice("estimator", estimator, ESTIMATORS)
    _checks.choice("kl_estimator", kl_estimator, KL_ESTIMATORS)
    policy = np.asarray(policy, float)
    matrix = fisher(policy)
    bend = signal.factor(policy) * reward_hessian(policy, signal.means)
    total = kl_weight * matrix - np.outer(matrix @ signal.means, signal.gradient(policy))
    fresh = kl_weight * matrix
    if kl_estimator == "k3":
        total = total - bend
        fresh = kl_weight * _reference_scatter(signal, policy, kl_weight) - bend
    if estimator == "frozen":
        fresh = np.zeros_like(matrix)
    elif estimator == "uncorrected":
        fresh = fresh + bend + signal.mean_advantage(policy) * matrix
    return Split(fresh, total - fresh)


def _reference_scatter(signal: Signal, policy: np.ndarray, kl_weight: float) -> np.ndarray:
    """R [K, K] of the module docstring, the reference recovered from the balance beta (pi - ref) = h F r."""
    reference = policy - signal.factor(policy) * (fisher(policy) @ signal.means) / kl_weight
    mixed = np.outer(reference, policy)
    return np.diag(reference) - mixed - mixed.T + np.outer(policy, policy)


def largest_stiffness(split: Split) -> float:
    """Largest real part of the spectrum of H_fresh + H_stale, the stiffness that sets the threshold."""
    return float(split.spectrum()[0].real)

"""Two arms whose answers another law draws: fixed point, stiffness and critical KL weight, corrected or not.

Derived here; no source is known to us. Both logits are trained, x = theta_1 - theta_2 is the gap, p = sigma(x), s(x) =
p(1-p), x_0 the reference's gap, d the better arm's lead in mean reward. The sampler's gap is affine in the policy's,

    y = x/tau + xi     (temperature tau; xi = error of the first logit less that of the second), b = sigma(y).

Advantages that add up to 0 in a group have the means h(J_b)(r_k - J_b), J_b = b.r, h the factor of `group_law` (any G).
With weights w_k = w(pi_k/b_k) the mean update moves the gap by

    dx/dt = 2 [h(J_b) d s(y) ((1-p) w_1 + p w_2) - beta s(x)(x - x_0)].

*No correction*: w = 1, so that the reward's part is the sampler's, whatever the policy. Two arms of rewards 1 and 0,
x_0 = 0: x = s(x/tau)^a/(beta s(x)), a = 1 mean-only and 1/2 with the std, and the stiffness is 2 beta s(x) [1 +
x((1-2p) - a(1-2b)/tau)]. A cold sampler pulls towards the reference, a hot one away from it. Below the critical weight

    beta_c = min over x > x_0 of  h(J_b) d s(y) (...)/((x - x_0) s(x))

there is no interior fixed point. At tau > 1 mean-only training has one, too: 1/max[x s(x)/s(x/tau)], which is .5294 at
tau = 1.25, and nears e (1 - 1/tau) as tau -> 1. A static error of the logits moves the mean-only fixed point to about
e^-xi/beta where that is large: no number of samples removes it.

*Importance weights* pi/b: the bracket times s(y) is s(x). The direction is repaired, the factor h(J_b) is not: the
mean-only fixed point is the policy's own, and with the std beta_c is divided by about tau (exactly for rewards 1 and 0
of a uniform reference, at G = infinity), so that the repair takes a cold sampler nearer to collapse.

*One good arm and M others* of one reward, uniform reference: on the policies that treat the others alike all of this
holds for the log-odds z of the good arm. Its logit leads by z + ln M, so that x_0 = -ln M, the sampler has the log-odds
z/tau + xi with xi = (1/tau - 1) ln M, and only the clock is another, (M + 1)/M in place of 2: `one_good_arm`. A hot
sampler draws the good arm less often while it is rare. So beta_c falls with the number of arms, and is highest at a tau
that comes nearer to 1.

*Masks* (`icepop`) make the drift jump where pi/b leaves [low, high]. Where it jumps across 0 a run slides along that
gap: `rest` is there, and there is no stiffness.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit

from bandit_lab import _checks
from bandit_lab.theory.group_law import GroupLaw
from bandit_lab.theory.stiffness import BinarySignal

CORRECTIONS = ("none", "importance", "tis", "icepop")
_FAR = 300.0
"""Nats, of the policy's gap and of the sampler's; beyond, a policy is a vertex in double precision."""
_SCAN = 4001


@dataclass(frozen=True)
class ActingLaw:
    """Who draws, and how that is weighed. tau: temperature. xi: gap of a static error of the logits, nats.

    correction: none, importance (pi/b), tis (at most `high`), icepop (pi/b within [low, high], else 0). Raises
    ValueError for tau <= 0 or another correction.
    """

    tau: float = 1.0
    xi: float = 0.0
    correction: str = "none"
    low: float = 0.0
    high: float = np.inf

    def __post_init__(self) -> None:
        _checks.positive("tau", self.tau)
        _checks.choice("correction", self.correction, CORRECTIONS)

    def gap(self, gap: np.ndarray) -> np.ndarray:
        """The sampler's gap at the policy's."""
        return gap / self.tau + self.xi

    def weight(self, mismatch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(weight, its derivative) at pi/b."""
        if self.correction == "none":
            return np.ones_like(mismatch), np.zeros_like(mismatch)
        inside = mismatch <= self.high
        if self.correction == "icepop":
            inside = inside & (mismatch >= self.low)
        outside = self.high if self.correction == "tis" else 0.0
        return np.where(inside, mismatch, outside), inside.astype(float)


@dataclass(frozen=True)
class SampledTwoArms:
    """Two arms under an `ActingLaw`. signal: success probabilities and group law. reference_gap: x_0, nats.

    Raises ValueError for another number of arms, equal ones, or advantages that do not add up to 0 in a group.
    """

    signal: BinarySignal
    acting: ActingLaw = ActingLaw()
    reference_gap: float = 0.0

    def __post_init__(self) -> None:
        success = self.signal.success
        _checks.require(len(success) == 2 and success[0] != success[1], "rewards", "two, not equal", list(success))
        fits = self.signal.law.centred and not self.signal.reweights_actions
        _checks.require(fits, "advantage", "one that adds up to 0 in every group", self.signal.law.advantage)

    @property
    def _far(self) -> float:
        return _FAR * min(1.0, self.acting.tau)

    def _push(self, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(reward's part of half the drift over s(x), derivative of its logarithm): towards the first arm."""
        p, q, y = expit(gap), expit(-gap), self.acting.gap(gap)
        b, c, slope = expit(y), expit(-y), 1 / self.acting.tau
        first, second = self.signal.success
        success, failure = b * first + c * second, b * (1 - first) + c * (1 - second)
        factor = self.signal.law.factor(success, failure)
        (w1, d1), (w2, d2) = (self.acting.weight(m) for m in (p / b, q / c))
        weight = q * w1 + p * w2
        turn = p * q * (w2 - w1) + q * d1 * (p / b) * (q - slope * c) + p * d2 * (q / c) * (slope * b - p)
        bent = self.signal.law.slope(success, failure) / factor * (first - second) * b * c
        with np.errstate(divide="ignore", invalid="ignore"):
            return factor * (first - second) * (b * c) / (p * q) * weight, slope * (c - b + bent) + turn / weight

    def drift(self, gap: np.ndarray, kl_weight: float) -> np.ndarray:
        """dx/dt per unit of learning rate."""
        gap = np.asarray(gap, float)
        return 2 * expit(gap) * expit(-gap) * (self._push(gap)[0] - kl_weight * (gap - self.reference_gap))

    def stiffness(self, gap: float, kl_weight: float) -> float:
        """-d(dx/dt)/dx at a fixed point, which is also the stiffness of the two logits, reward per logit^2."""
        x = np.asarray(gap, float)
        p, q = expit(x), expit(-x)
        excess = x - self.reference_gap
        # s(x) push = beta s(x) excess there, so that the logarithm's derivative is all that is asked of the push
        return float(2 * kl_weight * p * q * (1 + excess * ((q - p) - self._push(x)[1])))

    def rest(self, kl_weight: float, start: float | None = None) -> float | None:
        """The gap that the mean flow from `start` (the reference's gap) ends at; None if it runs to a vertex.

        At a mask's edge that is a jump of the drift across 0. A scan from the start with a root in the first bracket.
        """
        begin = self.reference_gap if start is None else start
        side = float(np.sign(self.drift(np.asarray(begin), kl_weight)))
        if side == 0:
            return begin
        gaps = begin + side * np.concatenate([[0.0], np.geomspace(1e-6, self._far, _SCAN)])
        turned = np.flatnonzero(np.sign(self.drift(gaps, kl_weight)) != side)
        if not turned.size:
            return None
        ends = sorted(gaps[turned[0] - 1 : turned[0] + 1])
        return float(brentq(lambda x: float(self.drift(np.asarray(x), kl_weight)), *ends, xtol=1e-14, rtol=1e-14))

    def critical_kl_weight(self) -> float | None:
        """beta_c, reward per nat: below it training runs to the better arm's vertex. None if every weight > 0 holds."""
        side = float(np.sign(self.signal.success[0] - self.signal.success[1]))

        def weight(log_distance: float | np.ndarray) -> np.ndarray:
            distance = np.exp(log_distance)
            return side * self._push(self.reference_gap + side * distance)[0] / distance

        grid = np.linspace(np.log(1e-3), np.log(self._far), _SCAN)
        values = weight(grid)
        i = int(np.argmin(values))
        if i in (0, _SCAN - 1):
            return None
        smallest = minimize_scalar(
            lambda t: float(weight(t)), bounds=(grid[i - 1], grid[i + 1]), method="bounded", options={"xatol": 1e-12}
        )
        return float(smallest.fun)


def one_good_arm(
    law: GroupLaw, others: int, acting: ActingLaw = ActingLaw(), success: tuple[float, float] = (1.0, 0.0)
) -> SampledTwoArms:
    """A good arm and `others` of one success probability, uniform reference: gaps are log-odds of the good arm, nats.

    acting: with the temperature and the correction; a static error `xi` is that of the good arm's logit. success: of
    the good arm and of each other one. Fixed points and critical KL weights are those of `others` + 1 arms; rates and
    stiffness, along the policies that treat the others alike, are theirs times 2 `others`/(`others` + 1). Raises
    ValueError for others < 1, and as `SampledTwoArms`.
    """
    lead = math.log(_checks.integer("others", others, 1))
    moved = replace(acting, xi=acting.xi + (1 / acting.tau - 1) * lead)
    return SampledTwoArms(BinarySignal(law, success), moved, -lead)

"""How sure a look has to be, so that a whole run of looks raises a false alarm as rarely as is promised.

Looks come on a geometric schedule: the next one when the run has grown by `GROWTH`. Look k of a test spends

    alpha / (k (k + 1)),        which sums to alpha over all k, however long the run,

of the rate alpha that the test was given (alpha spending, Lan and DeMets, Biometrika 70, 1983; the union bound over
looks needs no independence of them). A look that compares m stretches of the curve divides it by m. What is left is
turned into standard errors by the normal law. Reward noise is not white: `correlated` says by how much an error that
was worked out from second differences, as if it were, is too small. No test is laxer here than in `diagnose`.

Entropy, silent groups, KL and gradient norm have no such noise model. They are levels, and an alarm asks that a level
holds on for a share of the run (`HOLD`). What all this amounts to is measured: `experiments/grading/alarms.py`.
"""

from statistics import NormalDist

import numpy as np

from grpo_clinic.noise import noise_level, scatter
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Floats

FIRST = 24
"""Rows before the first look."""
GROWTH = 1.02
"""Factor by which a run grows from one look to the next."""
SHARES = {"collapsed": 0.4, "dynamical_instability": 0.2, "reward_hacking": 0.2}
"""What the tests with a noise model get of the rate; the rest is left for what holds on."""
HOLD = {
    "diverging": 0.02,
    "sampler_mismatch": 0.1,
    "truncated_answers": 0.1,
    "policy_concentration": 0.25,
    "advantage_degeneracy": 0.1,
    "stalled": 0.0,
    "misreported_probabilities": 0.1,
    "stale_answers": 0.1,
    "clipped": 0.1,
}
"""Share of the run for which a level has to hold on."""
LONE = 2
"""Rows of the last tenth that may lie anywhere without a run's being collapsed: one step of a dead reward server."""
PROVEN = ("misreported_probabilities", "sampler_mismatch", "truncated_answers", "diverging",
          "advantage_degeneracy")  # fmt: skip
"""What is told from levels, so that the first rows may prove it."""
STALLED = 0.12
"""Share of the room above the first rewards: a run has stalled when two errors exclude that it gained so much.

`diagnose` takes a fifth, at a run's end. During a run slow learners gain less than that: of 600 healthy runs of the
training ranges 3.8 % stalled at a fifth and 1.0 % at 0.12.
"""
_MOST = 0.5
"""Largest lag-one correlation that is believed: a slow fall looks like one, too."""


def spent(rate: float, look: int, comparisons: int = 1) -> float:
    """Standard errors that look k >= 1 of a test with this rate asks for."""
    return -NormalDist().inv_cdf(rate / (look * (look + 1) * max(comparisons, 1)))


def correlated(reward: Floats) -> float:
    """Factor >= 1 on the standard error of a mean, for first-order correlation rho of the noise [n].

    Median absolute differences at distances 1 and 2 have variances in the ratio 1 + rho. White noise read off second
    differences is sigma^2 (1 - rho)(3 - rho)/3; a long mean has sigma^2 (1 + rho)/(1 - rho) over its points.
    """
    near, far = (median(np.abs(reward[lag:] - reward[:-lag])) for lag in (1, 2))
    if near <= 0:
        return 1.0
    rho = float(np.clip((far / near) ** 2 - 1, 0.0, _MOST))
    return float(np.sqrt(3 * (1 + rho) / ((1 - rho) ** 2 * (3 - rho))))


def coarse(reward: Floats) -> float:
    """Factor >= 1 by which the noise is larger than `noise_level` says, which takes the median: rewards of few prompts
    have few values and long tails [n]."""
    rms = scatter(reward)
    return max(1.0, rms / max(noise_level(reward), 1e-12)) if rms > 0 else 1.0


def at_look(rate: float, look: int, held_out_look: int, reward: Floats, held_out: int) -> dict[str, float]:
    """Standard errors by rule at look k, for rewards [n] and so many held-out results."""
    stretches, tails = 3 * reward.size // max(reward.size // 10, 3), coarse(reward)
    fall = tails * max(5.0, correlated(reward) * spent(SHARES["collapsed"] * rate, look, stretches))
    swing = tails * max(5.5, spent(SHARES["dynamical_instability"] * rate, look, stretches))
    alone = max(4.0, spent(SHARES["reward_hacking"] * rate, max(held_out_look, 1), held_out))
    return {"fall.reward": fall, "fall.eval": fall, "fall.alone": alone, "swings": swing}

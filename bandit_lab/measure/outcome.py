"""What became of a run: one code per trajectory, and the boundary that sampled runs show."""

from enum import IntEnum

import numpy as np

from bandit_lab.measure.onset import oscillates
from bandit_lab.simulation import Summary


class Outcome(IntEnum):
    """The outcome of one run. A diverged run is a result, not an exception; `text` says what each code means."""

    UNDECIDED = 0
    CONVERGED = 1
    OSCILLATING = 2
    UNSTABLE = 3
    COLLAPSED = 4
    NON_FINITE = 5

    @property
    def label(self) -> str:
        """The name used in files: lower case, as in `summary.json`."""
        return self.name.lower()

    @property
    def text(self) -> str:
        """One sentence for tables and legends."""
        return _TEXT[self]


_TEXT = {
    Outcome.UNDECIDED: "too slow or too close to a boundary to tell within the steps given",
    Outcome.CONVERGED: "returns to the fixed point without overshoot",
    Outcome.OSCILLATING: "returns to the fixed point, overshooting it on the way",
    Outcome.UNSTABLE: "grows away from the fixed point or keeps cycling around it",
    Outcome.COLLAPSED: "policy at a vertex, groups silent",
    Outcome.NON_FINITE: "a logit became infinite or not a number",
}

NOISE_MULTIPLE = 4.0  # a departure counts beyond this many stationary standard deviations
VERTEX_SHARE = 0.01  # collapsed: the other arms keep less than this share of their mass at the fixed point
LOST = (Outcome.UNSTABLE, Outcome.COLLAPSED, Outcome.NON_FINITE)  # outcomes that have left the fixed point
_UNDECIDED_RATE = 1e-10  # per step


def classify_mean(growth: np.ndarray, pole: np.ndarray) -> np.ndarray:
    """Outcome codes [C] of exact dynamics near their fixed point from a growth rate and a dominant pole, each [C]."""
    growth, pole = np.asarray(growth), np.asarray(pole)
    codes = np.where(oscillates(pole), Outcome.OSCILLATING, Outcome.CONVERGED)
    codes = np.where(growth > 0, Outcome.UNSTABLE, codes)
    codes = np.where(np.abs(growth) < _UNDECIDED_RATE, Outcome.UNDECIDED, codes)
    return np.where(np.isnan(growth), Outcome.NON_FINITE, codes).astype(np.int8)


def classify_runs(
    summary: Summary, expected_reward: np.ndarray, largest_probability: np.ndarray, stationary_std: np.ndarray
) -> np.ndarray:
    """Outcome codes [C, S] of sampled runs.

    In this order: `non_finite`; `collapsed` at a vertex (the other arms keep less than VERTEX_SHARE of the mass that
    they have at the fixed point); *settled*, if mean and standard deviation of the last half are within NOISE_MULTIPLE
    stationary standard deviations of the fixed point: `oscillating` if the fixed point was overshot by more than that,
    else `converged`; not settled though the fixed point was overshot: `unstable`, a sustained cycle; else `undecided`,
    the run has not arrived.

    Args:
      summary: of `simulation.run`, arrays [C, S]. expected_reward, largest_probability: [C] at the fixed point.
      stationary_std: [C] of the expected reward; where no stationary state exists, that of small steps.
    """
    middle = np.asarray(expected_reward)[:, None]
    noise = NOISE_MULTIPLE * np.asarray(stationary_std)[:, None]
    settled = (np.abs(summary.tail_mean - middle) <= noise) & (summary.tail_std <= noise)
    overshot = summary.overshoot > noise
    codes = np.where(
        settled,
        np.where(overshot, Outcome.OSCILLATING, Outcome.CONVERGED),
        np.where(overshot, Outcome.UNSTABLE, Outcome.UNDECIDED),
    )
    others = VERTEX_SHARE * (1 - np.asarray(largest_probability)[:, None])
    codes = np.where(1 - summary.final_max_probability < others, Outcome.COLLAPSED, codes)
    return np.where(summary.finite, codes, Outcome.NON_FINITE).astype(np.int8)


def share_of_lost(counts: np.ndarray) -> np.ndarray:
    """Share of runs [...] that lost the fixed point: unstable, collapsed or non-finite; NaN where there are no runs.

    counts: [..., outcomes] runs per outcome.
    """
    total = counts.sum(axis=-1)
    return np.where(total > 0, counts[..., list(LOST)].sum(axis=-1) / np.maximum(total, 1), np.nan)


def sampled_boundary(learning_rates: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Learning rate [C] at which half of the runs are lost for the first time, interpolated on the log.

    NaN where the grid does not bracket it.

    Args:
      learning_rates: [M], rising. lost: [C, M] from `share_of_lost`.
    """
    lost, log_rate = np.asarray(lost), np.log(learning_rates)
    beyond = lost >= 0.5
    first = np.argmax(beyond, axis=1)
    crosses = beyond.any(axis=1) & (first > 0)
    rows, before = np.arange(len(lost)), np.maximum(first - 1, 0)
    rise = np.where(crosses, lost[rows, first] - lost[rows, before], 1)
    part = (0.5 - lost[rows, before]) / rise
    return np.where(crosses, np.exp(log_rate[before] + part * (log_rate[first] - log_rate[before])), np.nan)


def count_outcomes(codes: np.ndarray) -> dict[str, int]:
    """Number of runs that ended in each outcome, by its label."""
    return {outcome.label: int(np.sum(codes == outcome)) for outcome in Outcome}

"""The sampled half of a sweep: a coarse grid of noisy runs, what became of each, and the boundary that they show.

Runs begin at the fixed point (a hair's breadth towards the initial policy), so that what carries them off is the noise
and the loss of stability, not a first block that overshoots from far away; `sampled.start=initial` begins where
training does. A run counts as lost by `measure.classify_runs`. The noise scale there is the stationary std of small
steps (temperature alone): the full linear prediction diverges at the threshold and would excuse every cycle near it. A
run that sits near the best arm's vertex is lost however large that scale is.
"""

from dataclasses import dataclass

import numpy as np

from bandit_lab import measure
from bandit_lab.grpo import Hyper
from bandit_lab.simulate import Runs, Summary, run
from bandit_lab.study.progress import ProgressCallback
from bandit_lab.study.sweep_exact import DriftResult, Ground, Predicted, values
from bandit_lab.study.sweep_plan import SweepPlan
from bandit_lab.study.wiring import noise_covariance, stationary_stds

NUDGE = 1e-3  # of the way from the fixed point to the initial policy
CEILING_SHARE = 0.75  # of the way from the fixed point to the best arm's reward: the largest departure that is noise
CYCLE_MULTIPLE = 2.0  # a tail that fluctuates more than this many noise scales is a sustained cycle
SMALL = 0.02  # of the threshold: there the stationary variance is proportional to the learning rate


@dataclass(frozen=True)
class SampledResult:
    """Sampled runs. Q rows (momentum, KL weight, refresh interval), P learning rates each, S seeds, T steps.

    steps: [Q] length of the runs of each row. learning_rate: [Q, P]. outcome: [Q, P, S] codes. lost: [Q, P] share of
    runs that left the fixed point. boundary: [Q] learning rate at which half of them do, NaN where the grid does not
    bracket it. summary: arrays [Q, P, S].
    reward_mean, reward_variance: [Q, P, T + 1] over seeds, NaN beyond a row's own length.
    """

    rows: Hyper
    steps: np.ndarray
    learning_rate: np.ndarray
    outcome: np.ndarray
    lost: np.ndarray
    boundary: np.ndarray
    reasons: list[str | None]
    noise_scale: np.ndarray
    summary: Summary
    reward_mean: np.ndarray
    reward_variance: np.ndarray


def learning_rates(plan: SweepPlan, predicted: Predicted, measured: np.ndarray, fine: np.ndarray) -> np.ndarray:
    """Learning rates [Q, P]: multiples of each row's threshold, or the fine grid's where there is none."""
    count = len(plan.multiples)
    spare = np.geomspace(fine[0], fine[-1], count)
    exact = values(predicted.exact)
    threshold = np.where(np.isfinite(exact) & (exact > 0), exact, measured)
    return np.array([t * plan.multiples if np.isfinite(t) and t > 0 else spare for t in threshold])


def run_sampled(
    plan: SweepPlan, drift: DriftResult | None, rows: Hyper, rates: np.ndarray, progress: ProgressCallback
) -> SampledResult:
    """Run the coarse grid and judge every run. `drift` is the finite-group drift on the same rows, if it is known."""
    reward, largest, std, reasons = _expectations(plan, drift, rows, rates)
    starts = _starts(plan, drift, rows)
    settings = list(zip(rows.momentum.tolist(), rows.refresh_interval.tolist(), strict=True))
    steps = np.array([plan.sampled_steps(*setting) for setting in settings])
    shape = (*rates.shape, plan.settings.seeds)
    summary = Summary(*(np.empty(shape, bool if name == "finite" else float) for name in Summary._fields))
    curves = np.full((2, *rates.shape, plan.longest + 1), np.nan)
    blocks = _Blocks(progress, steps, rates.shape[1], plan.settings.seeds)
    for length in np.unique(steps):
        mine = np.flatnonzero(steps == length)
        part = Hyper(*(np.asarray(column)[mine] for column in rows))
        runs = _run_part(plan, part, rates[mine], int(length), starts[mine], reward[mine], blocks)
        block = (len(mine), rates.shape[1])
        for target, source in zip(summary, runs.summary, strict=True):
            target[mine] = source.reshape(*block, -1)
        curves[0, mine, :, : length + 1] = runs.reward_mean.reshape(*block, -1)
        curves[1, mine, :, : length + 1] = runs.reward_variance.reshape(*block, -1)
        blocks.finished(int(length))
    codes = _classify(summary, reward, largest, std, float(np.max(plan.learner.bandit.true_means)))
    lost = measure.lost_share(codes)
    boundary = np.array([measure.sampled_boundary(r, s[None])[0] for r, s in zip(rates, lost, strict=True)])
    reasons = _explain(reasons, lost)
    return SampledResult(rows, steps, rates, codes, lost, boundary, reasons, std, summary, curves[0], curves[1])


class _Blocks:
    """Progress over runs of several lengths, in steps of blocks."""

    def __init__(self, progress: ProgressCallback, steps: np.ndarray, per_row: int, seeds: int) -> None:
        self.progress, self.before = progress, 0.0
        self.share = {int(n): per_row * seeds * n * np.sum(steps == n) / (per_row * seeds * steps.sum()) for n in steps}

    def within(self, length: int) -> ProgressCallback:
        """The callback for one length."""
        return lambda done, total: self.progress(round(100 * (self.before + self.share[length] * done / total)), 100)

    def finished(self, length: int) -> None:
        """All runs of this length are done."""
        self.before += self.share[length]


def _run_part(
    plan: SweepPlan, rows: Hyper, rates: np.ndarray, steps: int, starts: np.ndarray, reward: np.ndarray, blocks: _Blocks
) -> Runs:
    settings, per_row = plan.settings, rates.shape[1]
    return run(
        plan.learner,
        "sampled",
        Hyper(rates.ravel(), *(np.repeat(column, per_row) for column in rows[1:])),
        steps=steps,
        seeds=settings.seeds,
        seed=settings.seed,
        dtype=np.dtype(settings.precision or "float32"),
        initial=np.repeat(starts, per_row, axis=0),
        reference=reward.ravel(),
        progress=blocks.within(steps),
    )


def _classify(summary: Summary, reward: np.ndarray, largest: np.ndarray, std: np.ndarray, best: float) -> np.ndarray:
    """Outcome codes [Q, P, S]: mean within 4 noise scales, fluctuation within CYCLE_MULTIPLE, both short of the vertex.

    best: mean reward of the best arm. `measure.classify_runs` knows one scale only; the fluctuation is rescaled to it.
    """
    vertex = CEILING_SHARE * (best - reward)
    around = np.minimum(measure.outcome.NOISE_MULTIPLE * std, vertex)
    cycle = np.minimum(CYCLE_MULTIPLE * std, vertex)
    flat = Summary(*(column.reshape(reward.size, -1) for column in summary))
    rescaled = flat._replace(tail_std=flat.tail_std * (around / cycle).reshape(-1, 1))
    scale = around.ravel() / measure.outcome.NOISE_MULTIPLE
    codes = measure.classify_runs(rescaled, reward.ravel(), largest.ravel(), scale)
    return codes.reshape(summary.tail_std.shape)


def _explain(reasons: list[str | None], lost: np.ndarray) -> list[str | None]:
    """Why a row shows no boundary."""
    texts = []
    for reason, share in zip(reasons, lost, strict=True):
        inside = "half of the runs are lost already at the smallest learning rate of the row"
        outside = "fewer than half of the runs are lost up to the largest learning rate of the row"
        texts.append(reason or (inside if share[0] >= 0.5 else outside if np.all(share < 0.5) else None))
    return texts


def _expectations(
    plan: SweepPlan, drift: DriftResult | None, rows: Hyper, rates: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str | None]]:
    """(expected reward, largest probability, stationary std [Q, P] each, reason [Q]) at each row's fixed point.

    Without a fixed point the reward is NaN: such runs are collapsed or undecided, nothing else can be said of them.
    """
    shape = rates.shape
    reward, largest, std = np.full(shape, np.nan), np.zeros(shape), np.full(shape, np.nan)
    reasons: list[str | None] = [None] * shape[0]
    for q in range(shape[0]):
        ground = drift.ground(float(rows.kl_weight[q])) if drift else None
        if ground is None or not ground.point.exists:
            reasons[q] = ground.point.reason if ground else plan.no_finite_group
            continue
        reward[q], largest[q] = ground.point.expected_reward, float(np.max(ground.point.policy))
        exact = drift.predicted.exact[q].value if drift else None
        std[q], reasons[q] = _stds(
            plan, ground, exact, (float(rows.momentum[q]), rows.refresh_interval[q].item()), rates[q]
        )
    return reward, largest, std, reasons


def _starts(plan: SweepPlan, drift: DriftResult | None, rows: Hyper) -> np.ndarray:
    """Parameters [Q, D] at step 0."""
    initial = np.asarray(plan.learner.bandit.initial_parameters)
    starts = np.tile(initial, (len(rows.momentum), 1))
    if plan.settings.sampled.start == "initial" or drift is None:
        return starts
    for q, weight in enumerate(rows.kl_weight):
        point = drift.ground(float(weight)).point
        if point.theta is not None:
            away = initial - point.theta if np.any(initial != point.theta) else point.basis[:, 0]
            starts[q] = point.theta + NUDGE * away
    return starts


def _stds(
    plan: SweepPlan, ground: Ground, exact: float | None, setting: tuple[float, float], rates: np.ndarray
) -> tuple[np.ndarray, str | None]:
    """Noise scale [P] of the expected reward: the stationary std far below the threshold, grown with sqrt(eta)."""
    policy = ground.linear.policy
    if policy is None:
        return np.full(len(rates), np.nan), ground.linear.why_not()
    noise, reason = noise_covariance(plan.learner, plan.settings, policy)
    means = np.asarray(plan.learner.bandit.true_means)[0]
    small = SMALL * min(exact or np.inf, float(rates[0]))
    base, _, why = stationary_stds(ground.linear, noise, means, (small, *setting), plan.settings.batch_reuse)
    if base is None:
        return np.full(len(rates), np.nan), reason or why
    return base * np.sqrt(rates / small), None

"""What had been gained is lost and stays down: of the reward, or of what counts."""

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.record import Floats, RewardScale, Series
from grpo_clinic.rules.base import CHOSEN, Case, Fact, Rule, register_rule, true_parts

_FEWEST, _HELD_OUT = 8, 6
"""Rewards, and held-out results, of which a fall is told."""
_EXPLAINED, _SPARE = 0.9, 5
"""Share of the reward's changes that its parts make, where nothing else is in it; rows beyond the number of parts."""


@register_rule(
    "fall",
    of={
        "reward": {},
        "eval": {"needs": ("eval", "reward"), "rows": 10, "source": f"{CHOSEN}; the reward must fall with it"},
        "alone": {
            "needs": ("reward",),
            "verdict": "reward_hacking",
            "rows": 10,
            "errors": 4.0,
            "proves": "half of what had been gained of what counts was lost, and the reward stayed up",
        },
    },
    verdict="collapsed",
    needs=("reward",),
    rows=_FEWEST,
    limit=0.5,
    errors=5.0,
    unit="share of the climb, or of half the height",
    formula="(best running mean - mean of the last rewards) / max(climb, height/2)",
    source=CHOSEN,
    proves="half of what had been gained was lost and stayed down",
)
def _fall(case: Case, rule: Rule) -> Fact | None:
    """Of the reward; of held-out results with it; of them, or of a part that counts, alone."""
    reward, curve = case.curve.reward_series, case.curve
    if rule.role == "reward":
        fact = fall_of(reward, curve.scale.bottom, rule)
        if case.at_rate_zero:
            fact = fact._replace(then="At learning rate 0 nothing is unlearned: look at the engine and at the checker.")
        if fact.fires and _reweighted(case, fact.window[0]):
            fact = fact.unless(True, "; its parts did not fall, their weights did")
            fact = fact._replace(then="The weights of the reward's parts fell, the parts did not: judge the parts.")
        return fact
    parts = [one for one in true_parts(case) if one.value.size >= 2 * _FEWEST] if rule.role == "alone" else []
    held = next((one for one in (curve.eval, *parts) if one is not None and one.value.size >= _HELD_OUT), None)
    if held is None or curve.reward_is_eval:
        return None
    scale = curve.scale if curve.scale.given else RewardScale.estimated(held.value)
    fact = fall_of(held, scale.bottom, rule)
    since = min(int(np.searchsorted(reward.step, fact.window[0])), case.reward.size - 10)
    with_it = noise.gain_of(case.reward[since:]).falls
    return fact._replace(text=f"'{held.key}' {fact.text}").unless(with_it == (rule.role == "alone"))


def _reweighted(case: Case, onset: float) -> bool:
    """Whether the weights of the reward's parts make most of the fall: weights just before it, and at the end."""
    columns = [one.at(case.curve.step) for one in case.curve.parts.values()]
    table = np.stack((*columns, case.reward), axis=-1)
    logged = np.isfinite(table).all(axis=-1)
    table, before = table[logged], int((case.curve.step[logged] < onset).sum())
    size = max(len(columns) + _SPARE, len(table) // 10)
    if not columns or len(table) - max(before, size) < size:
        return False
    early, late = table[max(before - size, 0) : max(before, size)], table[-size:]
    lost = late[:, :-1].mean(axis=0) @ (_weights(early) - _weights(late))
    return bool(lost > 0.5 * (early[:, -1].mean() - late[:, -1].mean()))


def _weights(table: Floats) -> Floats:
    """Weights [k] of the parts of a reward, its last column [n, k + 1]; NaN where they do not explain its changes."""
    change = np.diff(table, axis=0)
    parts, reward = np.hsplit(change - change.mean(axis=0), [-1])
    reward = reward[:, 0]
    found = np.asarray(np.linalg.lstsq(parts, reward, rcond=None)[0], float)
    left = np.sum((reward - parts @ found) ** 2) / max(float(np.sum(reward**2)), 1e-300)
    return found if left <= 1 - _EXPLAINED else np.full(found.size, np.nan)


def fall_of(series: Series, bottom: float, rule: Rule) -> Fact:
    """The fall of rewards [n] above their bottom, with the step at which it set in.

    The peak is a running mean over a tenth of the points (3 to 20), the end a mean over as many, or over three: a late
    fall must not be averaged away. Half of the limit must be lost without the lowest, too: one row is no fall.
    """
    reward, step = series.value - bottom, series.step
    width = noise.smoothed_over(reward.size)
    means = noise.running_means(reward, width)
    peak = int(means.argmax())
    size = max(float(means[peak] - means[: peak + 1].min()), 0.5 * abs(float(means[peak])), 1e-300)
    level = max(noise.noise_level(reward), 1e-6 * size)

    def at_the_end(last: int) -> tuple[float, float, float, int]:
        lost = float(means[peak] - reward[-last:].mean())
        others = float(means[peak] - np.sort(reward[-last:])[1:].mean())
        errors = lost / level / float(np.sqrt(1 / width + 1 / last))
        return min(lost / size / rule.limit, 2 * others / size / rule.limit, errors / rule.errors), lost, errors, last

    score, lost, errors, last = max(at_the_end(3), at_the_end(width))
    high = means >= means[peak] - 0.2 * (means[peak] - means[-1])
    onset = float(step[min(int(np.flatnonzero(high)[-1]) + width // 2, step.size - 1)])
    text = f"fell from {means[peak] + bottom:.3g} to {means[peak] + bottom - lost:.3g} ({max(errors, 0):.1f} errors)"

    def as_deep(drawn: Floats) -> np.ndarray:
        return np.asarray(noise.running_means(drawn, width).max(axis=-1) - drawn[:, -last:].mean(axis=-1) >= lost)

    if score >= 1:
        p = noise.by_chance(reward, as_deep)
        score = noise.judged(score, p)
        text += f", setting in at step {onset:g}; p = {p:.2g} against white noise like its own"
    return Fact(max(score, 0.0), lost / size, (onset, float(step[-1])), last, text)

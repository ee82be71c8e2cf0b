"""What the reward alone shows: a fall that was not made good, swings that go on, a standstill with room left."""

import math

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.record import Floats, RewardScale, Series
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, where
from grpo_clinic.rules.truth import true_parts
from grpo_clinic.swings import Swings

_FEWEST, _YOUNG = 8, 80
"""Rewards from which a fall is judged; and a standstill: cut off at fewer, healthy runs are called stalled."""
_ALONE = 0.25
"""Share that is lost without the lowest of the last rewards, too: one row is no collapse."""
_SLOW, _NEAR_TOP = 0.05, 0.85
"""Of the room above the first rewards: a gain that is too slow. Of the scale: where little is left to learn."""
_QUICK, _HINTED = 0.25, 1.25
"""Share of the first fifth that is the first few rewards, and errors from which they hint at a quick rise."""
_ROUNDING = 1e-9
_EXPLAINED, _SPARE = 0.9, 5
"""Share of the reward's changes that its parts make, where nothing else is in it; rows beyond the number of parts."""
_CHOSEN = "limits chosen on simulated runs (experiments/grading/training.yaml)"


@register_rule(
    "fall",
    of={
        "reward": {},
        "eval": {"needs": ("eval", "reward"), "source": f"{_CHOSEN}; the reward must fall with it"},
        "alone": {
            "needs": ("eval|parts", "reward"),
            "verdict": "reward_hacking",
            "rows": 6,
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
    source=_CHOSEN,
    proves="half of what had been gained was lost and stayed down",
)
def _fall(case: Case, rule: Rule) -> Fact | Missing | None:
    """Of the reward; of held-out results with it; of them, or of a part that counts, alone."""
    reward, curve = case.curve.reward_series, case.curve
    if rule.role == "reward":
        fact = fall_of(reward, curve.scale.bottom, rule)
        swing = fact.fires and case.reward.size >= 24 and case.swings.score >= 1
        swing = swing and fact.window[0] >= case.swings.last_bottom
        return _unless_reweighted(case, fact.unless(swing, "; the reward swings, and this fall is its last swing's"))
    parts = [one for one in true_parts(case) if one.value.size >= 2 * _FEWEST] if rule.role == "alone" else []
    held = next((one for one in (curve.eval, *parts) if one is not None and one.value.size >= rule.rows), None)
    if held is None or curve.reward_is_eval:
        return None
    if case.reward.size < 10:
        return Missing("reward", True, case.reward.size, 10)
    scale = curve.scale if curve.scale.given else RewardScale.estimated(held.value)
    fact = fall_of(held, scale.bottom, rule)
    since = min(int(np.searchsorted(reward.step, fact.window[0])), case.reward.size - 10)
    with_it = noise.gain_of(case.reward[since:]).falls
    return fact._replace(text=f"'{held.key}' {fact.text}").unless(with_it == (rule.role == "alone"))


def _unless_reweighted(case: Case, fact: Fact) -> Fact:
    """The same; below the limit where most of the fall is made by the weights of the reward's parts.

    Added after the rules were scored on the second half of the public runs.
    """
    parts = [one.at(case.curve.step) for one in case.curve.parts.values()] if fact.fires else []
    if not parts:
        return fact
    table = np.stack(parts, axis=-1)
    logged = np.isfinite(table).all(axis=-1)
    table, reward, before = table[logged], case.reward[logged], int((case.curve.step[logged] < fact.window[0]).sum())
    size = max(len(parts) + _SPARE, reward.size // 10)
    early, late = slice(max(before - size, 0), max(before, size)), slice(-size, None)
    if reward.size - max(before, size) < size:
        return fact
    lost = _weights(reward[early], table[early]) - _weights(reward[late], table[late])
    if not table[late].mean(axis=0) @ lost > 0.5 * (reward[early].mean() - reward[late].mean()):
        return fact
    fact = fact._replace(then="The weights of the reward's parts fell, the parts did not: judge the parts.")
    return fact.unless(True, "; its parts did not fall, their weights did")


def _weights(reward: Floats, table: Floats) -> Floats:
    """Weights [k] of the parts [n, k] beside a straight line; NaN where they do not explain the reward."""

    def fitted(columns: Floats) -> tuple[Floats, float]:
        found = np.asarray(np.linalg.lstsq(columns, reward, rcond=None)[0], float)
        return found, float(np.sum((reward - columns @ found) ** 2))

    line = np.column_stack((np.ones(reward.size), np.linspace(-1, 1, reward.size)))
    found, left = fitted(np.column_stack((table, line)))
    explained = left <= (1 - _EXPLAINED) * fitted(line)[1]
    return found[: table.shape[1]] if explained else np.full(table.shape[1], np.nan)


def fall_of(series: Series, bottom: float, rule: Rule) -> Fact:
    """The fall of rewards [n] above their bottom, with the step at which it set in.

    The peak is a running mean over a tenth of the points (3 to 20), the end a mean over the last 3, a twentieth and a
    tenth: a late fall must not be averaged away.
    """
    reward, step = series.value - bottom, series.step
    width = noise.smoothed_over(reward.size)
    means = np.convolve(reward, np.ones(width) / width, mode="valid")
    peak = int(means.argmax())
    size = max(float(means[peak] - means[: peak + 1].min()), 0.5 * abs(float(means[peak])), 1e-300)
    error = max(noise.noise_level(reward), 1e-6 * size, 1e-300)
    ends = []
    for last in sorted({2 if reward.size < 24 else 3, max(3, reward.size // 20), width}):
        lost = float(means[peak] - reward[-last:].mean())
        lost = lost if abs(lost) > _ROUNDING * size else 0.0
        others = float(means[peak] - np.sort(reward[-last:])[1:].mean())
        z = lost / (error * np.sqrt(1 / width + 1 / last))
        ends.append((min(lost / size / rule.limit, z / rule.errors, others / size / _ALONE), lost / size, z, last))
    best, share, z, end = max(ends, key=lambda one: one[0])
    level = means[peak] - 0.2 * (means[peak] - means[-1])
    onset = float(step[min(int(np.flatnonzero(means >= level)[-1]) + width // 2, step.size - 1)])
    ends_at = means[peak] + bottom - share * size
    text = f"fell from {means[peak] + bottom:.3g} to {ends_at:.3g} ({max(z, 0):.1f} standard errors)"

    def as_deep(drawn: Floats) -> np.ndarray:
        top = noise.running_means(drawn, width).max(axis=-1)
        return np.asarray(top - drawn[:, -end:].mean(axis=-1) >= share * size)

    if best >= 1:
        p = noise.by_chance(reward, as_deep)
        best = noise.judged(best, p)
        text += f", setting in at step {onset:g}; p = {p:.2g} against white noise like its own"
    return Fact(max(float(best), 0.0), float(share), (onset, float(step[-1])), end, text)


@register_rule(
    "swings",
    verdict="dynamical_instability",
    needs=("reward",),
    rows=24,
    limit=0.4,
    errors=5.5,
    unit="share of the running mean's span",
    formula="largest d such that the mean fell by d and came back, twice",
    source=_CHOSEN,
    proves="the reward swings, and the swings go on",
)
def _swings(case: Case, rule: Rule) -> Fact:
    """Those that died down are no instability."""
    shipped = (rule.limit, rule.errors) == (0.4, 5.5)
    wave = case.swings if shipped else Swings(case.curve, rule.limit, rule.errors)
    text = f"the running mean of {wave.width} fell by {wave.depth:.3g} and came back, twice, at {wave.z:.1f} errors"
    text += "" if wave.goes_on else f"; the swings died down: {wave.late:.2g} in the second half"
    return Fact(wave.score, float(wave.share), where(case.curve.reward_series)[0], wave.width, text)


@register_rule(
    "standstill",
    verdict="stalled",
    needs=("reward",),
    rows=10,
    limit=2.0,
    unit="errors of the gain",
    formula="gain from the beginning to the last fifth <= 2 errors, and gain + error < .2 of the room",
    source=f"below {_YOUNG} rewards healthy runs of more than one public repository in twenty would be called stalled",
    proves="the reward gained nothing that shows where there was room",
)
def _standstill(case: Case, rule: Rule) -> Fact | Missing:
    """Or all but a twentieth of the room is left. A larger gain must not hide in the error."""
    curve, reward, part, gain = case.curve, case.reward, case.reward.size // 5, case.gain
    at, change, error = gain.best
    start, room = float(reward[: gain.widths[at]].mean()), case.room
    scale, shares = (curve.scale.low, curve.scale.high), [one for one in true_parts(case) if one.value.max() <= 1]
    share = scale == (0, 1) or any(np.array_equal(one.at(curve.step), reward) for one in shares)
    bounds = curve.known_range or ((0.0, 1.0) if share else None)
    low, high = bounds or scale
    height = float(reward[-part:].mean() - low) / max(high - low, 1e-12)
    flat = np.ptp(reward) <= 1e-9 * max(abs(high), abs(low), 1e-300)
    reach = max(high - start, 0.0) if bounds else 0.0
    slow = min(_SLOW * reach / (change + error), 2.0) if gain.shows and reach else 0.0
    window = where(curve.reward_series)[0]
    errors = change / error if error > _ROUNDING * case.span else math.copysign(math.inf, change) if change else 0.0
    if gain.falls:
        return Fact(0.0, errors, window, part, f"{change:+.2g} from the first to the last fifth: it went down")
    if height > _NEAR_TOP and not flat:
        return Fact(0.0, errors, window, part, f"it stands at {height:.0%} of the scale: little is left to learn")
    least, quick = case.least_gain * room, gain.widths <= _QUICK * gain.widths[0]
    first, its_error = gain.change[quick], gain.error[quick]
    hinted = np.any(first > np.maximum(_HINTED * its_error, least)) or (
        height > 0.5 and np.any(first + its_error > least)
    )
    if not flat and not gain.shows and (hinted or change + error > least):
        return Missing(f"reward: a gain of {case.least_gain:.0%} of the room would be lost in its noise", True)
    score = 2.0 if flat else max(min(rule.limit * error / max(change, 1e-300), 2.0), slow)
    text = f"{change:+.2g} from the first {gain.start(at)} to the last fifth, error {error:.2g}; {room:.2g} was left"
    text = f"the reward is {reward[0]:g} throughout" if flat else text
    few = reward.size < _YOUNG and not flat
    note = f"no gain in {reward.size} rewards, which healthy runs may need as well" if few else ""
    then = "The learning rate is logged as 0: with it nothing is learned." if case.at_rate_zero else ""
    return Fact(score, errors, window, part, text, then, note)

"""What the reward alone shows: a fall that was not made good, swings that go on, a standstill with room left."""

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.record import Curve, Floats, RewardScale
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule
from grpo_clinic.rules.truth import TRUE_PART
from grpo_clinic.swings import Swings

FEWEST, YOUNG = 8, 80
"""Rewards from which a fall is judged; and a standstill: cut off at fewer, healthy runs are called stalled."""
_ALONE = 0.25
"""Share that is lost without the lowest of the last rewards, too: one row is no collapse."""
_DEEP, _REGAINED = 0.8, 0.5
"""Share of the climb lost in a fall that is remembered, and share of that fall whose recovery makes it good."""
_SLOW, _NEAR_TOP, _HIGH = 0.05, 0.85, 0.5
"""Of the room above the first rewards: a gain that is too slow. Of the scale: where little is left to learn, and where
a run has as a rule gained something."""
_ROUNDING = 1e-9
_EXPLAINED = 0.9
"""Share of the reward's changes from row to row that its parts make, where nothing else is in it."""


@register_rule(
    "fall",
    verdict="collapsed",
    needs=("reward",),
    rows=FEWEST,
    limit=0.5,
    errors=5.0,
    unit="share of the climb, or of half the height",
    formula="(best running mean - mean of the last rewards) / max(climb, height/2)",
    source="limits chosen on simulated runs (conf/benchmark/training.yaml)",
    proves="the reward lost half of what it had gained and stayed down",
)
def fall(case: Case, rule: Rule) -> Fact:
    """The fall from the best running mean to the last rewards."""
    fact = fall_of(case.curve, case.reward - case.curve.scale.bottom, rule)
    if fact.fires and case.reward.size >= 24 and case.swings.score >= 1 and fact.window[0] >= case.swings.last_top:
        text = f"{fact.text}; the reward swings, and this fall is its last swing's"
        return Fact(0.99, fact.value, fact.window, fact.rows, text)
    return _unless_reweighted(case, fact)


def _unless_reweighted(case: Case, fact: Fact) -> Fact:
    """The same; below the limit where the weights of the reward's parts fell, and the parts did not.

    The parts explain how the reward changes from row to row before the onset and at the end; with the weights of before
    there is no fall. Added after the rules were scored on the second half of the public runs.
    """
    parts = [one.at(case.curve.step) for one in case.curve.parts.values()] if fact.fires else []
    if not parts:
        return fact
    table, place = np.stack(parts, axis=-1), np.arange(case.reward.size)
    logged, onset = np.isfinite(table).all(axis=-1), int(np.searchsorted(case.curve.step, fact.window[0]))
    weights = []
    for rows in (logged & (place < onset), logged & (place >= (onset + place.size) // 2)):
        if rows.sum() < FEWEST + 2 * len(parts):
            return fact
        change, change_of_parts = np.diff(case.reward[rows]), np.diff(table[rows], axis=0)
        weights.append(np.linalg.lstsq(change_of_parts, change, rcond=None)[0])
        left = float(np.sum((change - change_of_parts @ weights[-1]) ** 2))
        if left > (1 - _EXPLAINED) * float(np.sum(change**2)):
            return fact
    if noise.fallen(table[logged] @ weights[0]):
        return fact
    text = f"{fact.text}; its parts did not fall, their weights did"
    return fact._replace(score=0.99, text=text)


def fall_of(curve: Curve, reward: Floats, rule: Rule, step: Floats | None = None) -> Fact:
    """The fall of rewards [n] above their bottom, with the step at which it set in.

    The peak is a running mean over a tenth of the points (3 to 20), the end a mean over the last 3, a twentieth and a
    tenth: a late fall must not be averaged away.
    """
    step = curve.step if step is None else step
    width = int(np.clip(reward.size // 10, 3, 20))
    means = np.convolve(reward, np.ones(width) / width, mode="valid")
    peak = int(means.argmax())
    size = max(float(means[peak] - means[: peak + 1].min()), 0.5 * abs(float(means[peak])), 1e-300)
    error = max(noise.noise_level(reward), 1e-6 * size, 1e-300)
    best, share, z, end = -np.inf, 0.0, 0.0, width
    for last in sorted({2 if reward.size < 24 else 3, max(3, reward.size // 20), width}):
        lost = float(means[peak] - reward[-last:].mean())
        lost = lost if abs(lost) > _ROUNDING * size else 0.0
        here = (lost / size, lost / (error * np.sqrt(1 / width + 1 / last)))
        others = float(means[peak] - np.sort(reward[-last:])[1:].mean()) / size
        score = min(here[0] / rule.limit, here[1] / rule.errors, others / _ALONE)
        if score > best:
            best, (share, z), end = score, here, last
    level = means[peak] - 0.2 * (means[peak] - means[-1])
    onset = float(step[min(int(np.flatnonzero(means >= level)[-1]) + width // 2, step.size - 1)])
    text = f"fell by {max(share, 0):.0%} of its climb ({max(z, 0):.1f} standard errors)"
    if best >= 1:
        p = noise.by_chance(
            reward,
            lambda drawn: (
                noise.running_means(drawn, width).max(axis=-1) - drawn[:, -end:].mean(axis=-1) >= share * size
            ),
        )
        best = noise.judged(best, p)
        text += f", setting in at step {onset:g}; p = {p:.2g} against its noise alone"
    return Fact(max(float(best), 0.0), float(share), (onset, float(step[-1])), end, text)


@register_rule(
    "lost_early",
    verdict="collapsed",
    needs=("reward",),
    rows=3,
    limit=0.9,
    unit="share of the best reward",
    formula="1 - max(last two) / best",
    source="all but a tenth is gone: few rows prove it",
    proves="nearly all of the reward is gone",
)
def lost_early(case: Case, rule: Rule) -> Fact | None:
    """A fall that three to seven rewards prove."""
    reward, best = case.reward, int(case.reward.argmax())
    last = float(reward[-2:].max())
    if reward.size >= FEWEST or reward[best] <= 0 or last < 0:
        return None
    lost = float(1 - last / reward[best])
    window = (float(case.curve.step[best]), float(case.curve.step[-1]))
    return Fact(lost / rule.limit, lost, window, 2, f"the reward fell from {reward[best]:.3g} to {last:.3g}")


@register_rule(
    "deepest_fall",
    verdict="collapsed",
    needs=("reward",),
    rows=24,
    limit=_DEEP,
    errors=5.0,
    unit="share of the climb, or of half the height",
    formula="deepest fall of the running mean / max(climb, height/2)",
    source="limits chosen on simulated runs (conf/benchmark/training.yaml)",
    proves="the reward lost four fifths of what it had gained and regained less than half of that",
)
def deepest_fall(case: Case, rule: Rule) -> Fact:
    """A deep fall before the end that was not made good. The trough of a swing is none."""
    step, reward = case.curve.step, case.reward - case.curve.scale.bottom
    width = int(np.clip(reward.size // 20, 3, 20))
    means = np.convolve(reward, np.ones(width) / width, mode="valid")
    place, peak = np.arange(means.size), np.maximum.accumulate(means)
    at = np.maximum.accumulate(np.where(means >= peak, place, 0))
    climb = peak - np.minimum.accumulate(means)[at]
    basis = np.maximum(np.maximum(climb, 0.5 * np.abs(peak)), 1e-300)
    lost = (peak - means) / basis
    lost[place - at < width] = 0.0  # means that share points
    low = int(lost.argmax())
    deep = float(peak[low] - means[low])
    deep = deep if deep > _ROUNDING * float(np.ptp(reward)) else 0.0
    z = deep / (max(noise.noise_level(reward), 1e-6 * float(basis[low])) * np.sqrt(2 / width))
    back = float(means[low:].max() - means[low]) / deep if deep else 0.0
    score = min(float(lost[low]) / rule.limit, z / rule.errors)
    score = min(score, 0.99) if back >= _REGAINED else score
    window = (float(step[at[low] + width // 2]), float(step[min(low + width - 1, step.size - 1)]))
    text = f"the running mean of {width} fell from {peak[low]:.3g} to {means[low]:.3g} and regained {back:.0%} of it"
    if score >= 1:
        p = noise.by_chance(reward, lambda drawn: _drops(noise.running_means(drawn, width)) >= deep)
        score = noise.judged(score, p)
        score = 0.99 if case.swings.score >= 1 else score
    return _unless_reweighted(case, Fact(float(score), float(lost[low]), window, width, text))


def _drops(means: Floats) -> Floats:
    return np.asarray((np.maximum.accumulate(means, axis=-1) - means).max(axis=-1))


@register_rule(
    "held_out_fall",
    verdict="collapsed",
    needs=("eval", "reward"),
    rows=FEWEST,
    limit=0.5,
    errors=5.0,
    unit="share of the climb, or of half the height",
    formula="as fall, of the held-out result",
    source="as fall; the reward must fall with it",
    proves="the held-out result and the reward fell and stayed down",
)
def held_out_fall(case: Case, rule: Rule) -> Fact | None:
    """The fall of the held-out result. Where the training reward does not fall with it, that is no collapse."""
    held = case.curve.eval
    if held is None or case.curve.reward_is_eval:
        return None
    scale = case.curve.scale if case.curve.scale.given else RewardScale.estimated(held.value)
    lost = fall_of(case.curve, held.value - scale.bottom, rule, held.step)
    after = case.reward[case.curve.step >= lost.window[0]]
    part = max(after.size // 5, 1)
    with_it = after.size > 0 and after[-part:].mean() < after[:part].mean()
    score = lost.score if with_it else min(lost.score, 0.99)
    return Fact(score, lost.value, lost.window, lost.rows, f"'{held.key}' {lost.text}")


@register_rule(
    "swings",
    verdict="dynamical_instability",
    needs=("reward",),
    rows=24,
    limit=0.4,
    errors=5.5,
    unit="share of the running mean's span",
    formula="largest d such that the mean fell by d and came back, twice",
    source="limits chosen on simulated runs (conf/benchmark/training.yaml)",
    proves="the reward swings, and the swings go on",
)
def swings(case: Case, rule: Rule) -> Fact:
    """Deep swings that are too large for noise. Those that died down are no instability."""
    shipped = (rule.limit, rule.errors) == (0.4, 5.5)
    wave = case.swings if shipped else Swings(case.curve, rule.limit, rule.errors)
    text = f"the running mean of {wave.width} fell by {wave.depth:.3g} and came back, twice, at {wave.z:.1f} errors"
    text += "" if wave.goes_on else f"; the swings died down: {wave.late:.2g} in the second half"
    window = (float(case.curve.step[0]), float(case.curve.step[-1]))
    return Fact(wave.score, float(wave.share), window, wave.width, text)


@register_rule(
    "standstill",
    verdict="stalled",
    needs=("reward",),
    rows=10,
    limit=2.0,
    unit="errors of the gain",
    formula="gain from the beginning to the last fifth <= 2 errors, and gain + error < .2 of the room",
    source=f"below {YOUNG} rewards healthy runs of more than one public repository in twenty would be called stalled",
    proves="the reward gained nothing that shows where there was room",
)
def standstill(case: Case, rule: Rule) -> Fact | Missing:
    """No gain where there was room, or all but a twentieth of it is left; a larger one must not hide in the error."""
    curve, reward, part, least = case.curve, case.reward, case.reward.size // 5, case.least_gain
    gain = case.gain
    at = gain.clearest if gain.shows else 0
    change, error = float(gain.change[at]), float(gain.error[at])
    start, low, high = float(reward[: gain.widths[at]].mean()), curve.scale.low, curve.scale.high
    height, room = (float(reward[-part:].mean()) - low) / case.span, max(high - start, 1e-12)
    flat = np.ptp(reward) <= 1e-9 * max(abs(high), abs(low), 1e-300)
    bounds = curve.known_range or ((0.0, 1.0) if (low, high) == (0, 1) or _is_share(curve) else None)
    reach = max(bounds[1] - start, 0.0) if bounds else 0.0
    slow = min(_SLOW * reach / (change + error), 2.0) if gain.shows and reach else 0.0
    window = (float(curve.step[0]), float(curve.step[-1]))
    by_itself = not curve.scale.given and (low, high) != (0, 1)
    if height > _NEAR_TOP and not flat and not (by_itself and slow >= 1):
        return Fact(0.0, change, window, part, f"it stands at {height:.0%} of the scale: little is left to learn")
    if not flat and not gain.shows:
        if gain.hinted(least * room) or (height > _HIGH and gain.open(least * room)):
            return Missing("reward: the first few are too few to tell a quick rise from noise", True)
        if change + error > least * room:
            return Missing(f"reward: a gain of {least:.0%} of the room would be lost in its noise", True)
    score = 2.0 if flat else max(min(rule.limit * error / max(change, 1e-300), 2.0), slow)
    text = f"{change:+.2g} from the first {gain.start(at)} to the last fifth, error {error:.2g}; {room:.2g} was left"
    few = reward.size < YOUNG and not flat
    note = f"no gain in {reward.size} rewards, which healthy runs may need as well" if few else ""
    then = "What is left is small: take harder prompts, or stop here." if height > 0.75 and bounds else ""
    return Fact(score, change, window, part, text, then, note)


def _is_share(curve: Curve) -> bool:
    """Whether the reward is, step by step, a part whose name says that it is a share."""
    parts = (part for key, part in curve.parts.items() if TRUE_PART.search(key))
    return any(np.array_equal(part.at(curve.step), curve.reward) and part.value.max() <= 1 for part in parts)

"""Advantage degeneracy: groups whose answers all got the same reward carry no signal.

Observed where the trainer logs it. Otherwise, for 0/1 rewards, p^G + (1-p)^G at the mean p: by convexity in p this is
a lower bound on the average over prompts of different difficulty. A run that has solved its task has silent groups
too; that is success, and not counted. One that stood at the top from its start has had nothing to learn.

A mean reward that is the same at every step needs neither: all answers got it, whatever the group size. Nor does
a batch whose rewards have no spread: every group of it is silent.
"""

from dataclasses import replace

import numpy as np

from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Evidence, Finding
from grpo_clinic.readers.record import Curve, Floats, Series

_TOP = 0.95
"""Mean reward that is near the top of 0/1 rewards even if nobody gave the scale."""
_CLIMB = 0.25
"""Share of the scale by which a reward has climbed that stands high on it by its own doing."""
_BELOW = 0.99
"""Largest score of a run that is solved: silence is no failure there."""
_SATURATED = 0.6
"""Share of the scale above which silent groups count only beyond what independent answers of this success give."""
_ERRORS = 2.0
"""Standard errors by which a mean share must lie beyond its limit."""
_FEWEST = 3
"""Rewards whose being one and the same is no chance."""
_NO_SPREAD = 1e-9
"""Share of the scale below which rewards have no spread."""
_ALSO = "and the task is not solved"


def silent_share_bound(success: Floats, group_size: int) -> Floats:
    """p^G + (1-p)^G, the least possible mean share of silent groups at mean success p [n]."""
    p = np.clip(success, 0.0, 1.0)
    return np.asarray(p**group_size + (1 - p) ** group_size)


def error_of(values: Floats) -> float:
    """Standard error of the mean of values [n] that scatter as they do from one to the next; 0 of a single one."""
    if values.size < 2:
        return 0.0
    return float(np.sqrt(0.5 * np.mean(np.diff(values) ** 2) / values.size))


def _climbed(curve: Curve, height: float) -> bool:
    """Whether the reward rose to its height by `_CLIMB` of the scale: a flat curve stands high on any scale that is
    estimated from itself."""
    return bool(height - _start(curve) > _CLIMB)


def _start(curve: Curve) -> float:
    """Where on its scale the reward begins: mean of the first tenth, three rewards at least."""
    early = curve.reward[: max(curve.reward.size // 10, 3)].mean()
    return float((early - curve.scale.low) / max(curve.scale.high - curve.scale.low, 1e-12))


def since(step: Floats, share: Floats, width: int, limit: float) -> float:
    """The step since which the running mean of `width` shares [n] at `step` [n] has not been below the limit."""
    means = np.convolve(share, np.ones(width) / width, mode="valid")
    low = np.flatnonzero(~(means >= limit))
    first = 0 if low.size == 0 else int(low[-1]) + width // 2 + 1
    return float(step[min(first, step.size - width)])


def _without_spread(curve: Curve) -> Series | None:
    """1 at every step whose batch had no spread of rewards, else 0: a lower bound on the share of silent groups."""
    spread = curve.series.get("reward_std")
    low, high = curve.series.get("reward_min"), curve.series.get("reward_max")
    if spread is None and low is not None and high is not None and np.array_equal(low.step, high.step):
        spread = replace(low, value=high.value - low.value, key=f"{high.key}' - '{low.key}")
    if spread is None:
        return None
    none = np.abs(spread.value) <= _NO_SPREAD * max(curve.scale.high - curve.scale.low, 1e-12)
    return replace(spread, value=none.astype(float))


def _when(begun: float, first: float) -> str:
    return "throughout" if begun == first else f"since step {begun:g}"


def judge(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    """Share of silent groups over the last fifth of the run, observed or bounded from below.

    The window of what is found reaches back to where the share came to stay above the threshold.
    """
    steps = curve.leading.step
    late = steps >= np.quantile(steps, 0.8)
    window = (float(steps[late][0]), float(steps[-1]))
    high = curve.reward[late].mean() if curve.reward.size else -np.inf
    height = (high - curve.scale.low) / max(curve.scale.high - curve.scale.low, 1e-12)
    top = bool(height > settings.solved_share) and (
        curve.scale.given or _climbed(curve, height) or (curve.scale.high == 1 and height > _TOP)
    )
    solved = top and not _start(curve) > settings.solved_share
    observed, size, advice = curve.series.get("zero_std_frac"), 0, ""
    bare = _without_spread(curve) if observed is None else None
    if bare is not None and np.any(bare.step >= window[0]):
        share = float(bare.value[bare.step >= window[0]].mean())
        observed = bare if share >= settings.silent_share else None
    alike = curve.reward.size >= _FEWEST and not np.ptp(curve.reward)
    if alike:
        observed = None
        value, text = 1.0, f"the reward is {curve.reward[0]:g} at every step: all answers got the same"
        advice = (
            "Read ten answers and their rewards: all of them got the same. Look at the reward function and at the "
            "server that generates; no learning rate helps, the update is zero."
        )
    elif observed is not None:
        value = float(observed.value[observed.step >= window[0]].mean()) if observed.step[-1] >= window[0] else np.nan
        text = f"'{observed.key}', observed" + (": without any spread" if observed is bare else "")
    else:
        size = group_size or int(curve.settings.get("group_size", 0))
        binary = curve.scale.low == 0 and curve.scale.high == 1
        if size < 2 or not binary:
            need = "a group size" if size < 2 else "0/1 rewards"
            text = f"no share of silent groups is logged, and a bound on it needs {need}: degeneracy cannot be judged"
            return Finding("advantage_degeneracy", None, missing=text)
        value = float(silent_share_bound(curve.reward[late], size).mean())
        text = f"least share of silent groups at this reward and G = {size}"
    if not np.isfinite(value):
        return Finding(
            "advantage_degeneracy", None, missing="the share of silent groups is not logged at the end of the run"
        )
    if top and not solved:
        text += "; the reward stood at its top from the start: there was nothing to learn"
        advice = "Take harder prompts: nearly every answer is right from the start, so that the groups teach nothing."
    if solved:
        text += f"; the reward is near the top of its scale, so silence is success ({curve.scale.text})"
    score = value / settings.silent_share
    logged = observed is not None and observed is not bare  # what is not logged is a lower bound, far too low as a rule
    within = _ERRORS * error_of(observed.value[observed.step >= window[0]]) if observed is not None and logged else 0.0
    if score >= 1 and value - within < settings.silent_share:
        text += f"; no further above {settings.silent_share:.0%} than its error, {within:.2g}"
        score = _BELOW
    score = min(score, _BELOW) if solved else score
    if score >= 1:
        if observed is not None:
            steps, shares = observed.step, observed.value
        elif alike:
            steps, shares = curve.step, np.ones(curve.step.size)
        else:
            steps, shares = curve.step, silent_share_bound(curve.reward, size)
        begun = since(steps, shares, int(np.sum(steps >= window[0])), settings.silent_share)
        text += f"; mean of the last fifth, above {settings.silent_share:.0%} {_when(begun, float(steps[0]))}"
        window = (min(begun, window[0]), window[1])
    by_success = np.nan
    known = group_size or int(curve.settings.get("group_size", 0))
    if known > 1 and (curve.scale.low, curve.scale.high) == (0, 1) and curve.reward.size:
        by_success = float(silent_share_bound(curve.reward[late], known).mean())
    beyond = (value - by_success) / max(1 - by_success, 1e-12)  # NaN where the group size is not known
    high_up = height > _SATURATED and not beyond >= settings.silent_share
    known_scale = curve.scale.given or (curve.scale.low, curve.scale.high) == (0, 1)
    saturated = high_up and (known_scale or _climbed(curve, height))
    return Finding(
        "advantage_degeneracy",
        score,
        (Evidence("silent_share", window, value, settings.silent_share, text, score, _ALSO),),
        advice=advice,
        note="saturated, little left to learn" if saturated else "",
    )

"""Measurement of experiments/variants_map.py."""

from functools import partial

import numpy as np
import xarray

from bandit_lab.bandits import two_arm
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Hyper, Learner
from bandit_lab.measure import variants
from bandit_lab.study.figures.variants_map.problem import ONE, STEPS, axes, intervals, late_exponent
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Fixed points and stiffness, temperature, late exponent, mean curves, and the first unstable interval."""
    rest = lab.keep("rest", lambda: _rest(setting))
    parts = [lab.keep(name, partial(_staleness, setting, rest, name)) for name in axes(setting)["staleness"]]
    curves = lab.keep("groups", lambda: _groups(setting, rest))
    return xarray.merge([rest, curves, xarray.concat(parts, "staleness")])


def _learners(setting: Setting, staleness: str) -> variants.Learners:
    names, bandit, rule = axes(setting), two_arm(setting.rewards), STALENESS[staleness]()
    most = max(intervals(setting, staleness))
    horizon = min(rule.horizon_for(most), 160)  # drawn ages: 0.15 % are older than that at mean age 24
    options = {"group_size": setting.group_size, "prompts": setting.prompts, "horizon": horizon}
    pairs = [(a, e) for a in names["advantage"] for e in names["estimator"]]
    return tuple(Learner(bandit, ADVANTAGES[a](), ESTIMATORS[e](), rule, **options) for a, e in pairs)


def _table(setting: Setting, values, units: dict) -> tuple:
    names = axes(setting)
    shape = (len(names["advantage"]), len(names["estimator"]))
    return (("advantage", "estimator"), np.reshape(values, shape), units)


def _rest(setting: Setting) -> xarray.Dataset:
    """What one gradient tells: rest gap, stiffness, learning rate, temperature, late exponent."""
    learners, names = _learners(setting, "refresh"), axes(setting)
    plain = variants.with_bandit(learners, two_arm((1.0, 0.0)))
    here, beta = range(len(learners)), setting.kl_weight
    gaps = [variants.rest_gap(learners, "mean_field", i, beta) for i in here]
    split = np.array([variants.fresh_and_stale_rate(learners, "mean_field", i, beta, gaps[i]) for i in here])
    noise = [setting.group_size * variants.gap_noise(learners, i, beta, gaps[i], setting.draws) for i in here]
    far = np.resize(np.array(setting.late), 401)
    drifts = [variants.gap_drift(plain, "mean_field", i, 0.0, far, far)[:2] for i in here]
    rate = (1 - setting.momentum) / (split.sum(1) * setting.law_interval)
    stiffness = {"units": "reward/logit^2"}
    values = {
        "rest_gap": _table(setting, gaps, {"units": "logits"}),
        "fresh": _table(setting, split[:, 0], stiffness),
        "stale": _table(setting, split[:, 1], stiffness),
        "learning_rate": _table(setting, rate, {"units": "logits per unit gradient"}),
        "temperature": _table(setting, noise, {"units": "reward^2"}),
        "late_exponent": _table(setting, [late_exponent(pair, setting) for pair in drifts], ONE),
    }
    return xarray.Dataset(values, {key: names[key] for key in ("advantage", "estimator")})


def _cells(setting: Setting, rate: float, tried: np.ndarray) -> Hyper:
    columns = np.broadcast_arrays(rate, setting.momentum, tried, setting.kl_weight)
    return Hyper(*(np.array(column, float) for column in columns))


def _staleness(setting: Setting, rest: xarray.Dataset, name: str) -> xarray.Dataset:
    """First interval at which a displacement grows, and what becomes of a large one at the longest interval."""
    learners, tried = _learners(setting, name), intervals(setting, name)
    gaps, rates = rest.rest_gap.values.ravel(), rest.learning_rate.values.ravel()
    first, outcome = np.full((2, len(learners)), np.nan)
    for i, (gap, rate) in enumerate(zip(gaps, rates, strict=True)):
        options = (learners, "mean_field", i, _cells(setting, rate, tried))
        small = variants.run_gaps(*options, np.full(len(tried), gap + setting.start), setting.steps) - gap
        unstable = variants.grows(small, setting.start)
        first[i] = tried[np.argmax(unstable)] if unstable.any() else np.nan
        outcome[i] = _outcome(variants.run_gaps(*options, np.full(len(tried), gap + 0.3), setting.steps)[-1] - gap)
    values = {"first_interval": _table(setting, first, STEPS), "outcome": _table(setting, outcome, ONE)}
    return xarray.Dataset(values, rest.coords).expand_dims(staleness=[name])


def _outcome(away: np.ndarray) -> int:
    """Index in OUTCOMES of a displacement [T + 1] that began at 0.3."""
    late = away[2 * len(away) // 3 :]
    if not np.all(np.isfinite(away)):
        return 3
    if np.abs(late).min() > 3:
        return 2
    return 1 if np.ptp(late) > 0.1 else 0


def _groups(setting: Setting, rest: xarray.Dataset) -> xarray.Dataset:
    """Mean curves from the reference policy at G = group_size and at G = infinity, refresh."""
    learners = _learners(setting, "refresh")
    tried = intervals(setting, "refresh")
    n, start = int(np.argmax(tried == setting.curve.interval)), np.zeros(len(tried))
    largest, shift = np.full((2, len(learners)), np.nan)
    low, high = sorted(setting.rewards)
    for i, rate in enumerate(rest.learning_rate.values.ravel()):
        cells, dynamics = _cells(setting, rate, tried), ("finite_group", "mean_field")
        group, limit = (variants.run_gaps(learners, one, i, cells, start, setting.steps)[n] for one in dynamics)
        difference = (high - low) * (1 / (1 + np.exp(-group)) - 1 / (1 + np.exp(-limit)))
        largest[i], shift[i] = np.abs(difference).max(), difference[-1]
    reward = {"units": "reward"}
    values = {"curve_difference": _table(setting, largest, reward), "group_shift": _table(setting, shift, reward)}
    return xarray.Dataset(values, rest.coords)

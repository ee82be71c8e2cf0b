"""Engine and trainer: is the law that the engine reports the one that it sampled from, and is it the trainer's?

With r = pi/b' (trainer over what the engine reports), k1 = mean(-log r) and k3 = mean(r - 1 - log r):
mean(r) - 1 = k3 - k1, exactly. If the engine samples from what it reports, mean(r) = 1 however far apart the two are,
and k1 >= 0. So one row tells a misreported law from a policy that is truly another one.
"""

import numpy as np

from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Series
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, strongest, where

_TAIL, _ALIKE = 0.5, 0.02
"""Nats of k1 from which a mean ratio below 1 may be the missing tail of its weights; ratios that are one number."""


@register_rule(
    "misreported",
    verdict="misreported_probabilities",
    needs=(),
    limit=0.05,
    unit="1, or nats of k1",
    formula="mean(r) - 1 = k3 - k1",
    source="sum over b of b (pi/b) = 1",
    proves="the engine did not sample from the law that it reports, or its law leaves out answers of the trainer's",
)
def _misreported(case: Case, rule: Rule) -> Fact | Missing:
    """From k3 - k1, else from the logged mean ratio, else from the sign of k1."""
    k1, k3, ratio = (case.curve.series.get(role) for role in ("engine_k1", "engine_kl", "importance_ratio"))
    step = np.zeros(0) if k1 is None or k3 is None else np.intersect1d(k1.step, k3.step)
    if k1 is not None and k3 is not None and step.size:
        series = Series(step, k3.at(step) - k1.at(step), f"{k3.key}' - '{k1.key}")
    elif ratio is not None:
        series = Series(ratio.step, ratio.value - 1, ratio.key)
    elif k1 is not None:
        low, rows = strongest(np.minimum(k1.value, 0.0))
        text = f"'{k1.key}' = {low:.3g}: k1 is a KL divergence and is never below zero of a true report"
        return Fact(-low / rule.limit, low, *where(k1, rows), text)
    else:
        return Missing("importance ratio")
    value, rows = strongest(series.value, rule.limit)
    there = np.zeros(0) if k1 is None else k1.at(series.step[rows])
    far = median(there[np.isfinite(there)])
    text = f"'{series.key}': mean ratio {1 + value:.3g}" + (f", k1 = {far:.3g}" if np.isfinite(far) else "")
    off = median(np.abs(ratio.at(step) - 1 - series.value)) if ratio is not None and step.size else 0.0
    if ratio is not None and off > _ALIKE:
        text += f"; '{ratio.key}' is another number by {off:.2g}: a truncated or masked ratio"
    fact = Fact(min(abs(value) / rule.limit, 1e3), value, *where(series, rows), text)
    if value > 0 or not fact.fires:
        return fact
    if not far <= _TAIL:
        return fact.unless(True, "; below 1 it may be masked, truncated or heavy-tailed")
    alike = "; alike for all tokens: the engine leaves out a tail (top-p, top-k) that the trainer counts"
    return fact._replace(text=fact.text + alike)

"""Engine and trainer: is the law that the engine reports the one that it sampled from, and is it the trainer's?

With r = pi/b' (trainer over what the engine reports), k1 = mean(-log r) and k3 = mean(r - 1 - log r):
mean(r) - 1 = k3 - k1, exactly. If the engine samples from what it reports, mean(r) = 1 however far apart the two are,
and k1 >= 0. So one row tells a misreported law from a policy that is truly another one.
"""

from collections.abc import Callable

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Floats, Series
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, tail, where

_TAIL = 0.5
"""Nats of k1 from which a mean ratio below 1 may be the missing tail of its weights."""
_DISTANCE: dict[str, Callable[[Floats], Floats]] = {"importance_ratio": np.log, "ess": lambda share: 1 - share}
"""What grows as the two go apart, where that is not the quantity itself."""


def _filled(ratio: Series | None) -> Series | None:
    """The mean ratio where somebody filled it: 0 is none."""
    if ratio is None or not np.any(ratio.value > 0):
        return None
    return Series(ratio.step[ratio.value > 0], ratio.value[ratio.value > 0], ratio.key)


def _excess_ratio(case: Case) -> tuple[Series, str] | None:
    """mean(r) - 1 by row [n], from k3 - k1 or else from the logged mean ratio, and a word on truncation."""
    k1, k3, ratio = (case.curve.series.get(role) for role in ("engine_k1", "engine_kl", "importance_ratio"))
    ratio = _filled(ratio)
    step = np.zeros(0) if k1 is None or k3 is None else np.intersect1d(k1.step, k3.step)
    if k1 is None or k3 is None or not step.size:
        return None if ratio is None else (Series(ratio.step, ratio.value - 1, ratio.key), "")
    excess, word = Series(step, k3.at(step) - k1.at(step), f"{k3.key}' - '{k1.key}"), ""
    if ratio is not None and (both := np.intersect1d(step, ratio.step)).size:
        off = median(np.abs(ratio.at(both) - 1 - excess.at(both)))
        word = f"; '{ratio.key}' is another number by {off:.2g}: a truncated or masked ratio" if off > 0.02 else ""
    return excess, word


def strongest(value: Floats, limit: float = np.inf) -> tuple[float, slice]:
    """The median of the whole where that is beyond the limit, else the largest in size of the first fifth's, the last
    one's and that of three rows running."""
    part = max(value.size // 5, 1)
    if abs(median(value)) >= limit:
        return median(value), slice(None)
    looks = [slice(0, part), slice(value.size - part, value.size)]
    if value.size > noise.RUNNING:
        at = int(noise.least_running(np.abs(value)).argmax())
        looks.append(slice(at, at + noise.RUNNING))
    best = max(looks, key=lambda rows: min(abs(median(value[rows])), float(np.abs(value[rows]).max())))
    return median(value[best]), best


@register_rule(
    "misreported",
    verdict="misreported_probabilities",
    needs=("importance_ratio|engine_k1",),
    limit=0.05,
    unit="1, or nats of k1",
    formula="mean(r) - 1 = k3 - k1",
    source="sum over b of b (pi/b) = 1",
    proves="the engine did not sample from the law that it reports, or its law leaves out answers of the trainer's",
)
def _misreported(case: Case, rule: Rule) -> Fact | Missing:
    excess, k1 = _excess_ratio(case), case.curve.series.get("engine_k1")
    if excess is None:
        if k1 is None:
            return Missing("importance ratio")
        low, rows = strongest(np.minimum(k1.value, 0.0))
        text = f"'{k1.key}' = {low:.3g}: k1 is a KL divergence and is never below zero of a true report"
        return Fact(-low / rule.limit, low, *where(k1, rows), text)
    series, word = excess
    value, rows = strongest(series.value, rule.limit)
    there = np.zeros(0) if k1 is None else k1.at(series.step[rows])
    far = median(there[np.isfinite(there)]) if np.isfinite(there).any() else None
    at = "" if far is None else f", k1 = {far:.3g}"
    fact = Fact(
        min(abs(value) / rule.limit, 1e3),
        value,
        *where(series, rows),
        f"'{series.key}': mean ratio {1 + value:.3g}{at}{word}",
    )
    if value < 0 and (far is None or far > _TAIL):
        why = "masked, truncated or heavy-tailed" if far is None else "heavy-tailed at this distance"
        return fact.unless(True, f"; below 1 it may be {why}")
    alike = "; alike for all tokens: the engine leaves out a tail (top-p, top-k) that the trainer counts"
    return fact._replace(text=fact.text + alike) if value < 0 and fact.fires else fact


@register_rule(
    "mismatch",
    of={
        "engine_kl": {
            "limit": 0.1,
            "unit": "nats per token (k3)",
            "source": "verl's documentation warns above .1; NeMo-RL's own tests ask for less than .001",
        },
        "engine_abs": {
            "limit": 0.3,
            "unit": "nats per token, mean |difference|",
            "source": "slime's own tests ask for .1; public runs that learn stay below .11, other weights stood at .8",
        },
        "importance_ratio": {"limit": 2.0, "unit": "times, or one over it", "source": "verl truncates at 2"},
        "ess": {
            "limit": 0.3,
            "unit": "share of the batch, or below",
            "source": "ours: less than a third of the batch carries the update",
        },
    },
    verdict="sampler_mismatch",
    formula="median of a fifth, or of three rows running",
    proves="engine and trainer are two policies",
)
def _mismatch(case: Case, rule: Rule) -> Fact | None:
    """Of effective sample sizes only shares: a count is passed over."""
    series: Series | None = case.series(rule.role)
    if rule.role == "importance_ratio":
        series = _filled(series)
    if series is None or (rule.role == "ess" and series.value.max() > 1 + 1e-6):
        return None
    far = _DISTANCE.get(rule.role, np.positive)
    limit = float(far(np.array(rule.limit)))
    apart, rows = strongest(far(series.value), limit)
    value = abs(median(series.value[rows]))
    text = f"'{series.key}': engine and trainer stand at {value:.3g} {rule.unit.partition(', or')[0]}"
    text = f"'{series.key}': the effective sample is {value:.0%} of the batch" if rule.role == "ess" else text
    return Fact(min(abs(apart) / limit, 1e3), value, *where(series, rows), text)


@register_rule(
    "mismatch_grows",
    verdict="sampler_mismatch",
    needs=("engine_kl|engine_abs",),
    rows=10,
    limit=10.0,
    unit="times its first fifth, and half the limit of its quantity",
    formula="median(last tenth) / median(first fifth)",
    source="ours: rounding does not grow",
    proves="engine and trainer drift apart",
)
def _mismatch_grows(case: Case, rule: Rule) -> Fact:
    role, floor = ("engine_kl", 0.05) if case.rows.get("engine_kl", 0) >= rule.rows else ("engine_abs", 0.15)
    series, end = case.series(role), tail(case.series(role).value)
    first, last = median(np.abs(series.value[: series.value.size // 5])), median(np.abs(end))
    text = f"'{series.key}' went from {first:.3g} to {last:.3g}"
    ratio = last / max(first, 1e-12)
    return Fact(min(ratio / rule.limit, last / floor), ratio, where(series)[0], end.size, text)

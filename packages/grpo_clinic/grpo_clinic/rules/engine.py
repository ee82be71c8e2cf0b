"""Engine and trainer: is the law that the engine reports the one that it sampled from, and is it the trainer's?

With r = pi/b' (trainer over what the engine reports), k1 = mean(-log r) and k3 = mean(r - 1 - log r):
mean(r) - 1 = k3 - k1, exactly. If the engine samples from what it reports, mean(r) = 1 however far apart the two are,
and k1 >= 0. So one row tells a misreported law from a policy that is truly another one.
"""

import numpy as np

from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Floats, Series
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, window_of

_TAIL = 0.5
"""Nats of k1 from which a mean ratio below 1 may be the missing tail of its weights."""
_EVENT = 3
"""Rows one behind the other that are an event."""
_MEND = "Let the engine report the probabilities that it sampled from: same temperature, top-p and top-k on both sides."
_SYNC = (
    "Look at the engine: weights that were not handed over, precision, or another kernel. No learning rate mends it."
)


def _excess_ratio(case: Case) -> tuple[Series, str] | None:
    """mean(r) - 1 by row [n], from k3 - k1 or else from the logged mean ratio, and a word on truncation."""
    k1, k3, ratio = (case.curve.series.get(name) for name in ("engine_k1", "engine_kl", "importance_ratio"))
    if ratio is not None:
        filled = ratio.value > 0  # a mean ratio of 0 is none: nobody filled it
        ratio = Series(ratio.step[filled], ratio.value[filled], ratio.key) if filled.any() else None
    if k1 is not None and k3 is not None:
        step = np.intersect1d(k1.step, k3.step)
        if step.size:
            excess = Series(step, k3.at(step) - k1.at(step), f"{k3.key}' - '{k1.key}")
            if ratio is not None and (both := np.intersect1d(step, ratio.step)).size:
                off = median(np.abs(ratio.at(both) - 1 - excess.at(both)))
                if off > 0.02:
                    return excess, f"; '{ratio.key}' is another number by {off:.2g}: a truncated or masked ratio"
            return excess, ""
    return None if ratio is None else (Series(ratio.step, ratio.value - 1, ratio.key), "")


def _strongest(value: Floats) -> tuple[float, slice]:
    """The median of the first fifth, of the last, or of three rows running: the largest in size."""
    part = max(value.size // 5, 1)
    looks = [slice(0, part), slice(value.size - part, value.size)]
    if value.size > _EVENT:
        least = np.lib.stride_tricks.sliding_window_view(np.abs(value), _EVENT).min(axis=-1)
        at = int(least.argmax())
        looks.append(slice(at, at + _EVENT))
    best = max(looks, key=lambda rows: min(abs(median(value[rows])), float(np.abs(value[rows]).max())))
    return median(value[best]), best


@register_rule(
    "misreported",
    verdict="misreported_probabilities",
    needs=("importance_ratio|engine_k1",),
    limit=0.05,
    unit="1",
    formula="mean(r) - 1 = k3 - k1",
    source="sum over b of b (pi/b) = 1",
    proves="the engine did not sample from the law "
    "that it reports, or its law leaves out answers that the trainer's has",
)
def misreported(case: Case, rule: Rule) -> Fact | Missing | None:
    """A mean ratio that no true report has."""
    excess, k1 = _excess_ratio(case), case.curve.series.get("engine_k1")
    if excess is None:
        if k1 is None:
            return Missing("importance ratio")
        low, rows = _strongest(np.minimum(k1.value, 0.0))
        text = f"'{k1.key}' = {low:.3g}: k1 is a KL divergence and is never below zero of a true report"
        return Fact(-low / rule.limit, low, window_of(k1, rows), k1.value[rows].size, text, _MEND)
    series, word = excess
    value, rows = _strongest(series.value)
    far = None if k1 is None else median(k1.value)
    at = "" if far is None else f", k1 = {far:.3g}"
    text = f"'{series.key}': mean ratio {1 + value:.3g}{at}{word}"
    if value < 0 and (far is None or far > _TAIL):
        why = "masked, truncated or heavy-tailed" if far is None else "heavy-tailed at this distance"
        return Fact(
            min(-value / rule.limit, 0.99),
            value,
            window_of(series, rows),
            series.value[rows].size,
            f"{text}; below 1 it may be {why}",
            _MEND,
        )
    if value < 0:
        text += "; alike for all tokens: the engine leaves out a tail (top-p, top-k) that the trainer counts"
    return Fact(min(abs(value) / rule.limit, 1e3), value, window_of(series, rows), series.value[rows].size, text, _MEND)


def _apart(case: Case, role: str, rule: Rule, what: str, below: bool = False) -> Fact:
    series = case.series(role)
    value, rows = _strongest(1 - series.value if below else series.value)
    value = 1 - value if below else abs(value)
    score = rule.limit / max(value, 1e-9) if below else value / rule.limit
    text = f"'{series.key}': {what} {value:.3g}"
    return Fact(min(score, 1e3), value, window_of(series, rows), series.value[rows].size, text, _SYNC)


register_rule(
    "engine_distance",
    verdict="sampler_mismatch",
    needs=("engine_kl",),
    limit=0.1,
    unit="nats per token (k3)",
    formula="median of a fifth, or of three rows running",
    source="trainers warn at .1 nats of KL",
    proves="engine and trainer are two policies",
)(lambda case, rule: _apart(case, "engine_kl", rule, "engine and trainer lie apart by"))


register_rule(
    "engine_difference",
    verdict="sampler_mismatch",
    needs=("engine_abs",),
    limit=0.3,
    unit="nats per token, mean |difference|",
    formula="median of a fifth, or of three rows running",
    source="public runs that learn stay below .11, engines with other weights stood at .8; the middle by logarithm",
    proves="engine and trainer are two policies",
)(lambda case, rule: _apart(case, "engine_abs", rule, "mean |difference| of log-probabilities"))


@register_rule(
    "engine_ratio",
    verdict="sampler_mismatch",
    needs=("importance_ratio",),
    limit=2.0,
    unit="times, or one over it",
    formula="median of a fifth, or of three rows running",
    source="verl truncates at 2",
    proves="engine and trainer are two policies",
)
def engine_ratio(case: Case, rule: Rule) -> Fact | None:
    """Mean ratio of the probabilities."""
    series = case.series("importance_ratio")
    filled = series.value > 0
    if not filled.any():
        return None
    log, rows = _strongest(np.log(series.value[filled]))
    text = f"'{series.key}': the trainer finds the answers {np.exp(log):.3g} times as likely as the engine said"
    step = series.step[filled][rows]
    return Fact(
        min(abs(log) / np.log(rule.limit), 1e3),
        float(np.exp(log)),
        (float(step[0]), float(step[-1])),
        step.size,
        text,
        _SYNC,
    )


@register_rule(
    "few_effective",
    verdict="sampler_mismatch",
    needs=("ess",),
    limit=0.3,
    unit="share of the batch, or below",
    formula="(sum w)^2 / (n sum w^2)",
    source="ours: less than a third of the batch carries the update",
    proves="a few answers carry the update",
)
def few_effective(case: Case, rule: Rule) -> Fact | None:
    """Effective sample size as a share of the batch; a count is passed over."""
    if case.series("ess").value.max() > 1 + 1e-6:
        return None
    return _apart(case, "ess", rule, "effective share of the batch", below=True)


@register_rule(
    "mismatch_grows",
    verdict="sampler_mismatch",
    needs=("engine_kl|engine_abs",),
    rows=10,
    limit=10.0,
    unit="times its first fifth, and half the limit of its quantity",
    formula="median(last fifth) / median(first fifth)",
    source="ours: rounding does not grow",
    proves="engine and trainer drift apart",
)
def mismatch_grows(case: Case, rule: Rule) -> Fact:
    """Growth of the distance."""
    role, floor = ("engine_kl", 0.05) if case.rows("engine_kl") >= rule.rows else ("engine_abs", 0.15)
    series, part = case.series(role), case.rows(role) // 5
    first, last = (median(np.abs(series.value[rows])) for rows in (slice(0, part), slice(-part, None)))
    text = f"'{series.key}' grew from {first:.3g} to {last:.3g}"
    score = min(last / max(first, 1e-12) / rule.limit, last / floor)
    return Fact(score, last / max(first, 1e-12), window_of(series), part, text, _SYNC)

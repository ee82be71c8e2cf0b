"""What explodes, is lost or is not finite: reward, gradient norm, KL to the reference, entropy."""

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.median import median
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, since, tail, where

_LONG = 8
"""Rows of a log that is more than pasted rows."""
_ASLEEP = 1e-3
"""A gradient norm of a step without a gradient."""


@register_rule(
    "no_number",
    of={"reward": {}, "gradient": {}},
    verdict="diverging",
    needs=(),
    limit=3,
    unit="rows at the end, or twice the longest stretch before; one gradient in a log of fewer than 8",
    formula="rows at the end that are not finite",
    source="a loss that is not finite stays so; a scaler of half precision skips a step now and then",
    proves="it is not finite any more: the weights are lost from there on",
)
def _no_number(case: Case, rule: Rule) -> Fact | None:
    """A note where it became finite again: of a stretch as long in the middle."""
    curve, then, note = case.curve, "", ""
    lost = np.sort(curve.gradient_lost if rule.role == "gradient" else curve.nonfinite_steps)
    if not lost.size:
        return None
    norm = curve.series.get("grad_norm")
    good = curve.step if rule.role == "reward" else np.zeros(0) if norm is None else norm.step
    stretches = np.bincount(np.searchsorted(good, lost), minlength=good.size + 1)
    last, least = int(stretches[-1]), max(rule.limit, 2.0 * stretches[:-1].max(initial=0))
    if rule.role == "gradient":
        rows = curve.leading.step.size if curve.series or curve.reward.size else 0
        least = least if rows >= _LONG else 1.0
        then = "" if good.size or last < rows else "No gradient was a number: look at the loss and its precision."
    window = (float(lost[-max(last, 1)]), float(lost[-1]))
    text = f"the {rule.role} is not finite from step {window[0]:g} to the end ({last} rows)"
    if rule.role == "reward" and last < least and lost.size > good.size:
        return None  # cells are empty because it is logged seldom
    if last < least:
        text = f"the {rule.role} is not finite at {lost.size} steps, the first is {lost[0]:g}"
        longest, end = int(stretches.max()), int(np.cumsum(stretches)[stretches.argmax()])
        last, least, window = longest, rule.limit, (float(lost[end - longest]), float(lost[end - 1]))
        note = "it was finite again"
    return Fact(last / least, float(last), window, last, text, then, note)


@register_rule(
    "explodes",
    of={
        "grad_norm": {"unit": "times its usual norm, and a norm of 1"},
        "kl": {"unit": "times its usual size, and 1 nat"},
        "entropy": {"limit": 4.0, "unit": "times its usual size, and 1 nat"},
    },
    verdict="diverging",
    rows=12,
    limit=10.0,
    formula="median(last tenth) / median(first two thirds)",
    source="limits chosen on simulated runs and public runs; trainers clip a gradient norm at 1",
    proves="it explodes: an entropy means that the policy goes to noise",
)
def _explodes(case: Case, rule: Rule) -> Fact:
    """A note where it is the entropy, as long as the reward rises."""
    series = case.series(rule.role)
    value = np.abs(series.value)
    before, late = value[: 2 * value.size // 3], median(tail(value))
    awake = before[before >= (_ASLEEP if rule.role == "grad_norm" else 0.0)]
    usual = median(awake) if awake.size else 1.0
    ratio = min(late / max(usual, 1e-12), 1e12)
    score, least = float(min(ratio / rule.limit, late)), max(3, value.size // 10)
    window = since(series, value >= rule.limit * usual, least)
    text = f"'{series.key}' at the end {late:.3g}, in the first two thirds {median(before):.3g} (medians)"
    rises = rule.role == "entropy" and noise.rising(case.reward) and not noise.fallen(case.reward)
    note = "the entropy explodes, but the reward still rises" if rises else ""
    return Fact(score, ratio, window, least, text, note=note)


@register_rule(
    "kl_spike",
    verdict="diverging",
    needs=("kl",),
    rows=5,
    limit=50.0,
    unit="nats per token, and 300 times the first fifth",
    formula="max |KL|, and max |KL| / mean |KL of the first fifth|",
    source="a token of a vocabulary of 150,000 costs 12 nats at random: 50 are no sample of one policy",
    proves="some answers are all but impossible to the reference",
)
def _kl_spike(case: Case, rule: Rule) -> Fact:
    kl = case.series("kl")
    value, at = np.abs(kl.value), int(np.abs(kl.value).argmax())
    largest, first = float(value[at]), float(value[: value.size // 5].mean())
    text = f"'{kl.key}' reached {largest:.3g} at step {kl.step[at]:g}; the mean of its first fifth is {first:.3g}"
    return Fact(
        min(largest / rule.limit, largest / max(300 * first, 1e-12)), largest, *where(kl, slice(at, at + 1)), text
    )


@register_rule(
    "entropy_lost",
    verdict="policy_concentration",
    needs=("entropy",),
    rows=6,
    limit=0.15,
    errors=2.0,
    unit="share of the early entropy",
    formula="median(last tenth) / max(first three)",
    source="limit chosen on simulated runs (experiments/grading/training.yaml)",
    proves="the policy has become nearly certain",
)
def _entropy_lost(case: Case, rule: Rule) -> Fact | Missing:
    """One that is lost within the first few steps is not averaged away."""
    entropy = case.series("entropy")
    last, early = tail(entropy.value), float(entropy.value[:3].max())
    if early <= 0:
        return Missing("entropy: it is not positive", True)
    share = max(median(last), 0.0) / early
    within = rule.errors * noise.error_of_mean(np.log(np.maximum(last, 1e-300)))
    text = f"'{entropy.key}' went from {early:.3g} to {share * early:.3g}"
    fact = Fact(min(rule.limit / max(share, 1e-6), 1e6), share, where(entropy)[0], last.size, text)
    if not fact.fires or share * np.exp(within) > rule.limit:
        return fact.unless(True)
    return fact._replace(window=since(entropy, entropy.value <= rule.limit * early, last.size))


@register_rule(
    "kl_below_zero",
    verdict="plumbing",
    needs=("kl", "reward"),
    rows=10,
    limit=0.3,
    unit="nats per token below zero",
    formula="-median(KL of the last fifth), where the reward shows no gain",
    source="Gibbs: the mean of log pi/pi_ref over the policy's own answers is never below zero",
    proves="the KL is minimised instead of penalised, or the answers are not the policy's",
)
def _kl_below_zero(case: Case, rule: Rule) -> Fact | None:
    kl = case.series("kl")
    late = -median(tail(kl.value, 5))
    if late <= 0 or case.gain.shows:
        return None
    text = f"'{kl.key}' stands at {-late:.3g}, which no mean over the policy's own answers does"
    return Fact(late / rule.limit, late, where(kl)[0], kl.value.size // 5, text)

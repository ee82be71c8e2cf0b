"""What explodes or is not finite: reward, gradient norm, KL to the reference, entropy."""

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Series
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, since, tail, window_of

_NO_NUMBER, _LONG = 3, 8
"""Rows without a number at the end that mean divergence; rows of a log that is more than pasted rows."""
_FINE = "the same settings: it did not grow before, so it is an overflow or a division by zero"
_HALF = "half the learning rate: it grew before it was not finite"
_OURS = "limits chosen on simulated runs and public runs; trainers clip the norm at 1"


@register_rule(
    "reward_no_number",
    verdict="diverging",
    needs=(),
    limit=_NO_NUMBER,
    unit="rows at the end",
    formula="rows at the end whose reward is not finite, against twice the longest such stretch before",
    source="a loss that is not finite stays so",
    proves="the reward is not finite any more",
)
def reward_no_number(case: Case, rule: Rule) -> Fact | None:
    """Rewards that are missing or not finite at the end."""
    lost = np.sort(case.curve.nonfinite_steps)
    if not lost.size:
        return None
    stretches = np.bincount(np.searchsorted(case.curve.step, lost), minlength=case.curve.step.size + 1)
    last, least = int(stretches[-1]), max(rule.limit, 2 * int(stretches[:-1].max(initial=0)))
    window = (float(lost[-max(last, 1)]), float(lost[-1]))
    text = (
        f"the reward is not finite from step {window[0]:g} to the end ({last} rows)"
        if last >= least
        else (f"{lost.size} rewards are missing or not finite, the first at step {lost[0]:g}")
    )
    return Fact(last / least, float(last), window, last, text)


@register_rule(
    "gradient_no_number",
    verdict="diverging",
    needs=(),
    limit=_NO_NUMBER,
    unit="rows at the end",
    formula="rows at the end whose gradient norm is not finite (one row in a log of fewer than 8)",
    source="a scaler of half precision skips a step now and then",
    proves="the weights are lost from there on",
)
def gradient_no_number(case: Case, rule: Rule) -> Fact | None:
    """Gradient norms that are not finite at the end of the log."""
    lost, rows = case.curve.gradient_lost, case.curve.leading.step.size if case.curve.series or case.reward.size else 0
    if not lost.size:
        return None
    least = rule.limit if rows >= _LONG else 1
    norm = case.curve.series.get("grad_norm")
    grew = norm is not None and norm.value.size >= 12 and _explosion(norm, rule, 1e-3, 10.0).score >= 1
    then = f"Restart from a checkpoint before step {lost[0]:g} with {_HALF if grew else _FINE}."
    text = f"the gradient norm is not finite from step {lost[0]:g} to the end of the log ({lost.size} rows)"
    return Fact(lost.size / least, float(lost.size), (float(lost[0]), float(lost[-1])), int(lost.size), text, then)


def _explosion(series: Series, rule: Rule, asleep: float = 0.0, times: float | None = None) -> Fact:
    """The median of the last tenth over that of the first two thirds; below 1 it is no explosion."""
    times, floor = times or rule.limit, 1.0
    value = np.abs(series.value)
    before, late = value[: 2 * value.size // 3], median(tail(value))
    awake = before[before >= asleep]
    usual = median(awake) if awake.size else floor
    ratio = min(late / max(usual, 1e-12), 1e12) if late > 0 else 0.0
    score = min(ratio / times, late / floor)
    least = max(3, value.size // 10)
    window = since(series, value >= times * usual, least) if score >= 1 else window_of(series, slice(-least, None))
    text = f"'{series.key}' at the end {late:.3g}, in the first two thirds {median(before):.3g} (medians)"
    return Fact(float(score), ratio, window, least, text)


register_rule(
    "gradient_explodes",
    verdict="diverging",
    needs=("grad_norm",),
    rows=12,
    limit=10.0,
    unit="times its usual norm, and a norm of 1",
    formula="median(last tenth) / median(first two thirds)",
    source=_OURS,
    proves="the gradient norm explodes",
)(lambda case, rule: _explosion(case.series("grad_norm"), rule, asleep=1e-3))


register_rule(
    "kl_explodes",
    verdict="diverging",
    needs=("kl",),
    rows=12,
    limit=10.0,
    unit="times its usual size, and 1 nat",
    formula="median(last tenth) / median(first two thirds)",
    source=_OURS,
    proves="the KL to the reference explodes",
)(lambda case, rule: _explosion(case.series("kl"), rule))


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
def kl_spike(case: Case, rule: Rule) -> Fact:
    """The largest KL of all rows: extremes are kept."""
    kl = case.series("kl")
    value, at = np.abs(kl.value), int(np.abs(kl.value).argmax())
    first = max(float(value[: max(value.size // 5, 1)].mean()), 1e-12)
    largest = float(value[at])
    score = min(largest / rule.limit, largest / first / 300)
    text = f"'{kl.key}' reached {largest:.3g} at step {kl.step[at]:g}, {largest / first:.3g} times its first fifth"
    return Fact(score, largest, (float(kl.step[at]), float(kl.step[at])), 1, text)


@register_rule(
    "entropy_explodes",
    verdict="diverging",
    needs=("entropy",),
    rows=12,
    limit=4.0,
    unit="times its usual size, and 1 nat",
    formula="median(last tenth) / median(first two thirds)",
    source="limits chosen on simulated runs and public runs",
    proves="the policy goes to noise",
)
def entropy_explodes(case: Case, rule: Rule) -> Fact:
    """The entropy at the end beside its usual size; a note as long as the reward rises."""
    explosion = _explosion(case.series("entropy"), rule)
    rises = noise.rising(case.reward) and not noise.fallen(case.reward)
    note = "the entropy explodes, but the reward still rises" if rises else ""
    return Fact(explosion.score, explosion.value, explosion.window, explosion.rows, explosion.text, note=note)


@register_rule(
    "entropy_lost",
    verdict="policy_concentration",
    needs=("entropy",),
    rows=6,
    limit=0.15,
    errors=2.0,
    unit="share of the early entropy",
    formula="median(last tenth) / max(first three)",
    source="limit chosen on simulated runs (conf/benchmark/training.yaml)",
    proves="the policy has become nearly certain",
)
def entropy_lost(case: Case, rule: Rule) -> Fact | Missing:
    """What is left of the entropy. One that is lost within the first few steps is not averaged away."""
    entropy = case.series("entropy")
    last, early = tail(entropy.value), float(entropy.value[:3].max())
    if early <= 0:
        return Missing("entropy: it is not positive", True)
    share = max(median(last), 0.0) / early
    score = min(rule.limit / max(share, 1e-6), 1e6)
    within = rule.errors * noise.error_of_mean(np.log(np.maximum(last, 1e-300)))
    if score >= 1 and share * np.exp(within) > rule.limit:
        score = 0.99
    text = f"'{entropy.key}' went from {early:.3g} to {share * early:.3g}"
    window = since(entropy, entropy.value <= rule.limit * early, last.size) if score >= 1 else window_of(entropy)
    return Fact(score, share, window, int(last.size), text)


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
def kl_below_zero(case: Case, rule: Rule) -> Fact | None:
    """A KL that runs below zero while nothing is learned."""
    kl = case.series("kl")
    late = -median(tail(kl.value, 5))
    if late <= 0 or case.gain.shows:
        return None
    text = f"'{kl.key}' stands at {-late:.3g}, which no mean over the policy's own answers does"
    return Fact(late / rule.limit, late, window_of(kl), int(kl.value.size // 5), text)


@register_rule(
    "without_gradient",
    verdict="plumbing",
    needs=("grad_norm", "zero_std_frac|reward_std"),
    rows=10,
    limit=1.0,
    unit="share of the steps with different rewards",
    formula="share of steps with gradient norm 0",
    source="groups whose rewards differ have a gradient",
    proves="nothing is trained",
)
def without_gradient(case: Case, rule: Rule) -> Fact | None:
    """Steps without a gradient, where rewards differ."""
    norm, silent, rate = case.series("grad_norm"), case.curve.series.get("zero_std_frac"), case.curve.series.get("lr")
    if rate is not None and not np.any(rate.value):
        return None
    there = silent.at(norm.step) < 1 if silent is not None else case.series("reward_std").at(norm.step) > 0
    if there.mean() < 0.9:
        return None
    share = float(np.mean(norm.value[there] == 0))
    often = f"is zero at {share:.0%} of" if share else "is never zero at"
    text = f"'{norm.key}' {often} the steps with different rewards"
    return Fact(share / rule.limit, share, window_of(norm), int(there.sum()), text)

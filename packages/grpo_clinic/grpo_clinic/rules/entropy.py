"""An entropy that is lost."""

from grpo_clinic.readers.median import median
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, since, tail


@register_rule(
    "entropy_lost",
    verdict="policy_concentration",
    needs=("entropy",),
    rows=6,
    limit=0.15,
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
    text = f"'{entropy.key}' went from {early:.3g} to {share * early:.3g}"
    window = since(entropy, entropy.value <= rule.limit * early, last.size)
    return Fact(min(rule.limit / max(share, 1e-6), 1e6), share, window, last.size, text)

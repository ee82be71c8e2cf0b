"""Reward hacking: the reward goes up, and what counts does not follow."""

from grpo_clinic import noise
from grpo_clinic.rules.base import Case, Fact, Rule, register_rule, tail, true_parts, where


@register_rule(
    "part_stays",
    verdict="reward_hacking",
    needs=("parts", "reward"),
    rows=20,
    limit=0.1,
    errors=4.0,
    unit="share of the reward's gain",
    formula="gain of a part / gain of the reward, where the part has room left",
    source="tried on public logs that had been read",
    proves="the reward was gained beside what this part pays for",
)
def _part_stays(case: Case, rule: Rule) -> Fact | None:
    """Below half of its top in the last fifth, while the sum gained a fifth of its scale."""
    change, error, _ = case.gain
    if change <= 0:
        return None
    seen = []
    for part in true_parts(case):
        if part.value.size < rule.rows or part.value.min() < 0:
            continue
        own = noise.gain_of(part.value)
        late, top = float(tail(part.value, 5).mean()), max(float(part.value.max()), 1.0)
        share = max(own.change, 0.0) / change
        enough = min(change / (0.2 * case.span), change / max(rule.errors * error / 2, 1e-300))
        score = min(enough, 0.5 * top / max(late, 1e-9), rule.limit / max(share, 1e-6))
        text = f"'{part.key}' gained {own.change:+.2g} and stands at {late:.3g}; the reward gained {change:+.2g}"
        seen.append(Fact(score, share, where(part)[0], part.value.size // 5, text))
    return max(seen, key=lambda one: one.score, default=None)

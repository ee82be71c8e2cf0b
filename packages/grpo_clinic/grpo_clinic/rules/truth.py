"""Reward hacking: the reward goes up, and what counts does not follow."""

import re

from grpo_clinic import noise
from grpo_clinic.readers.record import Series
from grpo_clinic.rules.base import Case, Fact, Rule, register_rule, tail, where

_TRUE_PART = re.compile(r"accura|correct|ndcg|pass@|exact|(^|[_/])(em|gold|true)($|[_/])", re.IGNORECASE)
"""Keys of what counts."""


def true_parts(case: Case) -> list[Series]:
    """The parts of the reward that count, by their keys."""
    return [one for key, one in case.curve.parts.items() if _TRUE_PART.search(key)]


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
    change, error = float(case.gain.change[0]), float(case.gain.error[0])
    if change <= 0:
        return None
    seen = []
    for part in true_parts(case):
        if part.value.size < rule.rows or part.value.min() < 0:
            continue
        own = noise.gain_of(part.value)
        late, top = float(tail(part.value, 5).mean()), max(float(part.value.max()), 1.0)
        gained = own.best[1]
        share = max(gained, 0.0) / change
        enough = min(change / (0.2 * case.span), change / max(rule.errors * error / 2, 1e-300))
        score = min(enough, 0.5 * top / max(late, 1e-9), rule.limit / max(share, 1e-6))
        text = f"'{part.key}' gained {gained:+.2g} and stands at {late:.3g}; the reward gained {change:+.2g}"
        seen.append(Fact(score, share, where(part)[0], part.value.size // 5, text))
    return max(seen, key=lambda one: one.score, default=None)

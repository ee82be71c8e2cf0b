"""What has grown out of its beginnings."""

import numpy as np

from grpo_clinic.readers.median import median
from grpo_clinic.rules.base import Case, Fact, Rule, register_rule, tail, where

_FLOOR = {"engine_kl": 0.05, "engine_abs": 0.15, "kl": 1.0, "spike": 50.0}
"""What it must have grown to [nats per token]."""


@register_rule(
    "grows",
    of={
        "engine_kl": {"unit": "times, and .05 nats per token"},
        "engine_abs": {"unit": "times, and .15 nats per token"},
        "kl": {
            "verdict": "diverging",
            "unit": "times its first two thirds, and 1 nat per token",
            "source": "limits chosen on simulated runs and public runs",
            "proves": "the policy leaves its reference ever faster",
        },
        "spike": {
            "needs": ("kl",),
            "verdict": "diverging",
            "rows": 5,
            "limit": 300.0,
            "unit": "times, and 50 nats per token in its largest row",
            "source": "a token of a vocabulary of 150,000 costs 12 nats at random: 50 are no sample of one policy",
            "proves": "some answers are all but impossible to the reference",
        },
    },
    verdict="sampler_mismatch",
    rows=10,
    limit=10.0,
    formula="median of the last tenth, of a spike the largest, / median of the first fifth",
    source="ours: rounding does not grow",
    proves="engine and trainer drift apart",
)
def _grows(case: Case, rule: Rule) -> Fact:
    """A KL begins at 0 and must grow: so its last tenth is beside all that was before."""
    series, floor = case.series(rule.needs[0]), _FLOOR[rule.role]
    value = np.abs(series.value)
    end, at = tail(value), int(value.argmax())
    before = median(value[: 2 * value.size // 3 if rule.role == "kl" else value.size // 5])
    late, rows = median(end), slice(-end.size, None)
    if rule.role == "spike":
        late, rows = float(value[at]), slice(at, at + 1)
    ratio = min(late / max(before, 1e-12), 1e12)
    text = f"'{series.key}' went from {before:.3g} to {late:.3g}"
    return Fact(min(ratio / rule.limit, late / floor), ratio, *where(series, rows), text)

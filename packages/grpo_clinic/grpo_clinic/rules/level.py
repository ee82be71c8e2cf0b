"""What stands at a level that means something in its unit: engine and trainer apart, answers clipped or cut off."""

from collections.abc import Callable

import numpy as np

from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Floats
from grpo_clinic.rules.base import Case, Fact, Rule, register_rule, strongest, where

_DISTANCE: dict[str, Callable[[Floats], Floats]] = {
    "importance_ratio": lambda ratio: np.log(np.where(ratio > 0, ratio, 1.0)),
    "ess": lambda share: 1 - share,
}
"""What grows as engine and trainer go apart, where that is not the quantity itself. A ratio of 0 is none."""
_OF_ANSWERS = ("clip_frac", "truncation")
"""Shares that may be high for a while: their last fifth counts."""


@register_rule(
    "level",
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
            "unit": "of the batch (effective sample), or less",
            "source": "ours: less than a third of the batch carries the update",
        },
        "clip_frac": {
            "verdict": "clipped",
            "limit": 0.4,
            "unit": "of ratios clipped",
            "source": "what is clipped has no gradient",
            "proves": "two answers of five have no gradient",
        },
        "truncation": {
            "verdict": "truncated_answers",
            "limit": 0.9,
            "unit": "of answers cut off",
            "source": "limit chosen on simulated runs",
            "proves": "what the reward looks for is cut off",
        },
    },
    verdict="sampler_mismatch",
    formula="median of a fifth, or of three rows running; of shares of answers that of the last fifth",
    proves="engine and trainer are two policies",
)
def _level(case: Case, rule: Rule) -> Fact | None:
    """Of effective sample sizes only shares: a count is passed over."""
    series, far = case.series(rule.role), _DISTANCE.get(rule.role, np.positive)
    if rule.role == "ess" and series.value.max() > 1 + 1e-6:
        return None
    limit, last = float(far(np.array(rule.limit))), slice(-max(series.value.size // 5, 1), None)
    apart, rows = strongest(far(series.value), limit)
    note = ""
    if rule.role in _OF_ANSWERS:
        apart, rows = median(series.value[last]), last
        note = "the reward was gained all the same" if case.reward.size >= 10 and case.gain.shows else ""
    value = abs(median(series.value[rows]))
    text = f"'{series.key}' stands at {value:.3g} {rule.unit.partition(', or')[0]}"
    return Fact(min(abs(apart) / limit, 1e3), value, *where(series, rows), text, note=note)

"""Ages of the answers that are trained on: beyond the recipe's bound?"""

import numpy as np

from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule


@register_rule(
    "beyond_bound",
    verdict="stale_answers",
    needs=("age|age_max",),
    limit=1.0,
    unit="times the recipe's largest age",
    formula="largest logged age / the recipe's bound",
    source="the recipe",
    proves="answers are older than the recipe allows",
)
def beyond_bound(case: Case, rule: Rule) -> Fact | Missing:
    """Logged ages against the recipe's bound, an extra thousandth for rounding."""
    role = "age_max" if "age_max" in case.curve.series else "age"
    series = case.series(role)
    if case.age_bound is None:
        return Missing("the recipe's bound on ages (config)", True)
    at = int(series.value.argmax())
    value = float(series.value[at])
    allowed = f"{case.age_source} allows {case.age_bound:g}"
    text = f"'{series.key}' reached {value:g} updates at step {series.step[at]:g}; {allowed}"
    ratio = value / max(case.age_bound, 1e-9)
    over = int(np.sum(series.value > case.age_bound))
    return Fact(ratio if over else min(ratio, 0.99), value, (float(series.step[at]),) * 2, max(over, 1), text)


def stable_up_to(mean: float, largest: float) -> tuple[float, float]:
    """Largest learning rate times stiffness that is stable without momentum: at this mean age, at this largest age.

    By the mean age a: min(2, 1/a), where the damping 1/eta - K a of the oscillator changes its sign (`law`). By the
    largest age L, as if all were so old: 2 sin(pi/(4 L + 2)), exact for a constant lag.

    Example:
      >>> [round(one, 3) for one in stable_up_to(1.0, 2.0)]
      [1.0, 0.618]
    """
    return min(2.0, 1 / mean if mean > 0 else 2.0), 2 * float(np.sin(np.pi / (4 * largest + 2)))

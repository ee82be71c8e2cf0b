"""A reward or a gradient that is not finite any more."""

import numpy as np

from grpo_clinic.rules.base import Case, Fact, Rule, register_rule

_LONG = 8
"""Rows of a log that is more than pasted rows."""


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
    curve, norm = case.curve, case.curve.series.get("grad_norm")
    lost, good, then = np.sort(curve.nonfinite_steps), curve.step, ""
    if rule.role == "gradient":
        lost, good = np.sort(curve.gradient_lost), np.zeros(0) if norm is None else norm.step
        then = "" if good.size else "No gradient was a number: look at the loss and its precision."
    if not lost.size:
        return None
    stretches = np.bincount(np.searchsorted(good, lost), minlength=good.size + 1)
    last, least = int(stretches[-1]), max(rule.limit, 2.0 * stretches[:-1].max(initial=0))
    least = 1.0 if rule.role == "gradient" and max(case.rows.values()) < _LONG else least
    window = (float(lost[-max(last, 1)]), float(lost[-1]))
    text = f"the {rule.role} is not finite from step {window[0]:g} to the end ({last} rows)"
    return Fact(last / least, float(last), window, last, text, then)

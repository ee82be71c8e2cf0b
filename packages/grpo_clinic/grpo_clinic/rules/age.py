"""Answers that are older than their recipe allows."""

from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, where


@register_rule(
    "beyond_bound",
    of={"age": {}, "age_max": {}},
    verdict="stale_answers",
    limit=1.0,
    unit="times the recipe's largest age",
    formula="largest logged age / the recipe's bound",
    source="the recipe",
    proves="answers are older than the recipe allows",
)
def _beyond_bound(case: Case, rule: Rule) -> Fact | Missing:
    if case.age_bound is None:
        return Missing("the recipe's bound on ages (config)", True)
    age = case.series(rule.role)
    at, over = int(age.value.argmax()), age.value > case.age_bound
    largest = float(age.value[at])
    text = f"'{age.key}' reached {largest:g} updates; {case.age_source} allows {case.age_bound:g}"
    fact = Fact(largest / max(case.age_bound, 1e-9), largest, *where(age, slice(at, at + 1)), text)
    return fact._replace(rows=int(over.sum())) if over.any() else fact.unless(True)

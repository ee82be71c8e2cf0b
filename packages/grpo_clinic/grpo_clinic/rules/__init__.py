"""Rules by family: each says what it needs, its limit in its unit, its formula, its source, and what it proves."""

from grpo_clinic.rules import answers, control, divergence, engine, groups, reward, truth
from grpo_clinic.rules.base import RULES, Case, Fact, Missing, Rule, register_rule, rules

__all__ = ["RULES", "Case", "Fact", "Missing", "Rule", "register_rule", "rules"]

"""Rules, one a file: what it needs, its limit in its unit, its formula, its source, and what it proves."""

from importlib import import_module
from pkgutil import iter_modules

from grpo_clinic.rules.base import RULES, Case, Fact, Missing, Rule, register_rule, rules

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")

__all__ = ["RULES", "Case", "Fact", "Missing", "Rule", "register_rule", "rules"]

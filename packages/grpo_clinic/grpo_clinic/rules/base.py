"""A rule: what it needs of a log, what it computes, its limit in its unit. The registry holds ours and plug-ins."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from grpo_clinic._registry import Registry
from grpo_clinic.readers.record import COLUMNS, Curve, Floats, Series

NEEDS = ("reward", "eval", "parts", *COLUMNS)
"""What a rule may need: a column by its role, the reward, held-out results, parts of the reward."""
UNITS: Mapping[str, str] = {
    "reward": "reward",
    "eval": "reward",
    "parts": "reward",
    "entropy": "nats per token",
    "kl": "nats per token",
    "grad_norm": "norm",
    "clip_frac": "share of tokens",
    "zero_std_frac": "share of groups",
    "truncation": "share of answers",
    "length": "tokens",
    "lr": "1",
    "reward_std": "reward",
    "reward_min": "reward",
    "reward_max": "reward",
    "engine_kl": "nats per token, k3",
    "engine_k1": "nats per token, k1",
    "engine_abs": "nats per token, mean absolute difference",
    "importance_ratio": "1",
    "ess": "share of the batch",
    "age": "updates",
    "age_max": "updates",
    "perplexity": "1",
}
"""The unit of each role."""


@dataclass(frozen=True)
class Fact:
    """What a rule saw: `value` over the steps of `window`, from `rows` rows. `score` >= 1: beyond the limit.

    `then`: what to do, where it is not what the verdict's name asks for. `note`: why it is no failure by itself.
    Rule, verdict, limit and unit are filled in by the rule.
    """

    score: float
    value: float
    window: tuple[float, float]
    rows: int
    text: str
    then: str = ""
    note: str = ""
    rule: str = ""
    verdict: str = ""
    limit: float = math.nan
    unit: str = ""

    @property
    def fires(self) -> bool:
        """Whether it is beyond the limit."""
        return bool(self.score >= 1)


@dataclass(frozen=True)
class Missing:
    """Why a rule says nothing of this log; `logged`: the column is there, and too short or unfit for it."""

    what: str
    logged: bool = False


@dataclass(frozen=True)
class Case:
    """One run as rules see it: its curve, and what its recipe says. Numbers that nobody stated are None.

    group_size: answers per prompt. refresh_interval: updates per batch. age_bound: largest age that the recipe allows
    [updates], in the words of `age_source`. least_gain: share of the room that a standstill must exclude to be gained.
    """

    curve: Curve
    group_size: int | None = None
    refresh_interval: float | None = None
    age_bound: float | None = None
    age_source: str = ""
    least_gain: float = 0.2
    shared: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def reward(self) -> Floats:
        """Reward [n]."""
        return self.curve.reward

    @property
    def span(self) -> float:
        """The reward's scale, largest less smallest."""
        return max(self.curve.scale.high - self.curve.scale.low, 1e-12)

    def series(self, role: str) -> Series:
        """A column that the rule needs: it is there."""
        return self.curve.series[role]

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """What several rules ask for, computed once."""
        if name not in self.shared:
            self.shared[name] = compute()
        return self.shared[name]

    def rows(self, need: str) -> int:
        """How many values of it there are."""
        if need == "reward":
            return int(self.reward.size)
        if need == "eval":
            return 0 if self.curve.eval is None else int(self.curve.eval.value.size)
        if need == "parts":
            return max((one.value.size for one in self.curve.parts.values()), default=0)
        return int(self.curve.series[need].value.size) if need in self.curve.series else 0


Judge = Callable[[Case, "Rule"], Fact | Missing | None]


@dataclass(frozen=True)
class Rule:
    """One question put to a log.

    needs: roles, all of them; "a|b": one of the two. rows: values that each must have. limit: in `unit`. errors:
    standard errors that the value must lie beyond the limit, 0 where it is a level. formula, source: where it comes
    from. proves: what follows if it fires, in one sentence.
    """

    name: str
    verdict: str
    needs: tuple[str, ...]
    limit: float
    unit: str
    formula: str
    source: str
    proves: str
    judge: Judge
    rows: int = 1
    errors: float = 0.0

    def __call__(self, case: Case) -> Fact | Missing | None:
        """The fact, or why there is none; None where the question does not arise."""
        for need in self.needs:
            count = max(case.rows(one) for one in need.split("|"))
            if count < self.rows:
                name = need.replace("|", " or ").replace("_", " ")
                short = f"{name}: {count} values, {self.rows} are needed" if count else name
                return Missing(short, bool(count))
        found = self.judge(case, self)
        if not isinstance(found, Fact):
            return found
        return replace(found, rule=self.name, verdict=self.verdict, limit=self.limit, unit=self.unit)


RULES: Registry[Any] = Registry("rule")


def register_rule(
    name: str,
    *,
    verdict: str,
    needs: tuple[str, ...],
    limit: float,
    unit: str,
    formula: str,
    source: str,
    proves: str,
    rows: int = 1,
    errors: float = 0.0,
) -> Callable[[Judge], Judge]:
    """Decorator of a function (case, rule) -> Fact, Missing or None; arguments are those of `Rule`.

    A plug-in is a module that decorates its functions; `grpo-clinic diagnose --plugin MODULE` imports it.

    Raises:
        ValueError: for a name that is taken, or a need that no log can have.

    Example:
        >>> @register_rule("long_answers", verdict="long_answers", needs=("length",), limit=4000, unit="tokens",
        ...                formula="last length", source="ours", proves="answers are long")
        ... def long_answers(case, rule):
        ...     last = float(case.series("length").value[-1])
        ...     return Fact(last / rule.limit, last, (0.0, 1.0), 1, f"the last answers have {last:g} tokens")
    """
    for need in needs:
        unknown = [one for one in need.split("|") if one not in NEEDS]
        if unknown:
            raise ValueError(f"needs: expected some of {', '.join(NEEDS)}, got {unknown[0]}")

    def keep(judge: Judge) -> Judge:
        rule = Rule(name, verdict, needs, limit, unit, formula, source, proves, judge, rows, errors)

        def build() -> Rule:
            return rule

        build.__module__ = judge.__module__
        RULES.register(name)(build)
        return judge

    return keep


def rules(limits: Mapping[str, float] | None = None, errors: Mapping[str, float] | None = None) -> list[Rule]:
    """All rules, with other limits or standard errors for those that are named. Raises ValueError for other names."""
    limits, errors = limits or {}, errors or {}
    for name in (*limits, *errors):
        if name not in RULES:
            raise ValueError(f"limits: expected the name of a rule, one of {', '.join(RULES)}, got {name}")
    made = [build() for build in RULES.values()]
    other = {*limits, *errors}
    return [
        replace(one, limit=limits.get(one.name, one.limit), errors=errors.get(one.name, one.errors))
        if one.name in other
        else one
        for one in made
    ]


def window_of(series: Series, rows: slice = slice(None)) -> tuple[float, float]:
    """First and last step of these rows."""
    step = series.step[rows]
    return float(step[0]), float(step[-1])


def since(series: Series, high: np.ndarray, least: int = 1) -> tuple[float, float]:
    """The steps at the end that are all `high` [n], at least so many rows."""
    low = np.flatnonzero(~high)
    first = min(int(low[-1]) + 1 if low.size else 0, series.step.size - least)
    return float(series.step[max(first, 0)]), float(series.step[-1])


def tail(values: Floats, share: int = 10, least: int = 3) -> Floats:
    """The last tenth (fifth, ...) of values, at least three."""
    return values[-max(least, values.size // share) :]

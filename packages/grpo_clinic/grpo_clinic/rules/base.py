"""A rule: what it needs of a log, what it computes, its limit in its unit. The registry holds ours and plug-ins."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from grpo_clinic import _checks, noise
from grpo_clinic._registry import Registry
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import COLUMNS, Curve, Floats, Series

NEEDS = ("reward", "eval", "parts", *COLUMNS)
"""What a rule may need: a column by its role, the reward, held-out results, parts of the reward."""
CHOSEN = "limits chosen on simulated runs (experiments/grading/training.yaml)"
_TRUE_PART = re.compile(r"accura|correct|ndcg|pass@|exact|(^|[_/])(em|gold|true)($|[_/])", re.IGNORECASE)
"""Keys of what counts."""


class Fact(NamedTuple):
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

    def unless(self, excused: bool, why: str = "") -> "Fact":
        """The same, below the limit where it is excused."""
        return self._replace(score=0.99, text=self.text + why) if excused and self.fires else self


@dataclass(frozen=True)
class Missing:
    """Why a rule says nothing of a log. `logged`: the column is there, unfit or with `count` values of `rows`."""

    what: str
    logged: bool = False
    count: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Case:
    """One run as rules see it: its curve, and what its recipe says. Numbers that nobody stated are None.

    group_size: answers per prompt. refresh_interval: updates per batch. age_bound: largest age that the recipe allows
    [updates], in the words of `age_source`. least_gain: share of the room that a standstill must exclude to be gained.
    no_group: why there is no group of answers, or empty.
    """

    curve: Curve
    group_size: int | None = None
    refresh_interval: float | None = None
    age_bound: float | None = None
    age_source: str = ""
    least_gain: float = 0.2
    no_group: str = ""

    @property
    def reward(self) -> Floats:
        """Reward [n]."""
        return self.curve.reward

    @property
    def span(self) -> float:
        """The reward's scale, largest less smallest."""
        return max(self.curve.scale.high - self.curve.scale.low, 1e-12)

    def height(self, rewards: Floats) -> float:
        """Mean of these rewards, from the bottom of the scale: 1 at its top."""
        return float(rewards.mean() - self.curve.scale.low) / self.span

    def sure_of_its_scale(self, start: float, end: float) -> bool:
        """Whether the height `end` says something: of a scale that was given or climbed, or at the top of 0 to 1."""
        return self.curve.scale.given or end - start > 0.25 or (self.curve.scale.high == 1 and end > 0.95)

    def series(self, role: str) -> Series:
        """A column that the rule needs: it is there."""
        return self.curve.series[role]

    @cached_property
    def gain(self) -> noise.Gain:
        """The gain of ten rewards or more."""
        return noise.gain_of(self.reward)

    @cached_property
    def at_rate_zero(self) -> bool:
        """Whether the learning rate is logged as 0 on every row of ten or more."""
        return self.rows.get("lr", 0) >= 10 and not self.series("lr").value.any()

    @cached_property
    def rows(self) -> dict[str, int]:
        """How many values of each need there are."""
        curve = self.curve
        counts = {role: one.value.size for role, one in curve.series.items()}
        counts |= {"reward": self.reward.size, "eval": 0 if curve.eval is None else curve.eval.value.size}
        return counts | {"parts": max([one.value.size for one in curve.parts.values()], default=0)}


Judge = Callable[[Case, "Rule"], Fact | Missing | None]


@dataclass(frozen=True)
class Rule:
    """One question put to a log.

    needs: roles, all of them. rows: values that each must have. limit: in `unit`. errors: standard errors that the
    value must lie beyond the limit, 0 where it is a level. formula, source: where it comes from. proves: what follows
    if it fires, in one sentence. role: the quantity, in a rule of several.
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
    role: str = ""

    def __call__(self, case: Case) -> Fact | Missing | None:
        """The fact, or why there is none; None where the question does not arise."""
        for role in self.needs:
            if (count := case.rows.get(role, 0)) < self.rows:
                return Missing(role.replace("_", " "), count > 0 or role in case.curve.empty, count, self.rows)
        answer = self.judge(case, self)
        if not isinstance(answer, Fact):
            return answer
        return answer._replace(rule=self.name, verdict=self.verdict, limit=self.limit, unit=self.unit)


RULES: Registry[list[Rule]] = Registry("rule")


def register_rule(
    name: str, of: Mapping[str, Mapping[str, Any]] | None = None, **asked: Any
) -> Callable[[Judge], Judge]:
    """Decorator of a function (case, rule) -> Fact, Missing or None; arguments are those of `Rule`.

    of: role -> arguments of its own, in a rule that puts one question to several quantities; limits name `rule.role`.
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

    def keep(judge: Judge) -> Judge:
        made = [
            Rule(f"{name}.{role}", judge=judge, role=role, **{"needs": (role,), **asked, **own})
            for role, own in (of or {}).items()
        ] or [Rule(name, judge=judge, **asked)]
        for role in {role for rule in made for role in rule.needs}:
            _checks.require(role in NEEDS, "needs", f"some of {', '.join(NEEDS)}", role)

        def build() -> list[Rule]:
            return made

        build.__module__ = judge.__module__
        RULES.register(name)(build)
        return judge

    return keep


def rules(limits: Mapping[str, float] | None = None, errors: Mapping[str, float] | None = None) -> list[Rule]:
    """All questions, with other limits or standard errors for those that are named. Raises ValueError for others."""
    limits, errors = limits or {}, errors or {}
    by_name = {one.name: one for build in RULES.values() for one in build()}
    for name in {**limits, **errors}:
        one = by_name[_checks.choice("limits", name, by_name)]
        by_name[name] = replace(one, limit=limits.get(name, one.limit), errors=errors.get(name, one.errors))
    return list(by_name.values())


def where(series: Series, rows: slice = slice(None)) -> tuple[tuple[float, float], int]:
    """First and last step of these rows, and how many they are."""
    step = series.step[rows]
    return (float(step[0]), float(step[-1])), step.size


def since(series: Series, high: np.ndarray, least: int = 1) -> tuple[float, float]:
    """The steps at the end that are all `high` [n], at least so many rows."""
    low = np.flatnonzero(~high)
    first = min(int(low[-1]) + 1 if low.size else 0, series.step.size - least)
    return float(series.step[max(first, 0)]), float(series.step[-1])


def tail(values: Floats, share: int = 10, least: int = 3) -> Floats:
    """The last tenth (fifth, ...) of values, at least three."""
    return values[-max(least, values.size // share) :]


def strongest(value: Floats, limit: float = np.inf) -> tuple[float, slice]:
    """The median of the whole where that is beyond the limit, else the largest in size of the first fifth's, the last
    one's and that of three rows running."""
    part = max(value.size // 5, 1)
    if abs(median(value)) >= limit:
        return median(value), slice(None)
    looks = [slice(0, part), slice(value.size - part, value.size)]
    if value.size > noise.RUNNING:
        at = int(noise.least_running(np.abs(value)).argmax())
        looks.append(slice(at, at + noise.RUNNING))
    best = max(looks, key=lambda rows: min(abs(median(value[rows])), float(np.abs(value[rows]).max())))
    return median(value[best]), best


def true_parts(case: Case) -> list[Series]:
    """The parts of the reward that count, by their keys."""
    return [one for key, one in case.curve.parts.items() if _TRUE_PART.search(key)]

"""The verdict with which `predict` begins: one line in words, from the numbers of the summary."""

import cmath
import math
from collections.abc import Sequence
from dataclasses import dataclass

from bandit_lab.lab.predict.prediction import Prediction
from bandit_lab.lab.predict.quantities import HORIZON

SHOWN_RANGES = 3
SEEN = 0.01
"""Share of runs from which on a collapse is mentioned."""
_AT = 0.005
"""Relative distance up to which a learning rate is at its threshold, in words."""


@dataclass(frozen=True)
class Facts:
    """What a verdict is made of; None where there is no such number.

    learning_rate, kl_weight, refresh_interval: the setting. law, exact, frozen_moment, mean_square: learning rates at
    which stability is lost: leading order, exact, with second moments held at the noise, in the mean square of drawn
    ages. law_reason, exact_reason: why those are missing. radius: of the largest multiplier; unsupported_reason: why
    that is missing.
    regime: of the summary. bifurcation: at the exact threshold. period: steps of a cycle of the dominant mode.
    stiffness: the stiffest eigenvalue. islands: unstable ranges of refresh intervals, looked for up to `searched`.
    collapsed: share of runs that noise carries to the vertex in `horizon` steps. no_fixed_point: why there is none;
    critical_weight: from which KL weight there is one. sampler: what draws, where the policy itself does not.
    along: where on a schedule this setting stands, in words. mean_age, guarantee: learning rates that are safe by the
    mean and by the largest age alone, of averaged ages.
    """

    learning_rate: float
    refresh_interval: float = 1
    kl_weight: float = 1.0
    law: float | None = None
    law_reason: str = ""
    exact: float | None = None
    exact_reason: str = ""
    radius: float | None = None
    unsupported_reason: str = ""
    regime: str | None = None
    bifurcation: str | None = None
    period: float | None = None
    stiffness: complex | None = None
    islands: Sequence[Sequence[int]] = ()
    searched: int | None = None
    frozen_moment: float | None = None
    mean_square: float | None = None
    collapsed: float | None = None
    horizon: int = 1000
    no_fixed_point: str = ""
    critical_weight: float | None = None
    sampler: str = ""
    along: str = ""
    mean_age: float | None = None
    guarantee: float | None = None


def verdict(facts: Facts) -> str:
    """One line: stable or not and by how much, how it swings, what the published law would say."""
    said = "; ".join(part for part in (_verdict(facts), facts.along) if part)
    return f"{facts.sampler}: {said}" if facts.sampler else said


def _verdict(facts: Facts) -> str:
    if facts.no_fixed_point:
        return _without_fixed_point(facts)
    if facts.radius is None:
        return _without_multipliers(facts)
    stable = facts.regime != "unstable"
    clauses = [_margin(facts, stable), _swing(facts, stable), _complex(facts), *_ranges(facts)]
    clauses += [_law(facts, stable), _noise(facts, stable)]
    return f"{'stable' if stable else 'unstable'}: {'; '.join(clause for clause in clauses if clause)}"


def _without_fixed_point(facts: Facts) -> str:
    if "vertex" not in facts.no_fixed_point:
        return f"no verdict: {facts.no_fixed_point}"
    text = f"the policy runs to a vertex: no interior fixed point at KL weight {facts.kl_weight:g}"
    if facts.critical_weight is not None:
        return f"{text}; one exists from KL weight {facts.critical_weight:.4g}"
    return f"{text}; any KL weight > 0 may have one" if facts.kl_weight == 0 else text


def _without_multipliers(facts: Facts) -> str:
    if facts.mean_square is not None:
        below = facts.learning_rate < facts.mean_square
        where = _beside(facts.learning_rate, facts.mean_square)
        text = f"eta is {where} the threshold of the mean square (an age is drawn at every step)"
        return f"{'stable' if below else 'unstable'} in the mean square: {text}"
    text = f"no verdict: {facts.unsupported_reason}"
    if facts.frozen_moment is not None:
        where = _beside(facts.learning_rate, facts.frozen_moment)
        text += f"; with its second moment held at the noise, eta is {where} the threshold (leading order)"
    return f"{text}; sampled runs of `sweep` show what it does"


def _margin(facts: Facts, stable: bool) -> str:
    if facts.exact is None:
        return f"no exact threshold is known ({facts.exact_reason})" if facts.exact_reason else "no threshold is known"
    if facts.exact == 0:
        return "the fixed point repels at every learning rate"
    where = f"eta is {_beside(facts.learning_rate, facts.exact)} the exact threshold"
    if stable and facts.learning_rate > facts.exact * (1 + _AT):
        return f"{where}, in a stable window beyond it"
    if not stable and facts.learning_rate < facts.exact * (1 - _AT):
        return f"{where} that a scan found, in a narrow window that it passed over"
    return where


def _swing(facts: Facts, stable: bool) -> str:
    cycle = "" if facts.period is None else f"a period of {amount(facts.period)} steps"
    if stable:
        if cycle:
            return f"rings with {cycle}"
        return "decays without ringing" if facts.regime == "overdamped" else "rings in its stiffest direction alone"
    through = {
        "flip": "a multiplier passes -1 there (flip)",
        "neimark_sacker": "a complex pair leaves the unit circle there (Neimark-Sacker)",
    }.get(facts.bifurcation or "", "")
    grows = f"swings with {cycle} grow" if cycle else "displacements grow without swinging"
    return "; ".join(part for part in (through, grows) if part)


def _complex(facts: Facts) -> str:
    if facts.stiffness is None or complex(facts.stiffness).imag == 0:
        return ""
    angle = math.degrees(abs(cmath.phase(facts.stiffness)))
    text = f"the stiffness is complex ({angle:.2g} degrees): it rings at every learning rate"
    if facts.law is None or not facts.exact:
        return f"{text}, and the law may be unsafe"
    times = facts.law / facts.exact
    return f"{text}, and the law allows {amount(times)} times too much" if times > 1 + _AT else text


def _ranges(facts: Facts) -> list[str]:
    """Islands of unstable refresh intervals: those that end again."""
    ends = [(a, b) for a, b in facts.islands if facts.searched is None or b < facts.searched]
    if not ends:
        return []
    inside = [(a, b) for a, b in ends if a <= facts.refresh_interval <= b]
    if inside:
        return [f"N = {facts.refresh_interval:g} lies in an island of unstable refresh intervals, {_range(*inside[0])}"]
    shown = ", ".join(_range(a, b) for a, b in ends[:SHOWN_RANGES]) + (", ..." if len(ends) > SHOWN_RANGES else "")
    return [f"islands of unstable refresh intervals at this eta: {shown}"]


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


def _law(facts: Facts, stable: bool) -> str:
    if facts.guarantee is not None and facts.mean_age is not None:
        mean, largest = amount(facts.mean_age), amount(facts.guarantee)
        return f"safe below {mean} by the mean age alone, below {largest} by the largest"
    if facts.law is None:
        return "" if facts.exact == 0 else facts.law_reason.replace("the law", "the published law", 1)
    says_stable = facts.learning_rate < facts.law
    if says_stable == stable:
        return "the published law agrees"
    return f"the published law would call it {'stable' if says_stable else 'unstable'}"


def _noise(facts: Facts, stable: bool) -> str:
    if not stable or facts.collapsed is None or facts.collapsed < SEEN:
        return ""
    return f"noise carries {100 * facts.collapsed:.2g} % of runs to the vertex within {facts.horizon:,} steps"


def _beside(value: float, threshold: float) -> str:
    """`2.3 times below`, `4 % above`, `at`."""
    ratio = max(value, threshold) / min(value, threshold)
    side = "below" if value < threshold else "above"
    if ratio <= 1 + _AT:
        return "at"
    return f"{amount(ratio)} times {side}" if ratio >= 1.095 else f"{100 * abs(value / threshold - 1):.1g} % {side}"


def amount(value: float) -> str:
    """A positive number in two digits, without an exponent below a million."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if 100 <= rounded < 1e6 else f"{rounded:g}"


def facts_of(found: Prediction) -> Facts:
    """The facts in a prediction."""
    linear, hyper = found.linear, found.hyper
    setting = (hyper.learning_rate, hyper.refresh_interval, hyper.kl_weight)
    if linear.policy is None:
        nothing, critical = linear.reason or "", linear.critical_kl_weight
        return Facts(*setting, no_fixed_point=nothing, critical_weight=critical, sampler=found.sampler or "")
    said = {row.quantity.key: row.value.value for row in found.statements}
    return Facts(
        *setting,
        found.law.value,
        found.law.reason,
        found.exact.value,
        found.exact.reason,
        found.radius.value,
        found.radius.reason,
        found.regime,
        found.exact.bifurcation,
        said["period"],
        complex(linear.spectrum[0]),
        found.intervals.islands or (),
        found.intervals.searched,
        said["held_moment"],
        found.exact.value if found.radius.value is None else None,
        said["collapsed"],
        HORIZON,
        sampler=found.sampler or "",
        mean_age=said["mean_age_law"],
        guarantee=said["guarantee"],
    )

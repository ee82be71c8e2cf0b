"""What `predict` says in words: the verdict, one line, and the lines under it. Every number is one of the point's."""

import cmath
import math
from collections.abc import Mapping

from bandit_lab.app.result import Value, number
from bandit_lab.lab.predict.point import OperatingPoint
from bandit_lab.lab.predict.statements import HORIZON
from bandit_lab.loop import UnstableIntervals

SHOWN_RANGES = 5
SEEN = 0.01
"""Share of runs from which on a collapse is mentioned."""
ROOM = 2.0
"""Margin below which a learning rate is warned of: a run that starts far from the fixed point may overshoot."""
_AT = 0.005
"""Relative distance up to which a learning rate is at its threshold, in words."""

Statements = Mapping[str, Value]
"""Values of the quantities by their keys; empty without a fixed point."""


def verdict(point: OperatingPoint, statements: Statements, along: str = "") -> str:
    """One line: stable or not and by how much, how it swings, what the published law would say.

    along: where on a schedule the point stands, in words.
    """
    text = "; ".join(part for part in (_verdict(point, statements), along) if part)
    return f"{point.sampler}: {text}" if point.sampler else text


def _verdict(point: OperatingPoint, statements: Statements) -> str:
    if point.linear.policy is None:
        return _without_fixed_point(point)
    if point.radius.value is None:
        return _without_multipliers(point, statements)
    stable = point.regime != "unstable"
    clauses = [_margin(point, stable), _swing(point, statements, stable), _complex(point)]
    clauses += [_law(point, statements, stable), _noise(statements, stable)]
    return f"{'stable' if stable else 'unstable'}: {'; '.join(clause for clause in clauses if clause)}"


def _without_fixed_point(point: OperatingPoint) -> str:
    reason, weight, critical = point.linear.reason or "", point.hyper.kl_weight, point.linear.critical_kl_weight
    if point.linear.slides:
        return f"no verdict: {reason}"
    text = f"the policy runs to a vertex: no interior fixed point at KL weight {weight:g}"
    if critical is not None:
        return f"{text}; one exists from KL weight {critical:.4g}"
    return f"{text}; any KL weight > 0 may have one" if weight == 0 else text


def _without_multipliers(point: OperatingPoint, statements: Statements) -> str:
    rate, exact, held = point.hyper.learning_rate, point.exact.value, statements["held_moment"].value
    if exact and not point.linear.drawn:
        where = f"eta is {_beside(rate, exact)} the exact threshold"
        return f"{'stable' if rate < exact else 'no verdict'}: {where}; no multipliers: {point.radius.reason}"
    if exact is not None:
        where = _beside(rate, exact)
        text = f"eta is {where} the threshold of the mean square (an age is drawn at every step)"
        return f"{'stable' if rate < exact else 'unstable'} in the mean square: {text}"
    text = f"no verdict: {point.radius.reason}"
    if held is not None:
        where = _beside(rate, held)
        text += f"; with its second moment fixed at the noise level, eta is {where} the threshold (leading order)"
    return f"{text}; sampled runs of `sweep` show what it does"


def _margin(point: OperatingPoint, stable: bool) -> str:
    rate, exact, reason = point.hyper.learning_rate, point.exact.value, point.exact.reason
    if exact is None:
        return f"no exact threshold is known ({reason})" if reason else "no threshold is known"
    if exact == 0:
        return "the fixed point repels at every learning rate"
    where = f"eta is {_beside(rate, exact)} the exact threshold"
    if stable and rate > exact * (1 + _AT):
        return f"{where}, in a stable window beyond it"
    if not stable and rate < exact * (1 - _AT):
        return f"{where} that a scan found, in a narrow window that it passed over"
    return where


def _swing(point: OperatingPoint, statements: Statements, stable: bool) -> str:
    period = statements["period"].value
    cycle = "" if period is None else f"a period of {amount(period)} steps"
    if stable:
        if cycle:
            return f"rings with {cycle}"
        return "decays without ringing" if point.regime == "overdamped" else "rings in its stiffest direction alone"
    through = {
        "flip": "it alternates there (flip)",
        "neimark_sacker": "it spirals out there (Neimark-Sacker)",
    }.get(point.exact.kind or "", "")
    grows = f"swings with {cycle} grow" if cycle else "displacements grow without swinging"
    return "; ".join(part for part in (through, grows) if part)


def _complex(point: OperatingPoint) -> str:
    stiffness, law, exact = complex(point.linear.spectrum[0]), point.law.value, point.exact.value
    if stiffness.imag == 0:
        return ""
    angle = math.degrees(abs(cmath.phase(stiffness)))
    text = f"the stiffness is complex ({angle:.2g} degrees): it rings at every learning rate"
    if law is None or not exact:
        return f"{text}, and the law may be unsafe"
    times = law / exact
    return f"{text}, and the law allows {amount(times)} times too much" if times > 1 + _AT else text


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


def _law(point: OperatingPoint, statements: Statements, stable: bool) -> str:
    mean, largest = statements["mean_age_law"].value, statements["guarantee"].value
    if largest is not None and mean is not None:
        return f"safe below {amount(mean)} by the mean age alone, below {amount(largest)} by the largest"
    if point.law.value is None:
        return "" if point.exact.value == 0 else str(point.law.reason)
    says_stable = point.hyper.learning_rate < point.law.value
    if says_stable == stable:
        return f"the published law also says {'stable' if stable else 'unstable'} (limit {number(point.law.value)})"
    return f"the published law would call it {'stable' if says_stable else 'unstable'}"


def _noise(statements: Statements, stable: bool) -> str:
    collapsed = statements["collapsed"].value
    if not stable or collapsed is None or collapsed < SEEN:
        return ""
    return f"noise carries {100 * collapsed:.2g} % of runs to the vertex within {HORIZON:,} steps"


def brief(point: OperatingPoint, statements: Statements, notes: list[str]) -> list[str]:
    """The lines under the verdict: thresholds with the margin, the fixed point, what to do."""
    lines = [] if point.linear.policy is None else [*_rate(point, statements), *_interval(point), _fixed_point(point)]
    sampler = notes[:1] if point.sampler else ()
    advice = _advice(point, statements)
    return [*lines, *sampler, f"{advice[0].upper()}{advice[1:]}.", "-v prints every quantity"]


def ranges(intervals: UnstableIntervals) -> str:
    """Unstable refresh intervals in words: `24 and above (searched up to 1024)`."""
    if not intervals.islands:
        return f"none up to {intervals.searched}"
    texts = [f"{a} and above" if b == intervals.searched else _range(a, b) for a, b in intervals.islands]
    shown = ", ".join(texts[:SHOWN_RANGES]) + (", ..." if len(texts) > SHOWN_RANGES else "")
    return f"{shown} (searched up to {intervals.searched})"


def _rate(point: OperatingPoint, statements: Statements) -> list[str]:
    rate, exact, held, onset = (
        point.hyper.learning_rate,
        point.exact.value,
        statements["held_moment"].value,
        point.onset.value,
    )
    clauses = []
    if exact:
        clauses.append(f"unstable from {number(exact)} (margin {amount(exact / rate)})")
    if held:
        clauses.append(f"unstable from {number(held)} with its second moment fixed at the noise level")
    if onset is not None:
        clauses.append(f"rings from {number(onset)}" if onset else "rings at every one")
    clauses += _by_law(point.law.value)
    return [f"learning rate {rate:g}: {'; '.join(clauses)}"] if clauses else []


def _interval(point: OperatingPoint) -> list[str]:
    unstable = point.intervals
    if unstable.islands is None:
        return []
    where = f"unstable at {ranges(unstable)}" if unstable.islands else f"stable at every one up to {unstable.searched}"
    return [
        f"refresh interval {point.hyper.refresh_interval:g}: {'; '.join([where, *_by_law(point.interval_law.value)])}"
    ]


def _by_law(value: float | None) -> list[str]:
    return [] if value is None else [f"the published law says {number(value)}"]


def _fixed_point(point: OperatingPoint) -> str:
    linear = point.linear
    std = None if point.group_size is None else point.stationary[0].value
    spread = "" if std is None else f", std {number(std, 2)} over a long run"
    return f"fixed point: expected reward {number(linear.expected_reward)}{spread}; stiffness {number(linear.largest)}"


def _advice(point: OperatingPoint, statements: Statements) -> str:
    """The nearest setting that is stable, or how much room there is."""
    if point.linear.policy is None:
        weight = point.linear.critical_kl_weight
        return "set another kl_weight" if weight is None else f"set kl_weight above {number(weight, 5)}"
    rate, exact, collapsed = point.hyper.learning_rate, point.exact.value, statements["collapsed"].value
    judged = point.radius.value is not None
    if not judged and exact is None:
        return "measure it: `sweep` takes the same settings"
    if point.regime == "unstable" or (not judged and exact is not None and rate >= exact):
        return _way_back(point)
    if collapsed is not None and collapsed >= SEEN:
        return "raise kl_weight or group_size: noise ends runs here, not instability"
    if exact is None:
        return "nothing to do"
    if exact < ROOM * rate:
        return (
            f"lower learning_rate to {number(exact / ROOM)}: a run that starts far from the fixed point may overshoot"
        )
    return f"nothing to do: you can raise learning_rate to about {number(exact / ROOM, 2)} (half the threshold)"


def _way_back(point: OperatingPoint) -> str:
    """The change that makes an unstable setting stable."""
    rate, interval, exact = point.hyper.learning_rate, point.hyper.refresh_interval, point.exact.value
    first = point.intervals.islands[0][0] if point.intervals.islands else None
    ways = [f"learning_rate below {number(exact)}"] if exact and exact < rate else []
    if first is not None and 1 < first <= interval:
        ways.append(f"refresh_interval below {first}")
    return f"set {' or '.join(ways)}" if ways else "set another kl_weight, estimator or staleness"


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

"""What `predict` prints under its verdict: thresholds with the margin, the fixed point, what to do; a line each."""

from bandit_lab.app.document.value import number
from bandit_lab.lab.predict.prediction import Intervals, Prediction
from bandit_lab.lab.predict.verdict import SEEN, Facts, amount

ROOM = 2.0
"""Margin below which a learning rate is warned of: a run that starts far from the fixed point may overshoot."""
SHOWN_RANGES = 5


def brief(found: Prediction, facts: Facts) -> list[str]:
    """The lines, in order; one without content is left out."""
    known = [] if found.linear.policy is None else [*_rate(found, facts), *_interval(found), _fixed_point(found)]
    sampler = found.notes[:1] if found.sampler else ()
    return [*known, *sampler, f"what to do: {_advice(facts)}", "-v prints every quantity"]


def ranges(found: Intervals) -> str:
    """Unstable refresh intervals in words: `24.. (searched up to 1024)`."""
    if not found.islands:
        return f"none up to {found.searched}"
    texts = [f"{a}..{'' if b == found.searched else b}" for a, b in found.islands]
    shown = ", ".join(texts[:SHOWN_RANGES]) + (", ..." if len(texts) > SHOWN_RANGES else "")
    return f"{shown} (searched up to {found.searched})"


def _rate(found: Prediction, facts: Facts) -> list[str]:
    rate, onset = facts.learning_rate, found.onset.value
    clauses = []
    if facts.exact:
        clauses.append(f"unstable from {number(facts.exact)} (margin {amount(facts.exact / rate)})")
    if facts.frozen_moment:
        clauses.append(f"unstable from {number(facts.frozen_moment)} with its second moment held at the noise")
    if onset is not None:
        clauses.append(f"rings from {number(onset)}" if onset else "rings at every one")
    clauses += _by_law(found.law.value)
    return [f"learning rate {rate:g}: {'; '.join(clauses)}"] if clauses else []


def _interval(found: Prediction) -> list[str]:
    intervals = found.intervals
    if intervals.islands is None:
        return []
    where = (
        f"unstable at {ranges(intervals)}" if intervals.islands else f"stable at every one up to {intervals.searched}"
    )
    clauses = [where, *_by_law(intervals.law.value)]
    return [f"refresh interval {found.hyper.refresh_interval:g}: {'; '.join(clauses)}"]


def _by_law(value: float | None) -> list[str]:
    return [] if value is None else [f"the published law says {number(value)}"]


def _fixed_point(found: Prediction) -> str:
    linear, point = found.linear, found.point
    std = None if point is None or point.group_size is None else point.stationary[0].value
    spread = "" if std is None else f", std {number(std, 2)} over a long run"
    return f"fixed point: expected reward {number(linear.expected_reward)}{spread}; stiffness {number(linear.largest)}"


def _advice(facts: Facts) -> str:
    """The nearest setting that is stable, or how much room there is."""
    rate, exact = facts.learning_rate, facts.exact
    if facts.no_fixed_point:
        weight = facts.critical_weight
        return "set another kl_weight" if weight is None else f"set kl_weight above {number(weight, 5)}"
    if facts.radius is None and facts.mean_square is None:
        return "measure it: `sweep` takes the same settings"
    if facts.regime == "unstable" or (facts.mean_square is not None and rate >= facts.mean_square):
        return _way_back(facts)
    if facts.collapsed is not None and facts.collapsed >= SEEN:
        return "raise kl_weight or group_size: noise ends runs here, not instability"
    if exact is None:
        return "nothing"
    if exact < ROOM * rate:
        return (
            f"lower learning_rate to {number(exact / ROOM)}: a run that starts far from the fixed point may overshoot"
        )
    return f"nothing: learning_rate has room up to half its threshold, {number(exact / ROOM)}"


def _way_back(facts: Facts) -> str:
    """What makes an unstable setting stable."""
    first = facts.islands[0][0] if facts.islands else None
    ways = [f"learning_rate below {number(facts.exact)}"] if facts.exact and facts.exact < facts.learning_rate else []
    if first is not None and 1 < first <= facts.refresh_interval:
        ways.append(f"refresh_interval below {first}")
    return f"set {' or '.join(ways)}" if ways else "set another kl_weight, estimator or staleness"

"""What became of the reward: rose, stands, fell and stayed down, ended; a change with its error."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from grpo_clinic.rules.base import Case, Fact

What = Literal["rose", "flat", "fell", "ended", "swings", "too short", "not logged"]
_FEWEST = 10


@dataclass(frozen=True)
class Outcome:
    """`what` became of the reward; `change` from its beginning to its last fifth, with its standard `error`, and `p`
    of the test that it is not zero (two-sided, normal, the error twice that of white noise); NaN without one."""

    what: What
    change: float
    error: float
    p: float
    text: str


def outcome_of(case: Case, facts: list[Fact]) -> Outcome:
    """The outcome of a run, of which `facts` were found."""
    if not case.reward.size:
        return Outcome("not logged", math.nan, math.nan, math.nan, "no reward is logged")
    lost = next((one for one in facts if one.verdict == "collapsed" and one.fires), None)
    if case.reward.size < _FEWEST:
        if lost is not None:
            return Outcome("fell", math.nan, math.nan, math.nan, lost.text)
        text = f"a gain is told from noise by {_FEWEST} rewards or more"
        return Outcome("too short", math.nan, math.nan, math.nan, text)
    gain = case.gain
    at, change, error = gain.best
    p = 2 * NormalDist().cdf(-abs(change) / error) if error > 0 else float(change == 0)
    gain_text = f"{change:+.3g} from the first {gain.start(at)} to the last fifth, error {error:.2g}"
    fired = {one.rule: one.text for one in facts if one.fires}
    if "no_number.reward" in fired:
        return Outcome("ended", change, error, p, fired["no_number.reward"])
    if lost is not None:
        return Outcome("fell", change, error, p, lost.text)
    if "swings" in fired:
        return Outcome("swings", change, error, p, f"{gain_text}; {fired['swings']}")
    if gain.shows:
        first = case.reward[: max(case.reward.size // 10, 1)].mean()
        whole = case.reward[-(case.reward.size // 5) :].mean() - case.reward[0]
        early = (first - case.reward[0]) / whole if whole > 0 else 0.0
        quick = f"; {early:.0%} of it in the first tenth" if early > 0.5 else ""
        return Outcome("rose", change, error, p, gain_text + quick)
    return Outcome("flat", change, error, p, gain_text)

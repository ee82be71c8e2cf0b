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
    reward, change, error, p, gain_text = case.reward, math.nan, math.nan, math.nan, ""
    fired = {one.rule: one.text for one in facts if one.fires and not one.note}
    falls = [one.text for one in facts if one.fires and one.verdict == "collapsed"]
    if reward.size >= _FEWEST:
        change, error, start = case.gain
        p = 2 * NormalDist().cdf(-abs(change) / error) if error > 0 else float(change == 0)
        gain_text = f"{change:+.3g} from the first {start} rewards to the last fifth, error {error:.2g}"
    what: What
    if not reward.size:
        what, text = "not logged", "no reward is logged"
    elif gain_text and "no_number.reward" in fired:
        what, text = "ended", fired["no_number.reward"]
    elif falls:
        what, text = "fell", falls[0]
    elif not gain_text:
        what, text = "too short", f"a gain is told from noise by {_FEWEST} rewards or more"
    elif "swings" in fired:
        what, text = "swings", f"{gain_text}; {fired['swings']}"
    elif case.gain.shows:
        twentieth, end = max(reward.size // 20, 1), reward[-(reward.size // 5) :].mean()
        begin, then = reward[:twentieth].mean(), reward[twentieth : 2 * twentieth].mean()
        early = min(max((then - begin) / max(end - begin, 1e-300), 0.0), 1.0)
        what, text = "rose", gain_text + (f"; {early:.0%} of it in the first tenth" if early > 0.5 else "")
    else:
        what, text = ("fell" if case.gain.falls else "flat"), gain_text
    return Outcome(what, change, error, p, text)

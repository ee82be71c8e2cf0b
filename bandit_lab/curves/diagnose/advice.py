"""What to do next, in one line: the answer to the first cause of a verdict, with the step to go back to."""

import math

from bandit_lab.curves.diagnose.evidence import Diagnosis

_SAME = {"diverging", "dynamical_instability", "collapsed"}
"""Answered alike: a step was too large for the samples that it was taken on."""
_METRICS = {
    "reward_hacking": "held-out results",
    "policy_concentration": "the entropy",
    "advantage_degeneracy": "the share of silent groups",
    "dynamical_instability": "the reward at every step",
    "diverging": "KL or gradient norm",
    "stalled": "more steps or more prompts per step",
}


def next_step(found: Diagnosis) -> str:
    """One line; of a user's own diagnostic it says to look at its evidence."""
    first = next((name for name in found.verdict if name not in found.notes), "")
    present = {finding.failure: finding for finding in found.findings if finding.present}
    if first in _SAME:
        onset = min(present[name].onset for name in _SAME & set(present))
        back = f"from a checkpoint before step {onset:g}" if math.isfinite(onset) else "from an earlier checkpoint"
        stop = "Stop and restart" if "collapsed" in present or "diverging" in present else "Restart"
        return f"{stop} {back} with half the learning rate, or half the updates per batch; change one of the two."
    if first in present:
        return {
            "reward_hacking": f"Stop; read answers from step {present[first].onset:g} on, and mend the reward before "
            "training goes on.",
            "policy_concentration": "Raise the sampling temperature, the upper clip or the KL weight; go back to a "
            f"checkpoint before step {present[first].onset:g}.",
            "advantage_degeneracy": "Choose prompts that are solved sometimes, or enlarge the groups: silent groups "
            "teach nothing.",
            "stalled": "Do not wait. Read ten answers and their rewards; then raise the learning rate, or choose "
            "easier prompts.",
        }.get(first, f"Look at the evidence for {first.replace('_', ' ')}.")
    if found.verdict == ("not_judged",):
        wanted = [_METRICS[name] for name in found.unjudged if name in _METRICS]
        return f"Log {', '.join(wanted) or 'a longer run'}: then more can be judged."
    lacking = [_METRICS[name] for name in found.unjudged if name in _METRICS]
    more = f" Log {', '.join(lacking)} too: what they show could not be judged." if lacking else ""
    noted = " Watch what is noted." if found.notes else ""
    return f"Go on; nothing needs a change.{noted}{more}"

"""A test that would decide between the first two causes of a verdict."""

from grpo_clinic.diagnosis.evidence import CONTROL, Diagnosis

_ALIKE = {"collapsed": "dynamical_instability", "dynamical_instability": "collapsed"}
"""One event under two names."""
_DECIDES = {
    "plumbing": ("run it at learning rate 0 (control=true)", "the reward falls"),
    "sampler_mismatch": ("compare log-probabilities of engine and trainer on one batch", "they lie apart"),
    "truncated_answers": ("run twenty steps with twice the length limit", "the reward jumps"),
    "diverging": ("restart with half the learning rate", "gradient and KL stay small"),
    "dynamical_instability": ("restart with half the learning rate", "the swings go"),
    "reward_hacking": ("read twenty late answers", "what is paid for is not what is wanted"),
    "format_only": ("read twenty late answers", "the form is right and the answer is not"),
    "policy_concentration": ("draw twenty answers to one prompt", "they are one and the same"),
    "answer_length": ("read ten late answers beside ten early ones", "they gave up or ramble"),
    "advantage_degeneracy": ("look at the rewards within groups", "nearly every group holds one value"),
    "collapsed": ("evaluate the last checkpoint and the best one", "the last one is worse"),
    "stalled": ("run as many steps at twice the learning rate", "the reward rises"),
}
"""Cause -> a test, and what it shows where this is the cause. A group size of one needs none."""


def causes(found: Diagnosis) -> list[str]:
    """The first two causes: those named that are more than notes, and behind one alone the strongest of the others that
    reaches half its limit."""
    named = [name for name in found.verdict if name not in found.notes and name in found.severity]
    rest = sorted(
        (one for one in found.findings if one.score is not None and 0.5 <= one.score < 1 and one.failure not in named),
        key=lambda one: -(one.score or 0.0),
    )
    every = [*named, *(one.failure for one in rest)] if named else []
    return [name for name in every if name != _ALIKE.get(named[0])][:2]


def decide(found: Diagnosis) -> list[str]:
    """A line that says what would decide between the first two causes; empty with fewer, or in a control run."""
    two = [] if found.unlike == CONTROL else [name for name in causes(found) if name in _DECIDES]
    if len(two) < 2:
        return []
    (act, first), (other, second) = (_DECIDES[name] for name in two)
    shown = [f"{seen} if it is {name.replace('_', ' ')}" for seen, name in zip((first, second), two, strict=True)]
    return [f"To decide, {act}: {shown[0]}; or {'' if act == other else f'{other}: '}{shown[1]}."]

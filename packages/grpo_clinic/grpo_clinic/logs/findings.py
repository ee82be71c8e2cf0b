"""What is said of a diagnosis: sentences for its verdict, and what it leaves open."""

from grpo_clinic.diagnosis import Diagnosis

_SENTENCES = {
    "healthy": "No failure mode was found in what the log holds.",
    "not_judged": "Not judged: the log holds too little, or shows nothing learned, to call the run healthy.",
    "stalled": "Stalled: no gain where there was room.",
    "collapsed": "Collapsed: the reward fell and was not made good.",
    "diverging": "Diverging: KL, gradient norm or entropy explode, or the reward is no number any more.",
    "reward_hacking": "Reward hacking: the training reward goes up and what counts does not follow.",
    "advantage_degeneracy": "Advantage degeneracy: most groups are silent, their answers all got the same reward.",
    "policy_concentration": "Policy concentration: the entropy has fallen to a small share of what it was.",
    "truncated_answers": "Truncated answers: the length limit cuts nearly all of them off.",
    "sampler_mismatch": "Sampler mismatch: the engine does not sample from the policy that is trained.",
    "plumbing": "Plumbing: the log shows what no run that is wired as it should be can show.",
    "format_only": "Format only: the answers have the form and not the answer.",
    "answer_length": "Answer length: the answers are a small part as long as they were, or several times as long.",
    "dynamical_instability": "Dynamical instability: sustained oscillation, growing fluctuations or a collapse.",
}
BRIEF = {
    "reward_hacking": "hack",
    "advantage_degeneracy": "degen",
    "policy_concentration": "conc",
    "dynamical_instability": "inst",
    "stalled": "stall",
    "collapsed": "coll",
    "diverging": "div",
    "truncated_answers": "cut off",
    "sampler_mismatch": "mismatch",
    "plumbing": "plumbing",
    "format_only": "format",
    "answer_length": "length",
}
"""Names of the failures where there is little room."""
_MEASURES = {"oscillation_p": "oscillation (p-value)"}


def measure(metric: str) -> str:
    """What a number of the evidence is called in tables and legends."""
    return _MEASURES.get(metric, metric.replace("_", " "))


def unfound_text(found: Diagnosis) -> str:
    """`healthy`, or that it is not judged and why: how many of the failures were not, or that nothing was gained."""
    if found.verdict == ("healthy",):
        return "healthy"
    if found.unlike:
        return f"not judged: {found.unlike}"
    scores = list(found.scores.values())
    unknown = scores.count(None)
    if unknown == len(scores):
        return "not judged"
    return f"{unknown} of {len(scores)} not judged" if 2 * unknown > len(scores) else "not judged: no clear gain"


def verdict_lines(found: Diagnosis) -> list[str]:
    """A sentence for every failure of the verdict, then what to do; a failure of a user's own detector is named."""
    then = f"What to do next: {found.next}"
    if found.verdict == ("not_judged",) and (text := unfound_text(found)) != "not judged":
        return [f"No failure mode was found in what the log holds; {text}.", then]
    said = [
        f"{'A note: ' if name in found.notes else ''}{_SENTENCES.get(name, name.replace('_', ' ') + '.')}"
        for name in found.verdict
    ]
    return [*said, then]


def verdict_text(found: Diagnosis, short: bool) -> str:
    """The verdict in plain words; findings that have done no harm stand behind `note:`."""
    if found.verdict in (("healthy",), ("not_judged",)):
        return unfound_text(found)
    words = {name: BRIEF.get(name, name) if short else name.replace("_", " ") for name in found.verdict}
    between = " + " if short else ", "
    failures = between.join(word for name, word in words.items() if name not in found.notes)
    noted = between.join(word for name, word in words.items() if name in found.notes)
    return ", ".join(text for text in (failures, f"note: {noted}" if noted else "") if text)


def caveat_lines(found: Diagnosis) -> list[str]:
    """What could not be judged, and what to beware of."""
    lines = [f"Not judged: {text}." for text in found.missing] + [f"Beware: {text}." for text in found.traps]
    return lines + [f"Note: {text}." for text in found.remarks]

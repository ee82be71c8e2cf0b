"""What pages and pictures say of a diagnosis: a sentence for each verdict, and numbered marks for its evidence."""

from bandit_lab.curves.diagnose import Diagnosis

Mark = tuple[float, float, str]
"""First step, last step, what was measured."""

_SENTENCES = {
    "healthy": "No failure mode was found in what the log holds.",
    "reward_hacking": "Reward hacking: the training reward goes up and what counts does not follow.",
    "advantage_degeneracy": "Advantage degeneracy: most groups are silent, their answers all got the same reward.",
    "policy_concentration": "Policy concentration: the entropy has fallen to a small share of what it was.",
    "dynamical_instability": "Dynamical instability: sustained oscillation, growing fluctuations or a collapse.",
}


_MEASURES = {"oscillation_p": "oscillation (p-value)"}


def measure(metric: str) -> str:
    """What a number of the evidence is called in tables and legends."""
    return _MEASURES.get(metric, metric.replace("_", " "))


def verdict_line(name: str) -> str:
    """One sentence for a verdict; the name alone for that of a user's own detector."""
    return _SENTENCES.get(name, f"{name.replace('_', ' ')}.")


def marks(diagnosis: Diagnosis | None) -> tuple[Mark, ...]:
    """What the verdict rests on: windows of the evidence above its threshold, shaded and numbered in the picture."""
    if diagnosis is None:
        return ()
    return tuple(
        (evidence.window[0], evidence.window[1], measure(evidence.metric))
        for finding in diagnosis.findings
        if finding.present
        for evidence in finding.evidence
        if evidence.above
    )


def mark_numbers(diagnosis: Diagnosis) -> dict[Mark, str]:
    """The number by which the picture names a mark."""
    return {mark: str(place) for place, mark in enumerate(marks(diagnosis), start=1)}

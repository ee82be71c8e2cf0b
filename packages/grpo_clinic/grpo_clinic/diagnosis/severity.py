"""How grave a finding is: a failure, or a note where it has done no harm that shows.

Hacking, instability and whatever a user's own diagnostic looks for are harm by what they are. Lost entropy, silent
groups and answers of another length are means to it: a policy that has settled on the right answer is certain too, a
run in which most groups are silent may still learn from the rest, and answers grow where a model learns to reason.
Answers that are cut off are one, too, but where the reward was gained all the same and no part of it lies still.
An entropy that explodes is a note, too, as long as the reward rises and nothing else explodes.
A standstill in a short log is a note: healthy runs have begun like that.
Where these stand alone they are notes as long as neither the reward nor the held-out result
has fallen from its best, and

- concentration and length: the reward stands in the upper half of its scale, or still rises;
- degeneracy: the reward still rises, or stands so high that silence is what independent right answers give.

These numbers grade a finding and say why; none of them decides whether there is one. Errors are those of white noise
from point to point.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from grpo_clinic.diagnosis.evidence import LENGTH, Finding
from grpo_clinic.diagnosis.excursions import noise_level
from grpo_clinic.diagnosis.outcomes import gain_of
from grpo_clinic.readers.record import Curve, Floats

Severity = Literal["failure", "note"]
_NO_CAUSE = ("stalled", "truncated_answers")
_MEANS = {
    "policy_concentration": "the entropy is lost",
    "advantage_degeneracy": "most groups are silent",
    LENGTH: "the answers have another length",
}
_HARM = {"collapsed": "a collapse", "diverging": "divergence"}
_FALL, _Z = 0.1, 2.0
"""Share of the climb that a fall must have to be harm, and standard errors of a fall or rise."""
_HIGH, _CLIMB = 0.5, 0.25
"""Share of the scale above which a reward is high, if it climbed by so much of it."""
_LEAST_RISE = 0.005
"""Share of the scale below which a rise, however sure, is none."""
YOUNG = 80
"""Rewards below which a standstill is a note: cut off at fewer, healthy runs of more than one public repository in
twenty are called stalled (`experiments/grading/clinic.py`)."""
_FEWEST = 8
_ROUNDING = 1e-9
"""Share of the range that is no fall or rise."""


def severities(findings: Sequence[Finding], curve: Curve) -> dict[str, tuple[Severity, str]]:
    """(grade, reason) of every finding that is present, by failure; harm by itself needs no reason."""
    present = [finding.failure for finding in findings if finding.present]
    spread = _spread_alone(findings, curve)
    causes = [name for name in present if name not in _MEANS and name not in _NO_CAUSE and name not in spread]
    harm = _HARM.get(causes[0], causes[0].replace("_", " ")) if causes else ""
    noted = {finding.failure: finding.note for finding in findings}
    grades = {name: _grade(name, curve, harm, noted[name]) if name in _MEANS else ("failure", "") for name in present}
    if "stalled" in present and curve.reward.size < YOUNG and np.ptp(curve.reward):
        grades["stalled"] = ("note", f"no gain in {curve.reward.size} rewards, which healthy runs may need as well")
    return grades | spread | ({"truncated_answers": _cut_off(curve)} if "truncated_answers" in present else {})


def _spread_alone(findings: Sequence[Finding], curve: Curve) -> dict[str, tuple[Severity, str]]:
    """Divergence that is an exploding entropy and nothing else, as long as the reward rises."""
    above = {
        one.metric for finding in findings if finding.failure == "diverging" for one in finding.evidence if one.above
    }
    if above != {"entropy_explosion"} or _fallen(curve.reward) or not _rising(curve.reward):
        return {}
    return {"diverging": ("note", "the entropy explodes, but the reward still rises")}


def _cut_off(curve: Curve) -> tuple[Severity, str]:
    still = [key for key, part in curve.parts.items() if part.value.size >= _FEWEST and not np.ptp(part.value)]
    if still:
        return "failure", f"nearly all answers are cut off, and '{still[0]}' never moves"
    if curve.reward.size >= 2 * 5 and gain_of(curve.reward).shows:
        return "note", "nearly all answers are cut off, but the reward was gained all the same"
    return "failure", "nearly all answers are cut off, and nothing shows a gain"


def _grade(failure: str, curve: Curve, harm: str, noted: str) -> tuple[Severity, str]:
    what = _MEANS[failure]
    if harm:
        return "failure", f"{what}, and there is {harm}"
    if not curve.reward.size:
        return "note", f"{what}; without a reward nobody can tell whether that is harm"
    if _fallen(curve.reward):
        return "failure", f"{what}, and the reward has fallen from its best"
    if curve.eval is not None and _fallen(curve.eval.value):
        return "failure", f"{what}, and the held-out result has fallen from its best"
    if noted:
        return "note", f"{what}, {noted}"
    if _rising(curve.reward) and _rise(curve) > _LEAST_RISE:
        return "note", f"{what}, but the reward still rises"
    if failure in ("policy_concentration", LENGTH) and _high(curve):
        return "note", f"{what}, but the reward holds in the upper half of its scale"
    return "failure", f"{what}, and the reward does not rise any more"


def _fallen(values: Floats) -> bool:
    """Whether the mean of the last fifth (at most 40 points) is below the best running mean of as many."""
    if values.size < _FEWEST:
        return False
    values = values - values[0]
    width = int(np.clip(values.size // 5, 3, 40))
    means = np.convolve(values, np.ones(width) / width, mode="valid")
    peak = int(means.argmax())
    fall, climb = float(means[peak] - means[-1]), float(means[peak] - means[: peak + 1].min())
    return fall > max(
        _FALL * climb, _Z * noise_level(values) * float(np.sqrt(2 / width)), _ROUNDING * float(np.ptp(values))
    )


def _rise(curve: Curve) -> float:
    """Share of the scale that the second half of the last half stands above its first."""
    first, last = np.array_split(curve.reward[curve.reward.size // 2 :], 2)
    return float(last.mean() - first.mean()) / max(curve.scale.high - curve.scale.low, 1e-12)


def _rising(reward: Floats) -> bool:
    """Whether a straight line through the last half rises."""
    if reward.size < _FEWEST:
        return False
    half = reward[reward.size // 2 :] - reward[0]
    x = np.linspace(-0.5, 0.5, half.size)
    scatter = float(np.sum(x * x))
    return float(np.sum(x * half)) / scatter > max(
        _Z * noise_level(reward) / float(np.sqrt(scatter)), _ROUNDING * float(np.ptp(half))
    )


def _high(curve: Curve) -> bool:
    width = max(curve.reward.size // 10, 3)
    span = max(curve.scale.high - curve.scale.low, 1e-12)
    first, last = ((float(r.mean()) - curve.scale.low) / span for r in (curve.reward[:width], curve.reward[-width:]))
    return last > _HIGH and (curve.scale.given or last - first > _CLIMB)

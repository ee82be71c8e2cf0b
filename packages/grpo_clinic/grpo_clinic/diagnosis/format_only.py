"""Format only: the answers take the right form, and in it they are wrong more often than right.

Where an answer counts as right only in the right form, the share of right answers is that of the form times the share
that is right in it. A reward whose gain is that of the form ends when the form is learned. The gain is split on a
logarithmic scale, where the two parts add up. The limits are halves, and the height that counts as learned elsewhere.
"""

import math
import re

import numpy as np

from grpo_clinic.diagnosis.coupling import TRUE_PART
from grpo_clinic.diagnosis.evidence import FORMAT_ONLY, Evidence, Finding
from grpo_clinic.readers.record import Curve, Floats, Series

LEARNED = 0.85
"""Share of the answers in the right form from which it is learned."""
LARGER = 0.5
"""Share of the gain that is the larger part of it; share of the answers in the right form that is most of them."""
EARLY = 20
"""Steps before which healthy public runs have learned the form and not yet the answer, too."""
_FORM = re.compile(r"format", re.IGNORECASE)
_FEWEST = 3


def judge(curve: Curve) -> Finding | None:
    """The last fifth against the first quarter, three rows at most; None without both shares on common steps, or where
    answers count as right in the wrong form too."""
    both = _shares(curve)
    if both is None:
        return None
    step, form, right, key = both
    first, last = slice(0, min(3, max(1, step.size // 4))), slice(-max(1, step.size // 5), None)
    (form_0, form_1), (right_0, right_1) = ((float(x[first].mean()), float(x[last].mean())) for x in (form, right))
    if min(form_0, right_0, right_1) <= 0 or form_0 >= LEARNED:
        return None
    inside_0, inside_1 = right_0 / form_0, right_1 / form_1
    by_form, by_rest = math.log(form_1 / form_0), max(math.log(inside_1 / inside_0), 0.0)
    share = by_form / (by_form + by_rest) if by_form > 0 else 0.0
    score = min(share / LARGER, form_1 / LEARNED, LARGER / inside_1)
    text = (
        f"'{key}' went from {form_0:.0%} to {form_1:.0%} and makes {share:.0%} of the gain; of the answers in the "
        f"right form {inside_0:.0%} were right, and {inside_1:.0%} are"
    )
    if score >= 1 and step[-1] - step[0] < EARLY and inside_1 >= inside_0:
        score, text = 0.99, f"{text}; in {step[-1] - step[0]:g} steps that is how healthy runs begin"
    also = f"and {LEARNED:.0%} of the answers in the right form, most of them wrong"
    window = (float(step[0]), float(step[-1]))
    return Finding(FORMAT_ONLY, score, (Evidence("share_of_the_format", window, share, LARGER, text, score, also),))


def _shares(curve: Curve) -> tuple[Floats, Floats, Floats, str] | None:
    """(steps [n], share in the right form [n], share of right answers [n], the form's key)."""
    forms = {key: part for key, part in curve.parts.items() if _FORM.search(key) and _is_share(part)}
    rights = {key: part for key, part in curve.parts.items() if TRUE_PART.search(key) and not _FORM.search(key)}
    for key, form in forms.items():
        for right in rights.values():
            step = np.intersect1d(form.step, right.step)
            inside, whole = right.at(step), form.at(step)
            if step.size >= _FEWEST and _is_share(right) and np.all(inside <= whole + 1e-9):
                return step, whole, inside, key
    return None


def _is_share(part: Series) -> bool:
    return bool(part.value.size and part.value.min() >= 0 and part.value.max() <= 1)

"""Policy concentration: the entropy of the policy has fallen to a small share of what it was."""

from dataclasses import replace

import numpy as np

from grpo_clinic.diagnosis.degeneracy import error_of
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Evidence, Finding
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Curve

_ERRORS, _BELOW = 2.0, 0.99
"""Standard errors by which the logarithm of a level must lie beyond its limit, and the score of one that does not."""
_FEWEST = 6
"""Values of the entropy, or rewards since it was lost, from which something is said of them."""


def judge(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    """Median entropy of the last tenth (at least three points) against the largest of the first three values.

    An entropy that is lost within the first few steps is not to be averaged away.
    """
    logged = curve.series.get("entropy")
    if logged is None or (finite := np.isfinite(logged.value)).sum() < _FEWEST:
        return Finding("policy_concentration", None, missing="no entropy is logged: concentration cannot be judged")
    entropy = replace(logged, step=logged.step[finite], value=logged.value[finite])
    count = max(3, entropy.value.size // 10)
    early, late = float(entropy.value[:3].max()), median(entropy.value[-count:])
    if early <= 0:
        return Finding("policy_concentration", None, missing="the logged entropy is not positive: it cannot be judged")
    share = max(late, 0.0) / early
    high = np.flatnonzero(entropy.value > settings.entropy_share * early)
    since = min(int(high[-1]) + 1 if high.size else 0, entropy.value.size - count)
    first = since if share <= settings.entropy_share else -count
    window = (float(entropy.step[first]), float(entropy.step[-1]))
    text = f"'{entropy.key}' fell from {early:.3g} to {late:.3g}" if share < 1 else f"'{entropy.key}' did not fall"
    if share <= settings.entropy_share:
        text += (
            f"; for good below {settings.entropy_share:.0%} of it since step {window[0]:g}{_since(curve, window[0])}"
        )
    score = settings.entropy_share / max(share, 1e-6)
    within = _ERRORS * error_of(np.log(np.maximum(entropy.value[-count:], 1e-300)))
    if score >= 1 and share * np.exp(within) > settings.entropy_share:
        text += f"; no further below than its error, a factor of {np.exp(within):.2g}"
        score = _BELOW
    evidence = Evidence("entropy_share", window, share, settings.entropy_share, text, score, "or below")
    return Finding("policy_concentration", score, (evidence,))


def _since(curve: Curve, step: float) -> str:
    """What the reward has done since: concentration is no harm by itself."""
    after = curve.reward[curve.step >= step]
    if after.size < _FEWEST:
        return ""
    part = max(after.size // 5, 3)
    return f", and the reward has moved by {after[-part:].mean() - after[:part].mean():+.2g} since"

"""Policy concentration: the entropy of the policy has fallen to a small share of what it was."""

import numpy as np

from bandit_lab.curves.diagnose.evidence import DiagnoseSettings, Evidence, Finding
from bandit_lab.curves.record import Curve


def judge(curve: Curve, settings: DiagnoseSettings) -> Finding:
    """Median entropy of the last tenth against that of the first tenth (at least three points each)."""
    entropy = curve.series.get("entropy")
    if entropy is None or entropy.value.size < 6:
        return Finding("policy_concentration", None, missing="no entropy is logged: concentration cannot be judged")
    count = max(3, entropy.value.size // 10)
    early, late = float(np.median(entropy.value[:count])), float(np.median(entropy.value[-count:]))
    if early <= 0:
        return Finding("policy_concentration", None, missing="the logged entropy is not positive: it cannot be judged")
    share = max(late, 0.0) / early
    window = (float(entropy.step[-count]), float(entropy.step[-1]))
    text = f"'{entropy.key}' fell from {early:.3g} to {late:.3g}" if share < 1 else f"'{entropy.key}' did not fall"
    evidence = Evidence("entropy_share", window, share, settings.entropy_share, text)
    return Finding("policy_concentration", settings.entropy_share / max(share, 1e-6), (evidence,))

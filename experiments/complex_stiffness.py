"""Is the stiffness of GRPO always real, and what is the law worth where it is not?

Prediction (written before the run). Divided by the group's std, three or more reward values make a drift that is no
gradient: its stiffness matrix beta F - s (grad h)^T is not symmetric (bandit_lab/theory/stiffness.py), and a pair of
eigenvalues |l| e^{+-i phi} can be complex. Without the std the drift is a gradient and every stiffness real. The
threshold of a complex pair lies where the marginal curve of the multipliers has the argument +-phi
(bandit_lab/theory/thresholds.py). It falls with phi for every staleness model, and as N (1 - mu) -> 0 it is
N (1 - mu)/tan^2(phi) of the law eta Re(l) N = 1 - mu of arXiv 2606.30789: no model is safe, model A included.
Setting: conf/experiment/complex_stiffness.yaml. Bandits are drawn by their fixed point, so that every one has it.
Measured: eigenvalues of the drift's derivative (automatic differentiation); for some complex cases with three arms the
smallest learning rate at which a displacement grows in runs of the nonlinear mean update. Drawn: share of bandits with
a complex stiffness against the number of arms; threshold over law against the argument.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from bandit_lab.study.figures.complex_stiffness.draw import draw
from bandit_lab.study.figures.complex_stiffness.measure import measure
from bandit_lab.study.figures.complex_stiffness.predict import predict
from bandit_lab.study.figures.complex_stiffness.read import half_a_bandit, least_over_law
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict"]

TITLE = "Complex stiffness"
SPECTRUM, THEORY = "derived in bandit_lab/theory/stiffness.py", "derived in bandit_lab/theory/thresholds.py"


def _share(name: str, statement: str, read: Callable[[Any], Any], fails_if: str) -> Claim:
    about = {"unit": "share", "fails_if": fails_if}
    return Claim.same(f"complex_stiffness.{name}", statement, SPECTRUM, read, half_a_bandit, **about)


def _unsafe(name: str, model: str, statement: str) -> Claim:
    return Claim(
        f"complex_stiffness.{name}",
        f"{statement}: smallest threshold over law of all cases",
        f"arXiv 2606.30789 (law); {THEORY}",
        predicted=lambda f: least_over_law(f, f.predicted, model),
        measured=lambda f: least_over_law(f, f.measured, model),
        tolerance=1e-3,
        relative=True,
        fails_if="the law were divided by wrongly",
        follows="complex_stiffness.threshold",
    )


CLAIMS = (
    # Not one bandit may be told otherwise: half a bandit, of those drawn.
    _share(
        "fewest_arms",
        "GRPO, the fewest arms: share of the bandits with a complex stiffness",
        lambda d: d.complex_share.sel(advantage="grpo")[0],
        "the drift's derivative told one bandit otherwise than the closed form",
    ),
    _share(
        "most_arms",
        "GRPO, the most arms: share of the bandits with a complex stiffness",
        lambda d: d.complex_share.sel(advantage="grpo")[-1],
        "the same with many arms, where eigenvalues lie close together",
    ),
    _share(
        "gradient",
        "Without the std (dr_grpo, rloo): share of the bandits whose stiffnesses are all real, the smallest over arms",
        lambda d: d.real_share.sel(advantage=["dr_grpo", "rloo"]).min(),
        "the drift without the std were no gradient at one bandit",
    ),
    # Eigenvalues of matrices that agree to rounding; near a double one a digit in two is lost.
    Claim.same(
        "complex_stiffness.argument",
        "GRPO: the largest argument of a stiffness over all bandits",
        SPECTRUM,
        lambda d: np.max(d.largest_argument.sel(advantage="grpo")),
        tolerance=1e-6,
        relative=True,
        unit="degrees",
        fails_if="the closed form of the stiffness matrix were another",
    ),
    # As in `stiffness`: growth over 150 periods resolves thresholds to 3e-4.
    Claim.ratio(
        "complex_stiffness.threshold",
        "Measured over predicted threshold, the farthest from 1 over all cases and loops",
        THEORY,
        lambda d: d.threshold,
        tolerance=1e-3,
        fails_if="the marginal curve had its argument elsewhere, or the nonlinear run lost stability otherwise",
        post_hoc="the scan was lowered after a first run had not bracketed the thresholds of one case",
    ),
    _unsafe("unsafe_a", "refresh", "Model A, careful for real stiffness, is not for complex ones"),
    _unsafe("unsafe_b", "lag", "Model B, close for real stiffness, is not for complex ones"),
    _unsafe("unsafe_c", "pipeline", "Model C, unsafe by up to 1.5 for real stiffness, is so by more for complex ones"),
)

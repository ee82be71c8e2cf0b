"""What does dividing by the group's std buy: how fast is the end reached, and what has the std to do with curvature?

Prediction (written before the run). Without KL two arms approach the vertex, time t = learning rate x steps and both
logits trained (bandit_lab/theory/two_arm.py): mean-only 1 - p -> 1/(2 t); divided by the std 4/(2 t)^2 at G = infinity;
a finite group follows that until G (1 - p) ~ 1, where most groups are silent, then 1/(2 sqrt(G - 1) t); with silent
groups dropped the loss falls exponentially, rate 2 sqrt(G - 1)/G. Along a direction u the curvature of the expected
reward is Cov(r, c^2), c = u.phi - E u.phi, hence at most B^2 sd(r) for |u.phi| <= B (after arXiv 2601.23135; the
constant is sharp: bandit_lab/theory/curvature.py), with equality for one logit at p (1 - p) = 1/8.

Setting: conf/experiment/normalisation.yaml. Measured: the exact mean update, step by step; second derivatives of the
expected reward. Drawn: loss against time; curvature against its bound.
"""

from bandit_lab._readings import farthest_from_one
from bandit_lab.study.figures.normalisation.draw import draw
from bandit_lab.study.figures.normalisation.measure import measure
from bandit_lab.study.figures.normalisation.predict import predict
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict"]

TITLE = "Dividing by the std: late rates and curvature"
DERIVED = "derived in bandit_lab/theory/two_arm.py"
CURVATURE = "after arXiv 2601.23135; derived in bandit_lab/theory/curvature.py"


def _exponent(curve: str, statement: str) -> Claim:
    return Claim.same(
        f"normalisation.exponent_{curve.split()[0]}_{curve.split()[-1]}",
        statement,
        DERIVED,
        lambda d: d.exponent.sel(curve=curve),
        tolerance=lambda f: f.setting.tolerance.exponent,
        fails_if="the exact loss had not reached its late law within the run",
        follows="normalisation.curves",
        constant="the late law of bandit_lab/theory/two_arm.py",
    )


CLAIMS = (
    _exponent("dr_grpo G = infinity", "Mean only: the loss falls like 1/t, d ln loss / d ln t over the last decade"),
    _exponent("grpo G = infinity", "Divided by the std, G = infinity: the loss falls like 1/t^2"),
    _exponent("grpo G = 8", "Divided by the std, G = 8: 1/t again once most groups are silent"),
    Claim(
        "normalisation.amplitude",
        "Late loss at G = 8 over 1/(2 sqrt(G - 1) t)",
        DERIVED,
        predicted=lambda f: 1.0,
        measured=lambda f: float((f.measured.loss / f.predicted.late_law).sel(curve="grpo G = 8")[-1]),
        tolerance=lambda f: f.setting.tolerance.amplitude,
        fails_if="the constant of the late law were another",
        follows="normalisation.curves",
    ),
    # the first quarter of the fitted range is not yet straight
    Claim.same(
        "normalisation.dropped",
        "Silent groups dropped, G = 8: exponential, rate 2 sqrt(G - 1)/G per learning rate x step",
        DERIVED,
        lambda d: d.rate.sel(curve="dapo G = 8"),
        tolerance=0.01,
        relative=True,
        unit="per learning rate x step",
        fails_if="the exact loss had another late rate",
        follows="normalisation.curves",
    ),
    Claim(
        "normalisation.curves",
        "All five curves: measured / exact loss, the farthest from 1",
        DERIVED,
        predicted=lambda f: 1.0,
        measured=lambda f: farthest_from_one(f.measured.loss, f.predicted.loss.where(f.measured.loss.notnull())),
        tolerance=lambda f: f.setting.tolerance.curve,
        fails_if="the mean update of a finite group, of silent groups or of dropped ones were another",
    ),
    # rounding where the two terms of the covariance nearly cancel
    Claim.ratio(
        "normalisation.curvature",
        "Curvature along a random direction is Cov(r, c^2): largest difference from 1 of measured / predicted",
        CURVATURE,
        lambda d: d.curvature,
        tolerance=1e-6,
        fails_if="differentiation and covariance disagreed at one of the random policies",
    ),
    # an ascent that ends 1e-3 off its maximum is 1e-6 below it
    Claim.same(
        "normalisation.bound",
        "Largest |curvature| / (B^2 sd of the reward) that an ascent finds from random policies, rewards, directions",
        CURVATURE,
        lambda d: d.largest_ratio,
        tolerance=1e-5,
        fails_if="one policy passed the bound, or none came near it",
        constant="the sharp bound of bandit_lab/theory/curvature.py",
    ),
    Claim.same(
        "normalisation.bound_place",
        "There the good arms have probability p with p (1 - p) =",
        CURVATURE,
        lambda d: d.spread_at_largest,
        tolerance=2e-3,
        fails_if="the largest ratio were reached at other policies too",
        constant="the case of equality in bandit_lab/theory/curvature.py",
    ),
)

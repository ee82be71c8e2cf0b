"""Does the largest stiffness alone set the stability threshold, whatever the bandit?

Prediction (written before the run). K is the largest eigenvalue of minus the Hessian of the objective at the fixed
point, in closed form (bandit_lab/theory/stiffness.py); the threshold is eta = kappa/K, with kappa(model, N, mu) of one
stiffness (bandit_lab/theory/thresholds.py). arXiv 2606.30789 has kappa = (1 - mu)/N instead. With the frozen estimator
each gradient is as old as its model says, so that the K - 1 directions of K arms decouple and the stiffest decides.
Setting: conf/experiment/stiffness.yaml. Measured: the Hessian by automatic differentiation, and the smallest learning
rate at which a displacement along the stiffest direction (found from the runs' own response) grows. Another
displacement also starts to grow there, but many softer directions hide it for longer. Drawn: threshold against
prediction for every bandit, and the relative error.
"""

import numpy as np

from bandit_lab.study.figures.stiffness.draw import draw
from bandit_lab.study.figures.stiffness.measure import measure
from bandit_lab.study.figures.stiffness.predict import predict
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict"]

TITLE = "Threshold from the Hessian"
THEORY = "derived in bandit_lab/theory/stiffness.py and thresholds.py"


CLAIMS = (
    # The fixed point is found to 1e-9 logits.
    Claim.ratio(
        "stiffness.hessian",
        "Largest eigenvalue of the measured Hessian over the closed form, the farthest from 1 over all bandits",
        "derived in bandit_lab/theory/stiffness.py",
        lambda d: d.stiffness,
        tolerance=1e-6,
        fails_if="the drift's derivative and the closed form disagreed for one bandit",
    ),
    # Brackets are 2^-13 of a scan step (a factor 1.26) wide, 3e-5; growth over 150 periods resolves thresholds to 3e-4.
    Claim.ratio(
        "stiffness.worst",
        "Measured over predicted threshold, the farthest from 1 over all bandits (three decades of thresholds)",
        THEORY,
        lambda d: d.threshold,
        tolerance=1e-3,
        fails_if="a softer direction, or the bandit's size, decided instead of the largest stiffness",
    ),
    Claim(
        "stiffness.median",
        "Median of the relative errors of the predicted thresholds, taken from 1",
        THEORY,
        predicted=lambda f: 1.0,
        measured=lambda f: 1 - float(np.abs(f.measured.threshold / f.predicted.threshold - 1).median()),
        tolerance=3e-5,
        fails_if="half of the bandits were off by more than the detector's bracket",
    ),
)

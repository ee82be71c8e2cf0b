"""Which detector "confirms" the law K eta N = 1 - mu: one that looks for overshoot, or one that looks for growth?

Prediction (written before the run). Law: kappa N = 1 - mu, kappa = K eta (arXiv 2606.30789). Derived in
bandit_lab/theory/thresholds.py, model A (refresh) at mu = 0: the displacement changes sign from kappa N = 1 and grows
from kappa N = 2. So the overshoot detector confirms the law there, at every N, and the growth detector finds twice it.
With momentum, and in the models B (lag) and C (pipeline), the law lies between the two or beyond both.
Setting: conf/experiment/two_detectors.yaml. Measured on the same runs of the nonlinear mean update: the smallest
learning rate whose dominant pole is not real and positive, the smallest whose overshoot can be seen (10^-6 of the
displacement), and the smallest at which a displacement grows. Drawn: all three over the law's learning rate.
"""

from bandit_lab._readings import farthest_from_one
from bandit_lab.study.figures.two_detectors.draw import draw
from bandit_lab.study.figures.two_detectors.measure import measure
from bandit_lab.study.figures.two_detectors.predict import predict
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict"]

TITLE = "Two detectors, one law"


TWICE = 2.0
PLAIN_A, PLAIN_C = ({"model": model, "momentum": 0.0} for model in ("refresh", "pipeline"))
MOMENTUM_A = {"model": "refresh", "momentum": 0.9, "refresh_interval": 16}
THEORY = "derived in bandit_lab/theory/thresholds.py"


# Brackets are 2^-13 of a grid step (a factor 1.46) wide, 5e-5; growth over 150 periods resolves a threshold to 3e-4.
CLAIMS = (
    Claim(
        "two_detectors.overshoot_confirms_law",
        "Model A without momentum: overshoot is seen from the law's learning rate on, at every refresh interval",
        f"arXiv 2606.30789; {THEORY}",
        predicted=lambda f: 1.0,
        measured=lambda f: farthest_from_one(f.measured.overshoot.sel(PLAIN_A), f.predicted.law.sel(PLAIN_A)),
        tolerance=1e-3,
        fails_if="an overshoot of 10^-6 were seen earlier or later than the sign change of the multiplier",
    ),
    Claim(
        "two_detectors.growth_finds_twice",
        "Model A without momentum: displacements grow only from twice the law's learning rate on",
        THEORY,
        predicted=lambda f: TWICE,
        measured=lambda f: (
            TWICE * farthest_from_one(f.measured.threshold.sel(PLAIN_A), TWICE * f.predicted.law.sel(PLAIN_A))
        ),
        tolerance=2e-3,
        fails_if="the exact threshold without momentum were not twice the law",
        follows="two_detectors.threshold_exact",
        constant="the flip at kappa N = 2 in bandit_lab/theory/thresholds.py",
    ),
    Claim(
        "two_detectors.growth_confirms_law_of_c",
        "Model C without momentum: displacements grow from the law's learning rate on",
        THEORY,
        predicted=lambda f: 1.0,
        measured=lambda f: farthest_from_one(f.measured.threshold.sel(PLAIN_C), f.predicted.law.sel(PLAIN_C)),
        tolerance=1e-3,
        fails_if="the exact threshold of model C without momentum were not the law",
        follows="two_detectors.threshold_exact",
    ),
    Claim(
        "two_detectors.momentum_overshoot_before_law",
        "Model A, momentum 0.9, N = 16: oscillation begins at this multiple of the law's learning rate, far below it",
        THEORY,
        predicted=lambda f: float((f.predicted.onset / f.predicted.law).sel(MOMENTUM_A)),
        measured=lambda f: float((f.measured.onset / f.predicted.law).sel(MOMENTUM_A)),
        tolerance=1e-3,
        relative=True,
        fails_if="the law were divided by wrongly",
        follows="two_detectors.onset_exact",
    ),
    Claim(
        "two_detectors.momentum_growth_beyond_law",
        "Model A, momentum 0.9, N = 16: displacements grow from this multiple of the law's learning rate on",
        THEORY,
        predicted=lambda f: float((f.predicted.threshold / f.predicted.law).sel(MOMENTUM_A)),
        measured=lambda f: float((f.measured.threshold / f.predicted.law).sel(MOMENTUM_A)),
        tolerance=1e-3,
        relative=True,
        fails_if="the law were divided by wrongly",
        follows="two_detectors.threshold_exact",
    ),
    Claim.ratio(
        "two_detectors.onset_exact",
        "The measured onset of oscillation is the exact one in models A, B, C at every refresh interval and momentum",
        THEORY,
        lambda d: d.onset,
        tolerance=1e-3,
        fails_if="the dominant pole of one model left the positive real axis elsewhere",
    ),
    Claim.ratio(
        "two_detectors.threshold_exact",
        "The measured threshold is the exact one in models A, B, C at every refresh interval and momentum",
        THEORY,
        lambda d: d.threshold,
        tolerance=1e-3,
        fails_if="the same bandit had other thresholds than in the phase diagram",
        follows="phase_diagram.a_exact, b_exact, c_exact",
    ),
)

"""Which advantage, estimator and staleness model has which refresh-interval threshold, and what else tells them apart?

Prediction (written before the run). Near the fixed point a variant is its fresh and its stale stiffness
(bandit_lab/theory/stiffness.py); multipliers of the block map (block_map.py) tell from which refresh interval on it is
unstable, if from any: `frozen` always, importance ratios at most where the std is stale. Clips act at no fixed point.
Law: K eta N = 1 - mu (arXiv 2606.30789). Temperature: variance of the gradient of the gap times G (gradient_noise.py).
Late times: 1 - p ~ t^a without KL term, rewards 1 and 0, G = infinity (two_arm.py). G moves the fixed point by c_G(J).
Setting: conf/experiment/variants_map.yaml; each variant's learning rate is such that the law allows the same refresh
interval to all. Measured on the nonlinear mean update at G = infinity, a staleness model per program.
Drawn: the first refresh interval from which a displacement grows.
"""

from bandit_lab.study.figures.variants_map.draw import draw
from bandit_lab.study.figures.variants_map.measure import measure
from bandit_lab.study.figures.variants_map.predict import predict
from bandit_lab.study.figures.variants_map.read import frozen_ratio, loops
from bandit_lab.study.figures.variants_map.table import table
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict", "table"]

TITLE = "Map of variants"


THEORY = "derived in bandit_lab/theory/stiffness.py, block_map.py"


# Tolerances: intervals are whole numbers; a variance of n draws scatters by sqrt(2/n) or so; drifts are exact.
CLAIMS = (
    Claim(
        "variants_map.thresholds",
        "Linear loops (stale share of the stiffness, staleness model) with a threshold: in so many every variant that "
        "has this loop is unstable from the predicted interval on",
        f"arXiv 2606.30789; {THEORY}",
        predicted=lambda f: float(f.predicted.loops_with_threshold),
        measured=lambda f: loops(f, 1),
        tolerance=0.5,
        unit="loops",
        fails_if="one variant of a loop were unstable at another interval",
    ),
    Claim(
        "variants_map.no_threshold",
        "Linear loops that are stable at every interval tried, against the law: in so many every variant is",
        THEORY,
        predicted=lambda f: float(f.predicted.loops_without),
        measured=lambda f: loops(f, 0),
        tolerance=0.5,
        unit="loops",
        fails_if="a clip or a ratio brought one variant of a loop a threshold",
    ),
    Claim(
        "variants_map.temperature",
        "Temperature of every advantage (estimators that act alike on policy): variance of the gradient times G",
        "derived in bandit_lab/theory/gradient_noise.py",
        predicted=lambda f: 1.0,
        measured=lambda f: frozen_ratio(f, "temperature"),
        tolerance=lambda f: f.setting.tolerance.noise,
        fails_if="the covariance of one advantage's gradient were another",
    ),
    Claim(
        "variants_map.late_exponent",
        "Late times without KL term at G = infinity: the exponent of 1 - p in every advantage",
        "derived in bandit_lab/theory/two_arm.py",
        predicted=lambda f: 1.0,
        measured=lambda f: frozen_ratio(f, "late_exponent"),
        tolerance=1e-6,
        fails_if="the drift of one advantage near the vertex were another",
    ),
    Claim(
        "variants_map.group_shift",
        "grpo: expected reward that the mean curve ends at with groups of 8, less that of infinite groups",
        "derived in bandit_lab/theory/group_law.py",
        predicted=lambda f: float(f.predicted.group_shift.sel(advantage="grpo")),
        measured=lambda f: float(f.measured.group_shift.sel(advantage="grpo", estimator="frozen")),
        tolerance=1e-3,
        relative=True,
        unit="reward",
        fails_if="finite groups had another fixed point than c_G(J) gives",
    ),
)

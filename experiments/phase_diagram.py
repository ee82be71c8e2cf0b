"""When does a run become unstable, and is K eta N < 1 - mu the right condition?

Prediction (written before the run). Law: kappa N = 1 - mu, kappa = K eta, with N the refresh interval (K_ref of arXiv
2606.30789) and K the largest stiffness at the fixed point. It does not say how a policy becomes stale; exactly, derived
in bandit_lab/theory/thresholds.py for one stiffness and heavy ball:
model A (refresh: the gradient is taken at the policy of the last refresh, ages 0 to N - 1) loses stability at twice
the law or later, for N >= 2 at most 5.7 times; model B (lag: always N steps old) between 1 and pi/2 times; model C
(pipeline: ages N to 2 N - 1) between 2/3 and 1 times, exactly there without momentum.
Setting: conf/experiment/phase_diagram.yaml. Measured: the smallest learning rate at which a small displacement from
the fixed point grows, in runs of the nonlinear mean update (its brackets are far smaller than the markers). Drawn: law,
exact, measured; below, thresholds over the law's. What noise does to the boundary: experiments/temperature.py.
"""

from bandit_lab.study.figures.phase_diagram.draw import draw
from bandit_lab.study.figures.phase_diagram.measure import measure
from bandit_lab.study.figures.phase_diagram.predict import predict
from bandit_lab.study.figures.phase_diagram.problem import LONG
from bandit_lab.study.figures.phase_diagram.read import over_law
from bandit_lab.study.figures.phase_diagram.table import table
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict", "table"]

TITLE = "Stability threshold of refresh, lag and pipeline"
THEORY = "derived in bandit_lab/theory/thresholds.py"
ON_POLICY = {"model": "refresh", "momentum": 0.9, "refresh_interval": 1}


def _exactly(letter: str, model: str) -> Claim:
    # Brackets are 2^-13 of a grid step (a factor 1.28) wide, 3e-5; growth over 150 periods resolves thresholds to 3e-4.
    return Claim.ratio(
        f"phase_diagram.{letter}_exact",
        f"{LONG[model]}: measured / exact threshold, the farthest from 1 over all N and momenta",
        THEORY,
        lambda d: d.threshold.sel(model=model),
        tolerance=1e-3,
        fails_if="the nonlinear run lost stability elsewhere at one refresh interval and momentum",
    )


def _extreme(name: str, model: str, which: str, statement: str) -> Claim:
    # what the law's factor is on this grid: numbers to quote
    return Claim(
        f"phase_diagram.{name}",
        f"{LONG[model]}: {statement}",
        f"arXiv 2606.30789 (law); {THEORY}",
        predicted=lambda f: float(getattr(over_law(f.predicted, f, model), which)()),
        measured=lambda f: float(getattr(over_law(f.measured, f, model), which)()),
        tolerance=1e-3,
        relative=True,
        fails_if="the law were divided by wrongly",
        follows=f"phase_diagram.{name[0]}_exact",
    )


CLAIMS = (
    _exactly("a", "refresh"),
    _exactly("b", "lag"),
    _exactly("c", "pipeline"),
    _extreme("a_careful_least", "refresh", "min", "the law is careful, N >= 2: smallest factor on the grid"),
    _extreme(
        "a_careful_most", "refresh", "max", "the law is careful, N >= 2: largest factor on the grid (5.7 over all mu)"
    ),
    _extreme("b_least", "lag", "min", "smallest factor from the law to the threshold (N = 1)"),
    _extreme("b_most", "lag", "max", "the law is careful: largest factor on the grid (pi/2 for N to infinity)"),
    _extreme("c_unsafe_least", "pipeline", "min", "the law is unsafe: smallest factor on the grid (2/3 at worst)"),
    _extreme("c_most", "pipeline", "max", "largest factor from the law to the threshold (without momentum)"),
    Claim(
        "phase_diagram.a_on_policy",
        "Model A at N = 1 is on-policy and stable up to 2 (1 + mu)/(1 - mu) times the law, here at momentum 0.9",
        THEORY,
        predicted=lambda f: 2 * (1 + ON_POLICY["momentum"]) / (1 - ON_POLICY["momentum"]),
        measured=lambda f: float((f.measured.threshold / f.predicted.law).sel(ON_POLICY)),
        tolerance=1e-3,
        relative=True,
        fails_if="the closed form of one step were not that of the block map",
        follows="phase_diagram.a_exact",
        constant="the closed form 2 (1 + mu)/(1 - mu) of bandit_lab/theory/thresholds.py",
    ),
)

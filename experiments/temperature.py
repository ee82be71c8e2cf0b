"""What raises the temperature of a run, and does its fluctuation tell of a threshold in time?

Prediction: noise enters as a temperature eta s^2/(2 lambda (1 - mu)), s^2 ~ 1/G (arXiv 2606.30789). One batch used for
a whole block of N updates is one draw that enters N times: N times the variance of fresh samples at small steps, at
block points; exactly, the closed form of bandit_lab/theory/stationary.py, with momentum less than N times. Variance
over learning rate grows without bound towards the exact threshold, like 1/(1 - share of the threshold): the learning
rate at which it has doubled is a warning, what is left to the threshold from there its lead (theory/fluctuation.py).
A learning rate that rises evenly and slowly to the threshold in T steps arrives there lead x T steps after the warning.

Setting: conf/experiment/temperature.yaml. Measured: the threshold by growth of a displacement; variances over sampled
runs at shares of that threshold. Drawn: variance of reused over fresh batches, variance against share, lead against N.
"""

from bandit_lab.study.figures.temperature.draw import draw
from bandit_lab.study.figures.temperature.measure import measure
from bandit_lab.study.figures.temperature.predict import predict
from bandit_lab.study.figures.temperature.read import corner
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict"]

TITLE = "Batch reuse as temperature; variance as a warning"


FLUCTUATION = "bandit_lab/theory/fluctuation.py"
CLAIMS = (
    # the boundary is refined to 2^-13 of a step of the scan and read from a displacement of finite size: 1e-4
    Claim.ratio(
        "temperature.threshold",
        "The measured threshold is the exact one of model A: farthest ratio over N and momentum",
        "bandit_lab/theory/thresholds.py",
        lambda d: d.threshold,
        tolerance=1e-3,
        fails_if="the threshold depended on more than the stiffness: another bandit than in the phase diagram",
    ),
    Claim.ratio(
        "temperature.n_fold",
        "Without momentum, one batch for a block has N times the variance of fresh samples at every learning rate: "
        "farthest ratio over N",
        "bandit_lab/theory/stationary.py",
        lambda d: d.reuse_over_fresh[d.momentum.values == 0],
        tolerance=lambda f: f.setting.tolerance.ratio,
        fails_if="a batch that is used again did not enter as one draw",
    ),
    Claim.same(
        "temperature.small_steps",
        "With momentum 0.9 it is N times at small steps (a tenth of the threshold, smallest N)",
        "bandit_lab/theory/stationary.py",
        lambda d: d.reuse_over_fresh[d.momentum.values == 0.9][0, 0],
        tolerance=lambda f: f.setting.tolerance.ratio,
        relative=True,
        fails_if="momentum averaged over blocks also at small steps",
    ),
    Claim.same(
        "temperature.less_with_momentum",
        "With momentum 0.9 it is less: variance over N times that of fresh samples, largest N and share",
        "bandit_lab/theory/stationary.py",
        lambda d: corner(d, "reuse_per_interval", 0.9),
        tolerance=lambda f: f.setting.tolerance.ratio,
        relative=True,
        fails_if="it were N times with momentum too",
    ),
    Claim.ratio(
        "temperature.variance",
        "Stationary variance up to 0.9 of the threshold: farthest ratio to the Lyapunov equation",
        "bandit_lab/theory/stationary.py",
        lambda d: d.variance,
        tolerance=lambda f: f.setting.tolerance.variance,
        fails_if="the Lyapunov equation were wrong near the threshold, or the policy not linear over the fluctuation",
    ),
    Claim.same(
        "temperature.diverges",
        "N = 1, no momentum: variance over learning rate grows from 0.1 to 0.9 of the threshold by 0.9/0.1",
        FLUCTUATION,
        lambda d: corner(d, "growth", 0.0, first=True),
        tolerance=lambda f: f.setting.tolerance.growth,
        relative=True,
        fails_if="1/(1 - share) were not the closed form at N = 1",
        follows="temperature.variance",
    ),
    # the growth is known to 2 % (5 %) and rises like share^1.5 and faster where it is read: lead to 0.01 (0.02)
    Claim.same(
        "temperature.lead",
        "No momentum, largest N: share of the threshold that is left when variance over learning rate has doubled",
        FLUCTUATION,
        lambda d: corner(d, "lead", 0.0),
        tolerance=lambda f: f.setting.tolerance.lead,
        fails_if="the share were read off the variances wrongly",
        follows="temperature.variance",
    ),
    Claim.same(
        "temperature.lead_with_momentum",
        "Momentum 0.9, largest N: the same share",
        FLUCTUATION,
        lambda d: corner(d, "lead", 0.9),
        tolerance=lambda f: f.setting.tolerance.lead,
        fails_if="the share were read off the variances wrongly",
        follows="temperature.variance",
    ),
)

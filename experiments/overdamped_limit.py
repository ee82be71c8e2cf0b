"""When is the reward curve a single exponential, and what do its three numbers then mean?

Prediction (written before the run). Near the fixed point heavy ball is m x'' + gamma x' + lambda x = 0 with damping
ratio zeta = gamma/(2 sqrt(m lambda)) (arXiv 2606.30789; bandit_lab/theory/oscillator.py, step by step in discrete.py).
From rest the closed form stays within e = 1/(4 zeta^2) of exp(-t/tau), tau = gamma/lambda = (1 - mu)/(eta lambda), as
zeta grows: their difference is e [(1 - s) exp(-s) - exp(-s/e)] + O(e^2), s = t/tau (derived here). A fit of the single
exponential returns the fixed point as plateau, over-damped also the inverse stiffness as time scale, and over a family
with stiffness ~ size^-a the size exponent a (bandit_lab/theory/size_family.py). Far from the fixed point softmax bends
the curve: the time scale is then that of the bent curve, by the same factor at every size.
Setting: conf/experiment/overdamped_limit.yaml. Measured: runs of the mean update, with noise added the fits of
bandit_lab.curves. Drawn: curves, their distance to the exponential, fitted time scales against damping and size.
"""

import numpy as np

from bandit_lab._readings import farthest_from_one
from bandit_lab.study.figures.overdamped_limit.draw import draw
from bandit_lab.study.figures.overdamped_limit.measure import measure
from bandit_lab.study.figures.overdamped_limit.predict import predict
from bandit_lab.study.figures.overdamped_limit.read import exponent_error, family_error, over_damped
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict"]

TITLE = "The single exponential as the over-damped limit"


SOURCE = "arXiv 2606.30789; derived in bandit_lab/theory/oscillator.py"
DRAFTED = "the tolerance was written after a first draft"
CLAIMS = (
    # nonlinearity: the displacement of 10^-5 over the smallest distance, 0.0035
    Claim.ratio(
        "overdamped_limit.distance_exact",
        "The curve of the mean update leaves the exponential by what the step-by-step form says, at any damping",
        "derived in bandit_lab/theory/discrete.py",
        lambda d: d.distance,
        tolerance=1e-3,
        fails_if="the mean update near the fixed point were no heavy ball with this stiffness",
        post_hoc=DRAFTED,
    ),
    # relative error of order 1 - mu = 0.02 in the time of a step
    Claim(
        "overdamped_limit.distance_closed_form",
        "The closed form of the paper, continuous in time, gives the same distance",
        SOURCE,
        predicted=lambda f: 1.0,
        measured=lambda f: farthest_from_one(f.measured.distance, f.predicted.distance_closed_form),
        tolerance=0.03,
        fails_if="the error of continuous time were not of order 1 - mu",
        follows="overdamped_limit.distance_exact",
        post_hoc=DRAFTED,
    ),
    # 4 times the small quantity itself
    Claim(
        "overdamped_limit.leading_order",
        "At the largest damping ratio the distance is that of leading order, which tends to 1/(4 zeta^2) of the gain",
        "derived in experiments/overdamped_limit.py",
        predicted=lambda f: float(f.predicted.distance_leading[0]),
        measured=lambda f: float(f.measured.distance[0]),
        tolerance=lambda f: 1.0 / float(f.predicted.damping_ratio[0]) ** 2,
        relative=True,
        fails_if="1/(4 zeta^2) were not the leading order",
        follows="overdamped_limit.distance_exact",
        post_hoc=DRAFTED,
    ),
    # misfit 0.003, and 5 standard errors of a median of 100 plateaus known to 0.013
    Claim(
        "overdamped_limit.plateau",
        "Over-damped (zeta >= 2), near the fixed point: the fitted plateau is the fixed point",
        SOURCE,
        predicted=lambda f: float(f.predicted.plateau),
        measured=lambda f: over_damped(f, "fitted_plateau"),
        tolerance=0.012,
        unit="of the gain",
        fails_if="the fit of noisy points were biased by more than its stated misfit",
        post_hoc=DRAFTED,
        constant="the fixed point, in units of the gain",
    ),
    # misfit 0.03, and 5 standard errors of a median of 100 times known to 0.06
    Claim(
        "overdamped_limit.time_scale",
        "Over-damped (zeta >= 2), near the fixed point: the fitted time scale is (1 - mu)/(eta lambda)",
        SOURCE,
        predicted=lambda f: float(f.predicted.time),
        measured=lambda f: over_damped(f, "fitted_time"),
        tolerance=0.07,
        unit="(1 - mu)/(eta lambda)",
        fails_if="the fitted time were not the inverse stiffness",
        post_hoc=DRAFTED,
        constant="the inverse stiffness, its own unit",
    ),
    Claim(
        "overdamped_limit.bending",
        "From the uniform policy the fitted time scale is shorter than the inverse stiffness: softmax bends the curve",
        "bandit_lab/theory/two_arm.py, slow_start.py",
        predicted=lambda f: float(f.predicted.bending),
        measured=lambda f: float(np.median(f.measured.family_time / f.predicted.inverse_stiffness)),
        tolerance=lambda f: 5 * float(np.max(family_error(f))),
        relative=True,
        unit="(1 - mu)/(eta lambda)",
        fails_if="the fit read another time off the exact bent curve",
        post_hoc=DRAFTED,
    ),
    Claim.same(
        "overdamped_limit.size_exponent",
        "Fitted times over a family with stiffness ~ M^-0.3 grow with the curvature's exponent, bent curve or not",
        "arXiv 2606.30789; derived in bandit_lab/theory/size_family.py",
        lambda d: d.exponent,
        tolerance=lambda f: 5 * exponent_error(f),
        fails_if="bending or noise changed the times of some sizes more than of others",
        post_hoc=DRAFTED,
    ),
    # misfit 0.002; 5 standard errors of a median of 40 plateaus known to 0.008
    Claim(
        "overdamped_limit.family_plateau",
        "The fitted plateau of every size is the fixed point's reward, over the family's scale of rewards",
        SOURCE,
        predicted=lambda f: float(f.predicted.fixed_point),
        measured=lambda f: (
            float(f.predicted.fixed_point) * farthest_from_one(f.measured.family_plateau, f.predicted.fixed_point)
        ),
        tolerance=0.01,
        unit="reward",
        fails_if="the fit of bent curves missed the plateau of one size",
        post_hoc=DRAFTED,
    ),
    # spread of R^2 over curves 0.005; the fit weighs neighbours as correlated, not as white noise
    Claim.same(
        "overdamped_limit.r_squared_is_blind",
        "An oscillation of damping ratio 0.25, logged to 6 (1 - mu)/(eta lambda), is fitted by the exponential too",
        "derived in experiments/overdamped_limit.py",
        lambda d: d.r_squared[-1],
        tolerance=0.02,
        unit="R^2",
        fails_if="a fit of the exponential showed an oscillation in its R^2",
        post_hoc=DRAFTED,
    ),
)

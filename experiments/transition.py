"""How does a run go from over-damped to oscillatory, and where?

Prediction (written before the run). arXiv 2606.30789 reads training as an oscillator m x'' + gamma x' + K x = 0. Here
m = mu/eta, gamma = (1 - mu)/eta - K lag (derived in bandit_lab/theory/oscillator.py), with damping ratio
gamma/(2 sqrt(m K)). Exactly, step by step, the displacement is a sum of two powers of the poles z1, z2
(bandit_lab/theory/discrete.py, with a lag block_map.py); with s = log z the damping ratio is -(s1 + s2)/(2 sqrt(s1 s2))
and the frequency |Im s|. On-policy the poles meet at kappa = eta K = (1 - sqrt(mu))^2: critical damping.
Setting: conf/experiment/transition.yaml. Measured: mean reward of runs displaced by +-0.02 logits (half their
difference), and the poles of a linear recurrence fitted to the displacement (none where the second pole has died out
before it can be read). Drawn: trajectories with the closed form
over them; damping ratio and frequency through the transition, in learning rate and in momentum.
"""

import numpy as np

from bandit_lab.study.figures.transition.draw import draw
from bandit_lab.study.figures.transition.measure import measure
from bandit_lab.study.figures.transition.predict import predict
from bandit_lab.study.figures.transition.problem import REGIMES
from bandit_lab.study.figures.transition.read import both_sweeps, lost_damping
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict"]

TITLE = "From over-damped to oscillatory"
THEORY = "derived in bandit_lab/theory/discrete.py and block_map.py"


def _trajectory_claim(regime: str, label: str) -> Claim:
    # Half the difference of two opposite runs leaves an error of third order: 0.04^2 of the gap.
    return Claim(
        f"transition.{regime}",
        f"The closed form lies over the {label} trajectory: 1 less their largest difference over the displacement",
        "arXiv 2606.30789; derived in bandit_lab/theory/discrete.py",
        predicted=lambda f: 1.0,
        measured=lambda f: 1 - float(abs(f.measured.trajectory - f.predicted.trajectory).sel(regime=regime).max()),
        tolerance=2e-3,
        fails_if="the reward of displaced runs did not follow the two poles from the first step on",
    )


CLAIMS = (
    *(_trajectory_claim(regime, label) for regime, (label, _) in REGIMES.items()),
    # Poles that meet are resolved to the square root of the rounding error of a displacement of 2e-5: 1e-5.
    Claim(
        "transition.damping_ratio",
        "Measured over predicted damping ratio, the farthest from 1 over both sweeps and both lags",
        THEORY,
        predicted=lambda f: 1.0,
        measured=lambda f: both_sweeps(f, "damping_ratio", np.inf),
        tolerance=1e-3,
        fails_if="a pole of the real update was another at one learning rate, momentum or lag",
    ),
    Claim(
        "transition.frequency",
        "Measured over predicted frequency where the damping ratio is below 0.9, the farthest from 1",
        THEORY,
        predicted=lambda f: 1.0,
        measured=lambda f: both_sweeps(f, "frequency", 1 / f.setting.clear),
        tolerance=1e-3,
        fails_if="the angle of a pole were another there",
    ),
    Claim.ratio(
        "transition.onset",
        "Learning rate at which oscillation sets in, measured over predicted, the farthest from 1",
        "derived in bandit_lab/theory/thresholds.py",
        lambda d: d.onset,
        tolerance=1e-3,
        fails_if="the dominant pole left the real axis elsewhere",
    ),
    # A cubic through points 0.03 apart.
    Claim.same(
        "transition.onset_in_momentum",
        "Momentum at which oscillation sets in on-policy, at learning rate times stiffness 0.02: (1 - sqrt(0.02))^2",
        "derived in bandit_lab/theory/discrete.py",
        lambda d: d.critical_momentum,
        tolerance=1e-3,
        relative=True,
        fails_if="(1 - sqrt(kappa))^2 were not where the poles meet",
        follows="transition.damping_ratio",
    ),
    Claim(
        "transition.oscillator_onset",
        "The oscillator with mass mu/eta puts the on-policy onset at momentum 0.9 too high by (1 + sqrt(mu))^2/(4 mu)",
        "arXiv 2606.30789 (oscillator); derived in bandit_lab/theory/oscillator.py",
        predicted=lambda f: float(
            (f.predicted.oscillator_onset / f.predicted.onset.sel(lag=0)).sel(onset_momentum=0.9)
        ),
        measured=lambda f: float((f.predicted.oscillator_onset / f.measured.onset.sel(lag=0)).sel(onset_momentum=0.9)),
        tolerance=1e-3,
        relative=True,
        fails_if="the oscillator's critical damping were another",
        follows="transition.onset",
    ),
    Claim(
        "transition.lag_erodes_damping",
        "A lag of 4 steps takes this much off the damping ratio, at momentum 0.9 in the middle of the sweep",
        THEORY,
        predicted=lambda f: lost_damping(f.predicted, f),
        measured=lambda f: lost_damping(f.measured, f),
        tolerance=1e-3,
        relative=True,
        fails_if="the difference of two damping ratios were formed wrongly",
        follows="transition.damping_ratio",
    ),
    # The oscillator is of leading order in lag * (1 - mu) = 0.4 and in the learning rate.
    Claim(
        "transition.lag_erodes_damping_oscillator",
        "The same as the oscillator has it, lag * sqrt(kappa/mu)/2",
        "arXiv 2606.30789; derived in bandit_lab/theory/oscillator.py",
        predicted=lambda f: lost_damping(f.predicted, f, "oscillator_"),
        measured=lambda f: lost_damping(f.measured, f),
        tolerance=0.25,
        relative=True,
        fails_if="the oscillator's leading order were off by more than a quarter",
        follows="transition.damping_ratio",
        explanation="The oscillator is of leading order in the lag; the exact poles are what is measured.",
    ),
)

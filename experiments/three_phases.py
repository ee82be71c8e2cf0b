"""When does dividing by the group's std speed learning up, by how much, and in which phase of training?

Prediction (written before the run). Derived in bandit_lab/theory/contextual.py: the mean flow of a log-linear policy
on many prompts, from features, difficulties and the group law alone, gives the time to 90 % success with the advantages
of GRPO and Dr. GRPO at one learning rate, and so the gain; dividing multiplies the speed by a mean of 1/sigma over
prompts. arXiv 2601.23135: the gain is set by the within-prompt std, averaged over prompts and iterations (read here as
gain = 1/average std), while prompt gradients are orthogonal; loss of orthogonality limits it; its curvature argument: a
prompt's curvature along its gradient, here c J (1-J)(1-2J), is at most c sigma/4.
Setting: conf/experiment/three_phases.yaml. Measured: sampled groups, mean over seeds. A stage is a part of the way from
the start to 90 %; its speed ratio is the time of Dr. GRPO over that of GRPO. A std is at most 1/2, so that below 2 GRPO
is slower than Dr. GRPO at twice the learning rate. Our own rule, compared at equal budget and each one's best learning
rate: divide by std^a, a = 1 - mean |cosine| of the prompt gradients at the start, rounded to the powers that are run.
"""

import numpy as np

from bandit_lab._readings import farthest_from_one, slope_and_correlation
from bandit_lab.study.figures.three_phases.draw import draw
from bandit_lab.study.figures.three_phases.measure import measure
from bandit_lab.study.figures.three_phases.predict import predict
from bandit_lab.study.figures.three_phases.read import curvature_constant, gain_times_std
from bandit_lab.study.figures.three_phases.table import table
from bandit_lab.study.reproduce.experiment import Claim

__all__ = ["CLAIMS", "TITLE", "draw", "measure", "predict", "table"]

TITLE = "What dividing by the std does"


FLOW = "derived in bandit_lab/theory/contextual.py"


# Tolerances: a time to the target scatters by 1 % (8 to 16 seeds), so means over problems by less, and the slope by
# about 0.05 (16 problems), 0.03 (60); a stage's ratio by 5 % per draw; the learning rate is off the flow by 1 %.
CLAIMS = (
    Claim(
        "three_phases.gain",
        "Mean gain in time to 90 % success from dividing by the std, over random problems, is that of the mean flow",
        FLOW,
        predicted=lambda f: float(f.predicted.gain.where(np.isfinite(f.measured.gain)).mean()),
        measured=lambda f: float(f.measured.gain.where(np.isfinite(f.predicted.gain)).mean()),
        tolerance=0.03,
        relative=True,
        fails_if="finite steps or noise moved the times of both rules differently",
    ),
    Claim(
        "three_phases.gain_slope",
        "Problem by problem: measured gain rises with the mean flow's with slope 1",
        FLOW,
        predicted=lambda f: 1.0,
        measured=lambda f: slope_and_correlation(f.predicted.gain.values, f.measured.gain.values)[0],
        tolerance=lambda f: f.setting.tolerance.slope,
        fails_if="the flow had the mean gain but not the differences between problems",
    ),
    Claim(
        "three_phases.gain_is_inverse_std",
        "In each quarter of the problems, sorted by their std, the gain is 1/std, the std averaged over prompts and "
        "iterations: mean of gain x std, the farthest from 1",
        "arXiv 2601.23135, read as an equality at one learning rate",
        predicted=lambda f: 1.0,
        measured=lambda f: farthest_from_one(gain_times_std(f), 1.0),
        tolerance=0.1,
        fails_if="gain x std had a trend; its mean over all problems is 1 by the choice of their difficulties",
        post_hoc="quarters were taken after the mean over all problems had hidden the trend",
        explanation="gain x std rises with the std: the gain differs less between problems than 1/std",
    ),
    Claim(
        "three_phases.gain_follows_inverse_std",
        "Problem by problem: measured gain rises with 1/std with slope 1",
        "arXiv 2601.23135, read as an equality at one learning rate",
        predicted=lambda f: 1.0,
        measured=lambda f: slope_and_correlation(1 / f.predicted.mean_std.values, f.measured.gain.values)[0],
        tolerance=lambda f: f.setting.tolerance.slope,
        fails_if="the gain differed less between problems than 1/std",
        post_hoc="the slope was looked at after the mean over all problems",
        explanation="correlated, but the gain differs far less between problems than 1/std; the mean flow has it",
    ),
    Claim.same(
        "three_phases.orthogonal_gain",
        "Orthogonal prompts: mean speed ratio over all stages",
        f"arXiv 2601.23135 (I, II); {FLOW}",
        lambda d: d.speed_ratio.sel(overlap=0.0).mean(),
        tolerance=lambda f: f.setting.tolerance.stage,
        relative=True,
        fails_if="noisy runs passed through the stages at other speeds than the flow",
    ),
    Claim.same(
        "three_phases.overlap_limits_gain",
        "Loss of orthogonality limits the gain: mean speed ratio at overlap 0.9",
        f"arXiv 2601.23135 (III); {FLOW}",
        lambda d: d.speed_ratio.sel(overlap=0.9).mean(),
        tolerance=lambda f: f.setting.tolerance.stage,
        relative=True,
        fails_if="overlap acted on noisy runs otherwise than on the flow",
    ),
    Claim(
        "three_phases.curvature",
        "Curvature of a prompt's success along its gradient is this times J (1-J)(1-2J)",
        FLOW,
        predicted=lambda f: float(f.predicted.curvature_constant),
        measured=curvature_constant,
        tolerance=1e-6,
        relative=True,
        unit="1/logit^2",
        fails_if="the second derivative had another form in J at one of the policies on the way",
    ),
)

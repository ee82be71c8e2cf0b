"""Predictions from numbers alone: arm means, reference probabilities, matrices, learning rate, momentum, N, G.

    conventions      heavy ball, EMA, Nesterov; the sums of one block; mean age of the policy used
    oscillator       mass, damping, stiffness, regime, response as one smooth formula
    discrete         exact on-policy trajectory and its two poles
    thresholds       leading order, exact threshold and oscillation onset for refresh, lag, pipeline (one stiffness)
    block_map        the linear map of one block for any fresh/stale matrices
    stability        multipliers, first unstable learning rate or interval, instability islands, onset from the map
    group_law        h(J), c_G(p): what a group of G does to the mean gradient
    signal           the same as a function of the policy, binary or general rewards
    fixed_points     interior fixed points, which one attracts, critical KL weight
    stiffness        closed-form H_fresh and H_stale, spectrum
    gradient_noise   covariance of the group estimator
    stationary       stationary fluctuation (discrete Lyapunov), logit and reward standard deviations

Nothing here imports the simulation: a prediction and a measurement are independent witnesses.
"""

from bandit_lab.theory.block_map import LinearLoop, ones_complement, reduce_matrix
from bandit_lab.theory.conventions import CONVENTIONS, MODELS, block_sums, gain, mean_age
from bandit_lab.theory.discrete import discrete_response, fastest_update, pole_response, poles
from bandit_lab.theory.fixed_points import (
    FixedPoint,
    attracting_fixed_point,
    critical_kl_weight,
    fixed_points,
    mean_drift,
)
from bandit_lab.theory.gradient_noise import (
    bernoulli_outcomes,
    binary_covariance,
    centred_covariance,
    fixed_outcomes,
    leading_covariance,
    reward_atoms,
)
from bandit_lab.theory.group_law import GroupLaw, silent_rate
from bandit_lab.theory.oscillator import Oscillator, displacement, fastest_improvement, oscillator, response
from bandit_lab.theory.signal import BinarySignal, MomentSignal, fisher, reward_hessian
from bandit_lab.theory.stability import (
    Crossing,
    first_oscillating_learning_rate,
    first_unstable_learning_rate,
    first_unstable_refresh_interval,
    islands,
    multipliers,
    spectral_radius,
)
from bandit_lab.theory.stationary import (
    Stationary,
    logit_std,
    on_policy_variance,
    reused_batch_variance,
    reward_std,
    small_step_variance,
    stationary_covariance,
)
from bandit_lab.theory.stiffness import Split, largest_stiffness, stiffness_split
from bandit_lab.theory.thresholds import (
    Threshold,
    exact,
    leading_order,
    mean_age_law,
    oscillation_onset,
    oscillation_window,
)

__all__ = [
    "CONVENTIONS",
    "MODELS",
    "BinarySignal",
    "Crossing",
    "FixedPoint",
    "GroupLaw",
    "LinearLoop",
    "MomentSignal",
    "Oscillator",
    "Split",
    "Stationary",
    "Threshold",
    "attracting_fixed_point",
    "bernoulli_outcomes",
    "binary_covariance",
    "block_sums",
    "centred_covariance",
    "critical_kl_weight",
    "discrete_response",
    "displacement",
    "exact",
    "fastest_improvement",
    "fastest_update",
    "first_oscillating_learning_rate",
    "first_unstable_learning_rate",
    "first_unstable_refresh_interval",
    "fisher",
    "fixed_outcomes",
    "fixed_points",
    "gain",
    "islands",
    "largest_stiffness",
    "leading_covariance",
    "leading_order",
    "logit_std",
    "mean_age",
    "mean_age_law",
    "mean_drift",
    "multipliers",
    "on_policy_variance",
    "ones_complement",
    "oscillation_onset",
    "oscillation_window",
    "oscillator",
    "pole_response",
    "poles",
    "reduce_matrix",
    "response",
    "reused_batch_variance",
    "reward_atoms",
    "reward_hessian",
    "reward_std",
    "silent_rate",
    "small_step_variance",
    "spectral_radius",
    "stationary_covariance",
    "stiffness_split",
]

"""Predictions from numbers alone: arm means, reference probabilities, matrices, learning rate, momentum, N, G.

    conventions      heavy ball, EMA, Nesterov; the sums of one block; mean age of the policy used
    oscillator       mass, damping, stiffness, regime, response as one smooth formula
    discrete         exact on-policy trajectory and its two poles
    thresholds       leading order, exact threshold and oscillation onset for refresh, lag, pipeline (one stiffness)
    block_map        the linear map of one block for any fresh/stale matrices
    stability        multipliers, first unstable learning rate or interval, islands, onset; steps per cycle of a mode
    long_lag         the same for a lag whose map would be a large matrix; spectrum of the fluctuation
    group_law        h(J), c_G(p): what a group of G does to the mean gradient
    signal           the same as a function of the policy, binary or general rewards
    fixed_points     interior fixed points, which one attracts, critical KL weight
    stiffness        closed-form H_fresh and H_stale, spectrum
    gradient_noise   covariance of the group estimator
    stationary       stationary fluctuation (discrete Lyapunov), logit and reward standard deviations
    fluctuation      autocorrelation, spectrum, early warning
    two_arm          exact nonlinear curves (sinh law, x + sinh x), late-time laws, noisy verifier
    slow_start       inertia against geometry in a slow start
    long_block       the N -> infinity recurrence, period two, runaway
    random_ages      geometric ages: averaged, mean-square and Lyapunov thresholds
    adaptive         Adam and friends at their noise-stationary second moment
    escape           diffusion limit: barrier, Kramers rate, first passage; the boundary that a temperature leaves
    two_arm_chain    exact transition operator of the two-arm chain on a grid
    excursion        starts that one block throws out for long, above the threshold
    two_cycle        the orbit of period two beyond a flip, exactly, for a nonlinear drift
    group_size       where group-size invariance of the mean fails
    curvature        reward spread bounds curvature
    gradient_flow    the potential that the mean update climbs; sharpness along the way, for any policy
    edge_of_stability  where a run that follows that flow stops to follow it
    lazy             a network whose tangent kernel stays as it was at its start
    contextual       many prompts that share parameters: mean flow, transfer, gain from dividing by the std
    size_family      bandits whose stiffness scales as M^-alpha

Nothing here imports the simulation: a prediction and a measurement are independent witnesses.
"""

from bandit_lab.theory.adaptive import (
    adam_mean_curve,
    adaptive_threshold,
    decayed_fixed_point,
    noise_second_moment,
    precondition,
    preconditioner_spread,
    self_consistent_moment,
)
from bandit_lab.theory.block_map import LinearLoop, ones_complement, reduce_matrix
from bandit_lab.theory.contextual import Prompts, contextual_curve
from bandit_lab.theory.conventions import (
    CONVENTIONS,
    MODELS,
    as_convention,
    as_model,
    block_sums,
    gain,
    mean_age,
)
from bandit_lab.theory.curvature import (
    directional_curvature,
    one_logit_curvature,
    spread_bound,
    uniform_bound,
)
from bandit_lab.theory.discrete import discrete_response, fastest_update, pole_response, poles
from bandit_lab.theory.edge_of_stability import edge, edge_along_flow
from bandit_lab.theory.escape import (
    barrier,
    collapse_probability,
    diffusion,
    first_passage_time,
    kramers_rate,
    practical_learning_rate,
    staleness_bias,
    stationary_density,
)
from bandit_lab.theory.fixed_points import (
    FixedPoint,
    attracting_fixed_point,
    critical_kl_weight,
    fixed_points,
    mean_drift,
    settled_point,
)
from bandit_lab.theory.fluctuation import (
    correlation,
    early_warning,
    spectrum,
)
from bandit_lab.theory.gradient_flow import Climb, climb_of, follow, potential, sharpness, stiffness_parts
from bandit_lab.theory.gradient_noise import (
    bernoulli_outcomes,
    binary_covariance,
    centred_covariance,
    fixed_outcomes,
    leading_covariance,
    reward_atoms,
)
from bandit_lab.theory.group_law import ADVANTAGES, GroupLaw, silent_rate
from bandit_lab.theory.group_size import (
    factor_expansion,
    group_shift,
)
from bandit_lab.theory.lazy import lazy_climb
from bandit_lab.theory.long_block import (
    long_block_policy,
    settle,
    success_recurrence,
    success_slope,
)
from bandit_lab.theory.oscillator import Oscillator, displacement, fastest_improvement, oscillator, response
from bandit_lab.theory.random_ages import (
    averaged_threshold,
    geometric_weights,
    lyapunov_exponent,
    lyapunov_threshold,
    mean_square_radius,
    mean_square_threshold,
)
from bandit_lab.theory.signal import MOMENT_ADVANTAGES, BinarySignal, MomentSignal, fisher, reward_hessian
from bandit_lab.theory.size_family import (
    fitted_exponent,
    member,
    time_constant,
)
from bandit_lab.theory.slow_start import (
    fastest_time,
    half_success_delay,
    inertial_curve,
    inertial_delay,
    reaching_delay,
    standardised_curve,
)
from bandit_lab.theory.stability import (
    Crossing,
    first_oscillating_learning_rate,
    first_unstable_learning_rate,
    first_unstable_refresh_interval,
    islands,
    multipliers,
    period,
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
from bandit_lab.theory.two_arm import (
    effective_time,
    gap_drift,
    group_curve,
    late_decay_rate,
    late_law,
    mean_only_law,
    noisy_verifier_curve,
    perfect_verifier_law,
    sinh_law,
    softmax_law,
)
from bandit_lab.theory.two_arm_chain import (
    TwoArmChain,
)
from bandit_lab.theory.two_cycle import TwoCycle, two_cycle

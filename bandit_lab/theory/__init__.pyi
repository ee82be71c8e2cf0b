from .adaptive import (
    adam_mean_curve as adam_mean_curve,
    adaptive_threshold as adaptive_threshold,
    decayed_fixed_point as decayed_fixed_point,
    noise_second_moment as noise_second_moment,
    precondition as precondition,
    preconditioner_spread as preconditioner_spread,
    self_consistent_moment as self_consistent_moment,
)
from .ages import (
    averaged_ages_onset as averaged_ages_onset,
    averaged_ages_threshold as averaged_ages_threshold,
    drawn_ages_threshold as drawn_ages_threshold,
    in_turn as in_turn,
    mean_age_of as mean_age_of,
    safe_by_largest_age as safe_by_largest_age,
    safe_by_mean_age as safe_by_mean_age,
    uniform_ages_threshold as uniform_ages_threshold,
)
from .block_map import (
    LinearLoop as LinearLoop,
    ones_complement as ones_complement,
    reduce_matrix as reduce_matrix,
)
from .collapse import (
    Collapse as Collapse,
    arm_bound as arm_bound,
    collapse_asymptote as collapse_asymptote,
    critical_collapse as critical_collapse,
    extinctions as extinctions,
    sequence_choices as sequence_choices,
)
from .conventions import (
    CONVENTIONS as CONVENTIONS,
    MODELS as MODELS,
    as_convention as as_convention,
    as_model as as_model,
    block_sums as block_sums,
    gain as gain,
    mean_age as mean_age,
)
from .discrete import (
    discrete_response as discrete_response,
    fastest_update as fastest_update,
    pole_response as pole_response,
    poles as poles,
)
from .escape import (
    barrier as barrier,
    collapse_probability as collapse_probability,
    diffusion as diffusion,
    first_passage_time as first_passage_time,
    kramers_rate as kramers_rate,
    practical_learning_rate as practical_learning_rate,
    staleness_bias as staleness_bias,
    stationary_density as stationary_density,
)
from .fixed_points import (
    FixedPoint as FixedPoint,
    attracting_fixed_point as attracting_fixed_point,
    critical_kl_weight as critical_kl_weight,
    fixed_points as fixed_points,
    mean_drift as mean_drift,
    settled_point as settled_point,
)
from .fluctuation import (
    correlation as correlation,
    early_warning as early_warning,
    spectrum as spectrum,
)
from .gradient_flow import (
    Climb as Climb,
    climb_of as climb_of,
    follow as follow,
    potential as potential,
    sharpness as sharpness,
    stiffness_parts as stiffness_parts,
)
from .gradient_noise import (
    bernoulli_outcomes as bernoulli_outcomes,
    binary_covariance as binary_covariance,
    centred_covariance as centred_covariance,
    fixed_outcomes as fixed_outcomes,
    leading_covariance as leading_covariance,
    reward_atoms as reward_atoms,
)
from .group_law import (
    ADVANTAGES as ADVANTAGES,
    GroupLaw as GroupLaw,
    silent_rate as silent_rate,
)
from .group_size import (
    factor_expansion as factor_expansion,
    group_shift as group_shift,
)
from .oscillator import (
    Oscillator as Oscillator,
    displacement as displacement,
    fastest_improvement as fastest_improvement,
    oscillator as oscillator,
    response as response,
)
from .random_ages import (
    averaged_threshold as averaged_threshold,
    geometric_weights as geometric_weights,
    lyapunov_exponent as lyapunov_exponent,
    lyapunov_threshold as lyapunov_threshold,
    mean_square_radius as mean_square_radius,
    mean_square_threshold as mean_square_threshold,
)
from .sampler import (
    CORRECTIONS as CORRECTIONS,
    ActingLaw as ActingLaw,
    SampledTwoArms as SampledTwoArms,
    hot_asymptote as hot_asymptote,
    one_good_arm as one_good_arm,
)
from .signal import (
    MOMENT_ADVANTAGES as MOMENT_ADVANTAGES,
    BinarySignal as BinarySignal,
    MomentSignal as MomentSignal,
    fisher as fisher,
    reward_hessian as reward_hessian,
)
from .size_family import (
    fitted_exponent as fitted_exponent,
    member as member,
    time_constant as time_constant,
)
from .stability import (
    Crossing as Crossing,
    first_oscillating_learning_rate as first_oscillating_learning_rate,
    first_unstable_learning_rate as first_unstable_learning_rate,
    first_unstable_refresh_interval as first_unstable_refresh_interval,
    islands as islands,
    multipliers as multipliers,
    period as period,
    spectral_radius as spectral_radius,
)
from .stationary import (
    Stationary as Stationary,
    logit_std as logit_std,
    on_policy_variance as on_policy_variance,
    reused_batch_variance as reused_batch_variance,
    reward_std as reward_std,
    small_step_variance as small_step_variance,
    stationary_covariance as stationary_covariance,
)
from .stiffness import (
    Split as Split,
    largest_stiffness as largest_stiffness,
    stiffness_split as stiffness_split,
)
from .thresholds import (
    Threshold as Threshold,
    exact as exact,
    leading_order as leading_order,
    mean_age_law as mean_age_law,
    oscillation_onset as oscillation_onset,
    oscillation_window as oscillation_window,
)
from .two_arm import (
    effective_time as effective_time,
    gap_drift as gap_drift,
    group_curve as group_curve,
    late_decay_rate as late_decay_rate,
    late_law as late_law,
    mean_only_law as mean_only_law,
    noisy_verifier_curve as noisy_verifier_curve,
    perfect_verifier_law as perfect_verifier_law,
    sinh_law as sinh_law,
    softmax_law as softmax_law,
)
from .two_arm_chain import (
    TwoArmChain as TwoArmChain,
)

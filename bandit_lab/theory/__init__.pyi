from .ages import (
    averaged_ages_threshold as averaged_ages_threshold,
    drawn_ages_threshold as drawn_ages_threshold,
    in_turn as in_turn,
    safe_by_largest_age as safe_by_largest_age,
    safe_by_mean_age as safe_by_mean_age,
)
from .block_map import (
    LinearLoop as LinearLoop,
    ones_complement as ones_complement,
    reduce_matrix as reduce_matrix,
)
from .collapse import (
    Collapse as Collapse,
    collapse_asymptote as collapse_asymptote,
    critical_collapse as critical_collapse,
    extinctions as extinctions,
    sequence_choices as sequence_choices,
)
from .conventions import (
    CONVENTIONS as CONVENTIONS,
    MODELS as MODELS,
    block_sums as block_sums,
    gain as gain,
    mean_age as mean_age,
)
from .fixed_points import (
    FixedPoint as FixedPoint,
    attracting_fixed_point as attracting_fixed_point,
    critical_kl_weight as critical_kl_weight,
    fixed_points as fixed_points,
    gap_drift as gap_drift,
    mean_drift as mean_drift,
    settled_point as settled_point,
)
from .fluctuation import (
    correlation as correlation,
    early_warning as early_warning,
    spectrum as spectrum,
)
from .gradient_noise import (
    binary_covariance as binary_covariance,
    centred_covariance as centred_covariance,
    leading_covariance as leading_covariance,
    logit_std as logit_std,
    reward_atoms as reward_atoms,
    reward_std as reward_std,
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
    oscillator as oscillator,
    poles as poles,
    response as response,
)
from .random_ages import (
    averaged_threshold as averaged_threshold,
    geometric_weights as geometric_weights,
    mean_square_threshold as mean_square_threshold,
)
from .sampler import (
    CORRECTIONS as CORRECTIONS,
    ActingLaw as ActingLaw,
    SampledTwoArms as SampledTwoArms,
    one_good_arm as one_good_arm,
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
    small_step_variance as small_step_variance,
    stationary_covariance as stationary_covariance,
)
from .stiffness import (
    ESTIMATORS as ESTIMATORS,
    KL_ESTIMATORS as KL_ESTIMATORS,
    MOMENT_ADVANTAGES as MOMENT_ADVANTAGES,
    BinarySignal as BinarySignal,
    MomentSignal as MomentSignal,
    Split as Split,
    fisher as fisher,
    largest_stiffness as largest_stiffness,
    reward_hessian as reward_hessian,
    stiffness_split as stiffness_split,
)
from .thresholds import (
    Threshold as Threshold,
    exact as exact,
    leading_order as leading_order,
    mean_age_law as mean_age_law,
    oscillation_onset as oscillation_onset,
)
from .two_arm_chain import (
    TwoArmChain as TwoArmChain,
)

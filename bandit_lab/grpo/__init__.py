"""The learning rule: advantage, estimator, KL, staleness, optimiser, and the one update step that joins them."""

from bandit_lab.grpo.advantage import (
    ADVANTAGES,
    DAPO,
    GRPO,
    RLOO,
    Advantage,
    BatchWide,
    DrGRPO,
    Scaled,
    advantages,
    batch_advantages,
    drawn_advantages,
    is_silent,
    register_advantage,
    sees_batch,
)
from bandit_lab.grpo.correction import (
    CORRECTIONS,
    Correction,
    Importance,
    Masked,
    NoCorrection,
    Truncated,
    register_correction,
)
from bandit_lab.grpo.estimator import (
    ESTIMATORS,
    ClipHigher,
    Clipped,
    Estimator,
    Frozen,
    Ratio,
    TokenMean,
    Uncorrected,
    register_estimator,
)
from bandit_lab.grpo.hyper import Hyper, check_hyper
from bandit_lab.grpo.kl import K3, KL, KL_ESTIMATORS, Exact, register_kl
from bandit_lab.grpo.optimizer import OPTIMIZERS, Optimizer, optimizer_names, register_optimizer
from bandit_lab.grpo.sampler import (
    SAMPLERS,
    LogitNoise,
    OwnLaw,
    Rounding,
    Sampler,
    Temperature,
    TopK,
    TopP,
    register_sampler,
)
from bandit_lab.grpo.schedule import SCHEDULES, Schedule, schedule_values
from bandit_lab.grpo.shift import Shift, counted, resampled, shift_of, weighs_groups, weighs_tokens
from bandit_lab.grpo.staleness import (
    STALENESS,
    DrawnAges,
    Lag,
    MixedAges,
    Mixture,
    Pipeline,
    Refresh,
    Staleness,
    register_staleness,
)
from bandit_lab.grpo.update import (
    Gradient,
    GradientFn,
    Info,
    Learner,
    State,
    batch_key,
    batch_step,
    init,
    policy_gradient,
    update,
)

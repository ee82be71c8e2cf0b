"""What is observed in simulation, without help from the theory."""

from bandit_lab.measure.boundary import Boundary, learning_rate_boundary
from bandit_lab.measure.displaced import stack_bandits
from bandit_lab.measure.fixed_point import FixedPoint, critical_kl_weight, find_fixed_point
from bandit_lab.measure.growth import generic_direction, growth_rate
from bandit_lab.measure.onset import (
    learning_rate_onset,
    stiffest_mode,
    unsampled_reason,
)
from bandit_lab.measure.outcome import (
    classify_mean,
    classify_runs,
    count_outcomes,
    sampled_boundary,
    share_of_lost,
)
from bandit_lab.measure.period_jacobian import Floquet, FloquetThreshold, floquet, floquet_threshold
from bandit_lab.measure.stiffness import StiffnessReport, fresh_and_stale, measure_stiffness

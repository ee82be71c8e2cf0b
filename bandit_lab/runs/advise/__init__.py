"""What is safe: stability margins, the largest safe settings, and what a group of answers can still teach."""

from bandit_lab.runs.advise.groups import (
    DifficultySpread,
    group_factor,
    group_for_factor,
    group_for_signal,
    silent_share,
    spread_from_silence,
)
from bandit_lab.runs.advise.margins import (
    Limit,
    StabilityMargin,
    StalenessLoop,
    kappa_of_delay,
    largest_safe_interval,
    largest_safe_kappa,
    margin,
)
from bandit_lab.runs.advise.permit import (
    REACH,
    SCATTER,
    SPREAD,
    Permit,
    after_failure,
    from_curve,
    from_stiffness,
    has_fallen,
    keep,
    scatter_of_equals,
    spread_needed,
)

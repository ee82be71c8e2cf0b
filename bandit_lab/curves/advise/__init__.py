"""What is safe: stability margins, the largest safe settings, and what a group of answers can still teach."""

from bandit_lab.curves.advise.groups import (
    DifficultySpread,
    group_factor,
    group_for_factor,
    group_for_signal,
    silent_share,
    spread_from_silence,
)
from bandit_lab.curves.advise.margins import (
    Limit,
    StabilityMargin,
    StalenessLoop,
    kappa_of_delay,
    largest_safe_interval,
    largest_safe_kappa,
    margin,
)
from bandit_lab.curves.advise.permit import (
    REACH,
    SPREAD,
    Permit,
    after_failure,
    from_curve,
    from_stiffness,
    has_fallen,
    keep,
    spread_needed,
)

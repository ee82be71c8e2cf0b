"""Stationary variance where one batch serves a whole refresh block."""

from bandit_lab.theory.conventions import block_sums


def reused_batch_variance(
    learning_rate: float, stiffness: float, momentum: float, noise: float, refresh_interval: int
) -> float:
    """Var(x) [logit^2] at block points, model `refresh`, heavy ball, N steps a block (see `theory.stationary`)."""
    m, push, _, drift = block_sums(refresh_interval, momentum)
    kappa, full = learning_rate * stiffness, refresh_interval * push
    trace, det = 1 + m - kappa * drift, m + kappa * (full - drift)
    first, second = drift, full - drift
    top = (1 + det) * (first**2 + second**2) + 2 * trace * first * second
    return learning_rate**2 * noise * top / ((1 - det) * kappa * full * (2 * (1 + m) - kappa * (2 * drift - full)))

"""What the fitted oscillator says about the training loop: times, damping, and the stiffness behind them.

With time in optimiser steps the delay is tau = gamma/lambda. With eta' the learning rate of the convention,
gamma = (1 - mu)/eta' - lambda lag (+ mu lambda for Nesterov), so that

    lambda = (1 - mu) / (eta' (tau + lag - mu [Nesterov])).

The lag is the mean age of the acting policy, (N - 1)/2 for N steps per refresh. `inertia` compares the fitted damping
ratio with gamma/(2 sqrt(m lambda)) at that stiffness: a slow start that momentum would explain has a ratio near 1, one
that comes from the geometry of softmax is slower than momentum allows. Derived here from `law`.
"""

from dataclasses import dataclass

from grpo_clinic import _checks
from grpo_clinic.law import Convention, damping_ratio, gain


@dataclass(frozen=True)
class StiffnessReading:
    """`stiffness` [reward per logit^2] with the ends that belong to the delay's interval, and the damping ratio that
    momentum at that stiffness would give."""

    stiffness: float
    low: float
    high: float
    damping_ratio_of_momentum: float


def effective_stiffness(
    delay: float,
    interval: tuple[float, float],
    learning_rate: float,
    momentum: float,
    refresh_interval: float = 1.0,
    convention: Convention = "heavy_ball",
) -> StiffnessReading:
    """The stiffness behind a mean delay and its interval [optimiser steps], at refresh interval N [optimiser steps].

    Raises ValueError for numbers out of range.
    """
    rate = _checks.positive("learning_rate", learning_rate)
    mu = _checks.momentum("momentum", momentum)
    lag = 0.5 * (_checks.positive("refresh_interval", refresh_interval) - 1)
    shift = lag - (mu if convention == "nesterov" else 0.0)

    def stiffness(tau: float) -> float:
        return float((1 - mu) / (rate * gain(mu, convention) * max(tau + shift, 1e-12)))

    value = stiffness(delay)
    ratio = damping_ratio(rate, mu, value, lag, convention)
    return StiffnessReading(value, stiffness(interval[1]), stiffness(interval[0]), ratio)

"""Two causes of a slow start: inertia and softmax geometry, and the sweep that separates them.

Derived here. Under a constant gradient, from rest, heavy ball has moved eta [t/(1-mu) - mu (1 - mu^t)/(1-mu)^2] after t
steps: the gradient flow at time t eta/(1-mu), delayed by mu/(1-mu) steps whatever the learning rate. The geometric
S-shape is a function of t eta/(1-mu) alone. In a force that grows along the way the velocity keeps lagging by d =
mu/(1-mu) steps, x' = F - d F' F, so that a point x is reached later by

    d [1 + ln(F(x)/F(x_0))]

steps: geometry amplifies the inertial delay by the logarithm of the speed-up. Sweeping mu at fixed eta/(1-mu) therefore
leaves a geometric slow start where it is and moves an inertial one in proportion to mu/(1-mu) steps.

`inertial_curve` integrates both together, m x'' + gamma x' = drift(x) with m = (1+mu)/(2 eta), gamma = (1-mu)/eta.
"""

from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp

from bandit_lab import _checks
from bandit_lab.lab.reproduce.readings import crossing
from bandit_lab.theory.conventions import gain


def inertial_delay(momentum: float) -> float:
    """Steps by which momentum delays the gradient flow at the same eta/(1-mu): mu/(1-mu). Derived in this module.

    Raises ValueError for momentum outside [0, 1).
    """
    _checks.momentum("momentum", momentum)
    return momentum / (1 - momentum)


def reaching_delay(momentum: float, speed_up: float) -> float:
    """Extra steps to reach a point where the force is `speed_up` times the initial one, at fixed eta/(1-mu).

    mu/(1-mu) (1 + ln speed_up), first order in mu/(1-mu) times the growth rate of the force. Derived in this module.
    Raises ValueError for momentum outside [0, 1), a speed-up <= 0.
    """
    _checks.positive("speed_up", speed_up)
    return inertial_delay(momentum) * (1 + float(np.log(speed_up)))


def inertial_curve(
    drift: Callable[[float], float],
    start: float,
    steps: np.ndarray,
    learning_rate: float,
    momentum: float,
    convention: str = "heavy_ball",
) -> np.ndarray:
    """x [T] at `steps` [T] under drift(x), heavy ball as a second-order flow from rest; first order at momentum 0.

    Leading order in the learning rate (relative error of one step); the mean curve only. Derived in this module.
    """
    steps = np.asarray(steps, float)
    eta = learning_rate * gain(momentum, convention)
    mass, damping = (1 + momentum) / (2 * eta) if momentum else 0.0, (1 - momentum) / eta

    def speed(_: float, state: np.ndarray) -> list[float]:
        force = float(drift(float(state[0])))
        return [state[1], (force - damping * state[1]) / mass] if mass else [force / damping]

    initial = [start, 0.0] if mass else [start]
    path = solve_ivp(speed, (0.0, float(steps[-1])), initial, t_eval=steps, method="LSODA", rtol=1e-9, atol=1e-11)
    return path.y[0]


def standardised_curve(start: float, steps: np.ndarray, rate: float, momentum: float) -> np.ndarray:
    """Success p [T] of two arms with rewards 1 and 0, standardised advantages and no KL term, by `inertial_curve`.

    start: gap of the logits [nats] at step 0. steps: [T]. rate: eta/(1 - mu), logits^2 per reward and step.
    """
    gap = inertial_curve(lambda x: 1 / np.cosh(0.5 * x), start, steps, rate * (1 - momentum), momentum)
    return 1 / (1 + np.exp(-gap))


def half_success_delay(start: float, rate: float, momentum: float) -> float:
    """Steps by which `standardised_curve` reaches p = 1/2 later than without momentum, at the same eta/(1 - mu).

    The second-order flow has (1 + mu)/2 for mu in its mass, hence half a step of delay more than the updates.
    """
    if momentum == 0:
        return 0.0
    half, growth = 2 * np.sinh(-start / 2), float(np.cosh(start / 2))
    steps = np.linspace(0.0, (half / rate + 4 * reaching_delay(momentum, growth)) * 1.1, 4001)
    reached = crossing(steps, standardised_curve(start, steps, rate, momentum), 0.5)
    return float(reached - half / rate - 0.5 * (1 + np.log(growth)))


def fastest_time(steps: np.ndarray, curve: np.ndarray) -> float:
    """Time [steps] of the steepest rise of a sampled curve, refined by a parabola through three increments."""
    rise = np.diff(np.asarray(curve, float)) / np.diff(steps)
    i = int(np.argmax(rise))
    middle = 0.5 * (steps[1:] + steps[:-1])
    if i in (0, len(rise) - 1):
        return float(middle[i])
    left, top, right = rise[i - 1 : i + 2]
    bend = left - 2 * top + right
    shift = 0.5 * (left - right) / bend if bend != 0 else 0.0
    return float(middle[i] + shift * (middle[i + 1] - middle[i]))

"""The laws that a reward curve may follow: R(t) = plateau + amplitude (g(t) - 1), g running towards 1.

Plateau and amplitude enter linearly and are solved for exactly; what is left to search are at most two numbers,
called theta, in which each shape is smooth. Time t in steps since the first logged reward.

oscillator          g = response from rest of m x'' + gamma x' + lambda x = 0, `law.rise`;
                    theta = (ln s, ln zeta), zeta the damping ratio and s = (1 + 2 zeta)/omega a time that stays of the
                    order of the rise in every regime [steps]; the mean delay tau = gamma/lambda = 2 zeta/omega is the
                    area above g, whatever the damping; zeta -> infinity is the single exponential of the same tau.
                    Cycles shorter than some six logging intervals or less damped than 0.15 are not searched: in a
                    noisy curve one of so many wiggles always fits
softmax_law         g = (1 + u/sqrt(1+u^2))/2, u = u_0 + r t: exact for std-normalised GRPO on two deterministic arms
                    without KL (theta/2 grows with sinh): a slow start without any inertia; theta = (u_0, ln r)
single_exponential  g = 1 - exp(-t/tau); theta = (ln tau,)
sigmoid             g = 1/(1 + exp(-u)), u = u_0 + r t; theta = (u_0, ln r)
constant            no g at all
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from grpo_clinic.law import rise
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Floats

_ZETA = (0.15, 12.0)
_START = (-8.0, 3.0)


@dataclass(frozen=True)
class Shape:
    """One law.

    `growth(time [..., T], theta [..., 1, q])` is g [..., T]; `grid(time [T])` are starting points [M, q] that cover
    every distinguishable shape; `low`, `high` [q] its bounds (functions of the time axis), at which a parameter is
    not identified by the curve any more; `meaning` turns theta into named numbers with units. `bend(centre, straight)`
    turns coordinates that equal theta at the centre, and in which the likelihood around it is closer to an ellipse,
    into theta; left out where theta itself is such.
    """

    name: str
    parameters: tuple[str, ...]
    growth: Callable[[Floats, Floats], Floats]
    axes: Callable[[Floats], tuple[Floats, ...]]
    meaning: Callable[[Floats], dict[str, Floats]]
    bend: Callable[[Floats, Floats], Floats] = lambda centre, straight: straight

    @property
    def size(self) -> int:
        """Numbers in theta."""
        return len(self.parameters)

    def grid(self, time: Floats) -> Floats:
        """All combinations of the axes [M, q]."""
        if not self.parameters:
            return np.zeros((1, 0))
        return np.stack([a.ravel() for a in np.meshgrid(*self.axes(time), indexing="ij")], axis=-1)

    def bounds(self, time: Floats) -> tuple[Floats, Floats]:
        """Ends of the axes, [q] and [q]."""
        axes = self.axes(time)
        return np.array([a[0] for a in axes]), np.array([a[-1] for a in axes])


def _oscillator(time: Floats, theta: Floats) -> Floats:
    scale, zeta = np.exp(theta[..., 0]), np.exp(theta[..., 1])
    rate = (1.0 + 2.0 * zeta) / scale
    return rise(time, rate, zeta)


def _softmax(time: Floats, theta: Floats) -> Floats:
    u = theta[..., 0] + np.exp(theta[..., 1]) * time
    return 0.5 * (1 + u / np.sqrt(1 + u * u))


def _sigmoid(time: Floats, theta: Floats) -> Floats:
    return 0.5 * (1 + np.tanh(0.5 * (theta[..., 0] + np.exp(theta[..., 1]) * time)))


def _exponential(time: Floats, theta: Floats) -> Floats:
    return -np.expm1(-time / np.exp(theta[..., 0]))


def _delays(time: Floats) -> Floats:
    """ln tau from a third of the logging interval to three times the length of the curve."""
    shortest = median(np.diff(time)) / 3
    return np.arange(np.log(shortest), np.log(3 * time[-1]) + 0.15, 0.15)


def _rises(time: Floats) -> Floats:
    """ln s of the oscillator: from 1.5 logging intervals to three times the length of the curve."""
    return np.arange(np.log(1.5 * median(np.diff(time))), np.log(3 * time[-1]) + 0.15, 0.15)


def _at_midpoint(centre: Floats, straight: Floats) -> Floats:
    """u_0 from its value had the midpoint u = 0 been passed at the centre's speed: a curve fixes the midpoint well."""
    return np.stack((straight[..., 0] * np.exp(straight[..., 1] - centre[..., 1]), straight[..., 1]), axis=-1)


def _speeds(time: Floats) -> Floats:
    """ln r, from a fifth of one unit of u over the whole curve to two units per logging interval."""
    return np.arange(np.log(0.2 / time[-1]), np.log(2 / median(np.diff(time))) + 0.2, 0.2)


_starts = np.arange(_START[0], _START[1] + 0.1, 0.4)
_zetas = np.arange(np.log(_ZETA[0]), np.log(_ZETA[1]) + 0.1, 0.2)

SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(
            "oscillator",
            ("delay", "damping_ratio"),
            _oscillator,
            lambda time: (_rises(time), _zetas),
            lambda theta: {
                "delay": np.exp(theta[..., 0]) / (1 + 0.5 * np.exp(-theta[..., 1])),
                "damping_ratio": np.exp(theta[..., 1]),
            },
        ),
        Shape(
            "softmax_law",
            ("start", "speed"),
            _softmax,
            lambda time: (_starts, _speeds(time)),
            lambda theta: {"start": theta[..., 0], "speed": np.exp(theta[..., 1])},
            _at_midpoint,
        ),
        Shape(
            "single_exponential",
            ("delay",),
            _exponential,
            lambda time: (_delays(time),),
            lambda theta: {"delay": np.exp(theta[..., 0])},
        ),
        Shape(
            "sigmoid",
            ("start", "speed"),
            _sigmoid,
            lambda time: (_starts, _speeds(time)),
            lambda theta: {"start": theta[..., 0], "speed": np.exp(theta[..., 1])},
            _at_midpoint,
        ),
        Shape(
            "constant",
            (),
            lambda time, theta: np.ones(np.broadcast_shapes(time.shape, theta.shape[:-1])),
            lambda time: (),
            lambda theta: {},
        ),
    )
}
"""Every law by name."""

UNITS = {
    "plateau": "reward",
    "amplitude": "reward",
    "initial": "reward",
    "delay": "steps",
    "damping_ratio": "1",
    "start": "1",
    "speed": "1/step",
    "sigma": "reward",
    "rho": "1",
    "tau_95": "steps",
}
"""Unit of each fitted number."""

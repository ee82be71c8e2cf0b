"""Statements about two arms away from the fixed point: the rise from the initial policy, and collapse at a vertex."""

import math

import numpy as np

from bandit_lab import theory
from bandit_lab.lab.predict.quantities import HORIZON
from bandit_lab.lab.predict.statement import (
    Missing,
    OperatingPoint,
    binary,
    known,
    noise_of,
    not_special,
    wholly_stale,
)
from bandit_lab.measure.outcome import VERTEX_SHARE

CHAIN_SPACING = 0.2  # nats between the grid points of the two-arm chain


def _two_gaps(setting: OperatingPoint) -> theory.BinarySignal:
    signal = binary(setting)
    if len(setting.means) != 2:
        raise Missing("for two arms only")
    return signal


def _gap(policy: np.ndarray) -> float:
    return float(np.log(policy[0] / policy[1]))


def half_rise(setting: OperatingPoint) -> float:
    """Steps of the gradient flow from the initial policy half-way to the fixed point: integral of d gap / drift."""
    known(setting.linear)
    not_special(setting)
    signal, hyper = _two_gaps(setting), setting.hyper
    start, end = float(setting.initial[0]), float(np.asarray(setting.linear.policy)[0])
    if abs(end - start) < 1e-9:
        raise Missing("training starts at the fixed point")
    middle = 0.5 * (start + end)
    gaps = np.linspace(_gap(setting.initial), math.log(middle / (1 - middle)), 401)
    drift = theory.gap_drift(gaps, signal, _gap(setting.reference), hyper.kl_weight)
    gain = theory.gain(hyper.momentum, setting.linear.convention)
    return float(np.trapezoid(1 / drift, gaps)) * (1 - hyper.momentum) / (hyper.learning_rate * gain)


def collapsed(setting: OperatingPoint) -> float:
    """Share of runs at the better arm's vertex, by the exact transition operator of the two-arm chain."""
    not_special(setting)
    signal, hyper, noise = _two_gaps(setting), setting.hyper, noise_of(setting)
    wholly_stale(setting)
    if hyper.momentum > 0 or setting.linear.model != "refresh":
        raise Missing("the exact chain is for momentum 0 and staleness=refresh")
    interval = int(hyper.refresh_interval)
    move = hyper.learning_rate * math.sqrt(2 * interval * float(noise[0, 0]))
    if move < 2 * CHAIN_SPACING:
        raise Missing("a block moves the gap by less than the chain's grid resolves")
    policy = np.asarray(setting.linear.policy)
    better = int(np.argmax(setting.means))
    if better != 0:
        raise Missing("written for the better arm first")
    chain = theory.TwoArmChain(
        (signal.success[0], signal.success[1]),
        signal.law,
        hyper.kl_weight,
        hyper.learning_rate,
        interval,
        setting.prompts,
        _gap(setting.reference),
        setting.batch_reuse,
        spacing=CHAIN_SPACING,
    )
    others = VERTEX_SHARE * policy[1]
    vertex = math.log((1 - others) / others)
    return max(theory.collapse_probability(chain, vertex, max(1, HORIZON // interval), _gap(policy)), 0.0)

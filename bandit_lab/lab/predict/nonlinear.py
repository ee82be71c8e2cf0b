"""Statements about two arms away from the fixed point: the rise from the initial policy, and collapse at a vertex."""

import math

import numpy as np

from bandit_lab import theory
from bandit_lab.lab.predict.point import (
    Missing,
    OperatingPoint,
    binary,
    check_drift_closed,
    check_linear,
    check_wholly_stale,
    noise_of,
)
from bandit_lab.lab.predict.quantities import HORIZON
from bandit_lab.measure.outcome import VERTEX_SHARE

CHAIN_SPACING = 0.2  # nats between the grid points of the two-arm chain


def _two_gaps(point: OperatingPoint) -> theory.BinarySignal:
    signal = binary(point)
    if len(point.means) != 2:
        raise Missing("for two arms only")
    return signal


def _gap(policy: np.ndarray) -> float:
    return float(np.log(policy[0] / policy[1]))


def half_rise(point: OperatingPoint) -> float:
    """Steps of the gradient flow from the initial policy half-way to the fixed point: integral of d gap / drift."""
    check_linear(point)
    check_drift_closed(point)
    signal, hyper = _two_gaps(point), point.hyper
    start, end = float(point.initial[0]), float(np.asarray(point.linear.policy)[0])
    if abs(end - start) < 1e-9:
        raise Missing("training starts at the fixed point")
    middle = 0.5 * (start + end)
    gaps = np.linspace(_gap(point.initial), math.log(middle / (1 - middle)), 401)
    drift = theory.gap_drift(gaps, signal, _gap(point.reference), hyper.kl_weight)
    mean_step = hyper.learning_rate / point.loop.optimizer.inertia[0]
    return float(np.trapezoid(1 / drift, gaps)) / mean_step


def collapsed(point: OperatingPoint) -> float:
    """Share of runs at the better arm's vertex, by the exact transition operator of the two-arm chain."""
    check_drift_closed(point)
    signal, hyper, noise = _two_gaps(point), point.hyper, noise_of(point)
    check_wholly_stale(point)
    interval = int(hyper.refresh_interval)
    rule = point.learner.staleness
    if hyper.momentum > 0 or not rule.block_synchronous or np.any(point.loop.rule.ages != np.arange(interval)):
        raise Missing("the exact chain is for momentum 0 and staleness=refresh")
    move = hyper.learning_rate * math.sqrt(2 * interval * float(noise[0, 0]))
    if move < 2 * CHAIN_SPACING:
        raise Missing("a block moves the gap by less than the chain's grid resolves")
    policy = np.asarray(point.linear.policy)
    better = int(np.argmax(point.means))
    if better != 0:
        raise Missing("written for the better arm first")
    chain = theory.TwoArmChain(
        (signal.success[0], signal.success[1]),
        signal.law,
        hyper.kl_weight,
        hyper.learning_rate,
        interval,
        point.learner.prompts,
        _gap(point.reference),
        point.settings.batch_reuse,
        spacing=CHAIN_SPACING,
    )
    others = VERTEX_SHARE * policy[1]
    vertex = math.log((1 - others) / others)
    return max(chain.collapsed(vertex, max(1, HORIZON // interval), _gap(policy)), 0.0)

"""From a stiffness to what may be changed, against closed forms of one mode at mu = 0.

All stale, blocks of N steps from one state: a block multiplies the mode by 1 - eta K N, so that it is stable for
eta K N < 2. All fresh: every step multiplies it by 1 - eta K, whatever N.
"""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from grpo_probe.loop import LONGEST
from grpo_probe.probe_margin import Loop, hold_at, margin
from grpo_probe.probe_report import ProbeReport
from grpo_probe.stiffness import Stiffness, critical_rate, standard_error


def measured(fresh, stale, error=0.0):
    value = fresh + stale
    return Stiffness(value, error, fresh, stale, value, value, 0.0, 0.0, 50.0, 16, "double_backward")


def test_all_stale_n_may_be_raised_up_to_two_over_eta_k():
    """K = 1.03, eta = 0.1: 2/(eta K) = 19.4. Two standard errors of 0.1 make it 2/0.123 = 16.3."""
    loop = Loop(learning_rate=0.1, refresh_interval=4)
    at_edge = margin(measured(0.0, 1.03), loop)
    assert at_edge.product == pytest.approx(0.412)
    assert at_edge.threshold == pytest.approx(2.0)
    assert at_edge.used == pytest.approx(0.206)
    assert at_edge.intervals == 19
    assert at_edge.learning_rate == pytest.approx(2 / (1.03 * 4))
    careful = margin(measured(0.0, 1.03, error=0.1), loop)
    assert careful.used == pytest.approx(0.206)
    assert careful.intervals == 16
    assert careful.learning_rate == pytest.approx(2 / (1.23 * 4))
    assert "threshold 2, 21% used" in str(careful)
    assert "you may raise N to 16, or the learning rate to 0.407" in str(careful)
    assert "50 forward-backward passes over 16 groups" in str(careful)


def test_all_fresh_no_n_is_too_large():
    at_edge = margin(measured(1.03, 0.0), Loop(learning_rate=0.1, refresh_interval=4))
    assert at_edge.used == pytest.approx(0.1 * 1.03 / 2)
    assert at_edge.intervals is None
    assert f"you may raise N beyond {LONGEST['refresh']}" in at_edge.advice


@pytest.mark.parametrize(
    ("stiffness", "rate", "advice"),
    [
        (measured(0.0, 1.0), 0.6, "unstable: lower the learning rate to below 0.5"),
        (measured(0.0, 1.0, error=0.1), 0.7, "unstable: lower the learning rate to below 0.417"),
        (measured(0.0, 1.0, error=0.2), 0.4, "cannot tell whether it is stable, for K is within 2 standard errors"),
        (measured(0.0, 1.0, error=0.2), 0.6, "cannot tell whether it is stable, for K is within 2 standard errors"),
        (measured(0.0, 1.0, error=0.6), 9.0, "cannot tell whether it is stable, for the error of K is above half"),
        (measured(0.0, 1.0, error=math.inf), 0.1, "cannot tell whether it is stable, for the error of K is above half"),
        (measured(0.0, 1.0), 0.45, "keep N; you may raise the learning rate to 0.5"),
    ],
)
def test_near_the_threshold_nothing_more_is_allowed(stiffness, rate, advice):
    """N = 4, K = 1: the threshold of the learning rate is 0.5; at 0.45 five updates are too many.

    Two errors of 0.1 leave it between 0.5/1.2 and 0.5/0.8, two of 0.2 between 0.36 and 0.83, two of 0.6 anywhere.
    """
    assert margin(stiffness, Loop(learning_rate=rate, refresh_interval=4)).advice.startswith(advice)


def test_groups_without_a_gradient_are_no_measurement():
    """All rewards equal: K = 0, which says nothing of a threshold. One group of sixteen that tells is one."""
    unmeasured = margin(replace(measured(0.0, 0.0), silent=16), Loop(learning_rate=0.1))
    assert unmeasured.verdict == "no signal"
    assert str(unmeasured).startswith("no signal: none of 16 groups has a gradient")
    assert "threshold" not in str(unmeasured)
    assert margin(replace(measured(0.0, 1.0), silent=15), Loop(learning_rate=0.1)).verdict == "stable"


def test_along_the_update_permission_is_never_given():
    """K along one direction is a bound from below: it can say unstable, and nothing else."""
    one = replace(measured(0.0, 1.0), critical=0.8)
    assert "raise" not in str(margin(one, Loop(learning_rate=0.1, refresh_interval=4)))
    assert "unstable: lower" in str(margin(one, Loop(learning_rate=0.6, refresh_interval=4)))


@pytest.mark.parametrize("start", [0.05, 0.9, 20.0])
def test_the_search_ends_at_the_rate_where_the_loss_is_as_before(start):
    """loss = -eta + eta^3: zero at 1, where it is no parabola; a loss that only falls has none."""
    assert critical_rate(lambda eta: eta**3 - eta, 1.0, start) == pytest.approx(1, rel=0.01)
    assert math.isinf(critical_rate(lambda eta: -eta, 1.0, start))


def test_the_error_of_groups_that_are_centred_on_each_other():
    """Sums of squares of 2 and 14 in prompts of three groups, each over 3 - 2."""
    each, prompts = np.array([1.0, 2, 3, 4, 5, 9]), np.repeat([0, 1], 3)
    assert standard_error(each, prompts) == pytest.approx(np.sqrt(3 * 2 + 3 * 14) / 6)
    assert standard_error(each, np.arange(6)) == pytest.approx(np.std(each, ddof=1) / np.sqrt(6))


def test_the_rate_is_held_at_a_share_of_the_edge_again_and_again():
    """At 1.6 and then at .4 of the edge: a half of the schedule's rate, then, from there, all of it."""
    group, scheduler = {"lr": 0.1, "initial_lr": 0.1}, SimpleNamespace(base_lrs=[0.1])
    trainer = SimpleNamespace(optimizer=SimpleNamespace(param_groups=[group]), lr_scheduler=scheduler)
    for used, share in ((1.6, 0.5), (0.8, 0.5), (1.6, 0.25), (0.2, 1.0)):
        hold_at(0.8)(trainer, SimpleNamespace(verdict="unstable", used=used))
        assert (group["lr"], *scheduler.base_lrs) == pytest.approx((0.1 * share,) * 2)


def test_the_last_lines_and_all_measurements_are_in_the_numbers():
    report = ProbeReport({"N": 4}, lines=[f"line {at}" for at in range(8)])
    for step in (2, 4):
        report.add(step, margin(measured(0.2, 1.0, 0.1), Loop(0.1)))
    numbers = report.numbers("on")
    assert numbers["said"] == [f"line {at}" for at in range(3, 8)]
    assert [(one["step"], one["stiffness"], one["stale"]) for one in numbers["measurements"]] == [
        (2, 1.2, 1),
        (4, 1.2, 1),
    ]

"""Steps per cycle of the dominant mode, against its closed form per step and against counted turns of a run."""

import math

import pytest

from bandit_lab.theory import LinearLoop, period


def per_step(kappa: float, momentum: float) -> float:
    """Period of the heavy ball on policy: z^2 - (1 + mu - kappa) z + mu = 0."""
    return 2 * math.pi / math.acos((1 + momentum - kappa) / (2 * math.sqrt(momentum)))


@pytest.mark.parametrize("interval", [1, 2, 4, 16, 40])
def test_a_wholly_fresh_stiffness_rings_with_the_period_of_one_step_whatever_the_block(interval):
    """The block's multiplier alone gave 47.7 steps at 16 and no cycle where N is a whole number of periods."""
    assert period(LinearLoop(2.15, 0.0, 0.9), 1.0, interval) == pytest.approx(per_step(2.15, 0.9), rel=1e-9)


@pytest.mark.parametrize("interval", [1, 2, 3, 8])
def test_a_sign_that_changes_at_every_step_is_a_period_of_two(interval):
    assert period(LinearLoop(1.5, 0.0, 0.0), 1.0, interval) == pytest.approx(2)


def test_a_stale_mode_that_flips_from_block_to_block_takes_two_blocks_and_a_slow_one_none():
    assert period(LinearLoop(0.0, 1.0, 0.0), 1.5 / 8, 8) == pytest.approx(16)
    assert period(LinearLoop(0.0, 1.0, 0.0), 0.5 / 8, 8) is None


@pytest.mark.parametrize("model", ["refresh", "pipeline", "lag"])
@pytest.mark.parametrize(("fresh", "stale", "interval"), [(0.0, 0.05, 6), (0.3, 0.2, 12), (2.0, 0.2, 25)])
def test_turns_of_a_run(model, fresh, stale, interval):
    """Zero crossings of a run of the loop itself, step by step, over 100 periods: to one crossing in 100."""
    loop, rate, momentum = LinearLoop(fresh, stale, 0.9, model), 0.1, 0.9
    expected = period(loop, rate, interval)
    w, past, crossings = 0.0, [1.0] * (2 * interval + 1), []
    for t in range(int(100 * expected)):
        age = {"refresh": t % interval, "pipeline": t % interval + interval, "lag": interval}[model]
        x = past[-1]
        w = momentum * w - rate * (fresh * x + stale * past[-1 - age])
        if x * (x + w) < 0:
            crossings.append(t - x / w)
        size = max(map(abs, [*past[1:], x + w]))
        past, w = [value / size for value in [*past[1:], x + w]], w / size
    late = crossings[len(crossings) // 2 :]
    assert 2 * (late[-1] - late[0]) / (len(late) - 1) == pytest.approx(expected, rel=1 / (len(late) - 1))

"""What a curve, a measured stiffness, a failure or nothing permits."""

import numpy as np
import pytest

from bandit_lab.curves.advise import (
    REACH,
    SPREAD,
    StalenessLoop,
    after_failure,
    from_curve,
    from_stiffness,
    has_fallen,
    keep,
    spread_needed,
)

MODELS = ("refresh", "lag", "pipeline")
LOOPS = [StalenessLoop(model, n, mu, "ema") for model in MODELS for n in (1, 4) for mu in (0.0, 0.9)]


@pytest.mark.parametrize("loop", LOOPS, ids=str)
@pytest.mark.parametrize("margin", [0.5, 2.0, 4.0, 9.0, 100.0])
def test_a_curve_permits_the_law_over_the_spread(loop, margin):
    """By hand: margin/3.5 between 1 and 4; with a pipeline the exact threshold is below the law, and it counts. Less
    than what was run is permitted where the exact margin itself is below the safety of 2."""
    kappa = loop.law / margin
    found = from_curve(loop, kappa, 2.0)
    exact = loop.exact.kappa / kappa
    if exact < 2:
        assert found.factor == pytest.approx(exact / 2)
        assert found.interval <= loop.interval
        return
    least = min(margin, exact)
    assert found.factor == pytest.approx(min(max(least / SPREAD, 1.0), REACH))
    assert loop.interval <= found.interval <= REACH * loop.interval
    assert found.interval <= max(loop.interval, loop.interval * margin / SPREAD + 1e-9)
    assert from_curve(loop, kappa, 50.0).factor <= found.factor  # a larger safety never permits more
    assert from_curve(loop, kappa, 2.0, spread=1.0).factor >= found.factor


def test_a_measured_stiffness_gives_the_exact_threshold():
    loop = StalenessLoop("refresh", 8, 0.9)
    kappa = loop.exact.kappa / 6
    found = from_stiffness(loop, kappa, 2.0)
    assert found.factor == pytest.approx(3)
    assert loop.at(found.interval).exact.kappa >= 2 * kappa > loop.at(found.interval + 1).exact.kappa
    assert from_stiffness(loop, 3 * loop.exact.kappa, 2.0).factor < 1  # beyond: down


def test_nothing_and_failures_permit_nothing_more():
    for loop in LOOPS:
        same, less = keep(loop, "no evidence", "why"), after_failure(loop, "fell")
        assert (same.factor, same.interval) == (1, loop.interval)
        assert less.factor == 0.5
        assert less.interval <= loop.interval
        assert not less.group(8, 4, adaptive=False)
        assert less.group(8, 8, adaptive=True)


def test_group_sizes_are_heat():
    """Half the group is twice the heat; with Adam four times the group is twice the learning rate."""
    loop = StalenessLoop("refresh", 1, 0.9, "ema")
    found = from_curve(loop, loop.law / (2.1 * SPREAD), 2.0)
    assert found.factor == pytest.approx(2.1)
    assert found.group(8, 4, adaptive=False)
    assert not found.group(8, 3, adaptive=False)
    assert found.group(8, 32, adaptive=True)
    assert not found.group(8, 64, adaptive=True)
    assert found.group(8, 4096, adaptive=False)


def test_a_fall_is_told_from_noise():
    """1,000 rises of 100 points that stay up, noise 0.05: at most 20 are called fallen. Planted: a fall by a third of
    the rise in the last fifth is called in at least 990. Seed 5."""
    rng = np.random.default_rng(5)
    step = np.arange(100)
    rise = 0.2 + 0.6 * (1 - np.exp(-step / 15))
    fall = rise - 0.2 * (step >= 78)
    noise = 0.05 * rng.normal(size=(1000, 100))
    assert sum(has_fallen(rise + one, 0.05) for one in noise) <= 20
    assert sum(has_fallen(fall + one, 0.05) for one in noise) >= 990
    assert not has_fallen(rise[:12], 0.05)


def test_the_spread_is_what_the_collapse_says():
    """From 2 updates per batch with a margin of 13.6, 8 collapsed: a smaller spread would have permitted it."""
    loop = StalenessLoop("refresh", 2, 0.9, "ema")
    spread = spread_needed(13.6, 8 / 2)
    assert spread == pytest.approx(3.4)
    assert from_curve(loop, loop.law / 13.6, 2.0, spread=1.01 * spread).interval < 8
    assert from_curve(loop, loop.law / 13.6, 2.0, spread=0.99 * spread).interval == 8
    assert spread <= SPREAD


def test_bad_input_is_refused():
    loop = StalenessLoop("refresh", 2, 0.9)
    with pytest.raises(ValueError, match="spread: expected a number >= 1"):
        from_curve(loop, 0.1, 2.0, spread=0.5)
    with pytest.raises(ValueError, match="kappa"):
        from_curve(loop, 0.0, 2.0)

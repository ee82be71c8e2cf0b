"""Margins, largest safe settings and group sizes against known values, enumeration and integration."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from bandit_lab.runs.advise import (
    DifficultySpread,
    StalenessLoop,
    group_factor,
    group_for_factor,
    group_for_signal,
    kappa_of_delay,
    largest_safe_interval,
    largest_safe_kappa,
    margin,
    silent_share,
    spread_from_silence,
)

# kappa_c N/(1 - mu), each known from two independent calculations.
REFERENCE = [
    ("refresh", 2, 0.9, 4.2222), ("refresh", 8, 0.9, 2.7087), ("refresh", 64, 0.95, 3.8777), ("lag", 2, 0.9, 1.025),
    ("lag", 1, 0.7, 1.0), ("pipeline", 2, 0.9, 0.8328), ("pipeline", 8, 0.9, 0.8181), ("pipeline", 8, 0.99, 0.7103),
    ("pipeline", 64, 0.99, 0.7686), ("refresh", 1, 0.9, 38.0), ("refresh", 5, 0.0, 2.0),
]  # fmt: skip


@pytest.mark.parametrize("convention", ["heavy_ball", "ema"])
@pytest.mark.parametrize(("model", "interval", "momentum", "ratio"), REFERENCE)
def test_margin_over_the_laws_margin(model, interval, momentum, ratio, convention):
    loop = StalenessLoop(model, interval, momentum, convention)
    found = margin(loop, 0.01)
    assert found.exact / found.law == pytest.approx(ratio, abs=6e-5)
    # The law itself: kappa N = 1 - mu (heavy ball) or 1 (EMA), so its margin at kappa = 0.01 is that over 0.01 N.
    assert found.law == pytest.approx(
        (1 - momentum if convention == "heavy_ball" else 1) / (0.01 * interval), rel=1e-12
    )


@pytest.mark.parametrize("model", ["refresh", "lag", "pipeline"])
@pytest.mark.parametrize("momentum", [0.0, 0.544, 0.9, 0.99])
def test_largest_safe_interval_is_the_largest(model, momentum):
    """Against all intervals one by one; the exact threshold falls with N, so that there is one such place."""
    loop = StalenessLoop(model, 4, momentum)
    kappas = np.array([loop.at(n).exact.kappa for n in range(1, 130)])
    assert np.all(np.diff(kappas) < 0)
    for wanted in (1, 3, 17, 100):
        kappa = 0.999 * kappas[wanted - 1] / 2.0
        assert largest_safe_interval(loop, kappa, 2.0).exact == wanted
        assert largest_safe_interval(loop, kappa * 1.002, 2.0).exact != wanted
    assert largest_safe_interval(loop, 1e-9, 2.0).capped
    assert largest_safe_interval(loop, 1e3, 2.0).exact is None


def test_law_of_the_response_time():
    """tau = gamma/lambda gives the law's margin (tau + mean age)/N whatever learning rate and momentum are."""
    for model, interval, momentum, convention in itertools.product(
        ("refresh", "lag", "pipeline"), (1, 4), (0.0, 0.9), ("heavy_ball", "ema")
    ):
        loop = StalenessLoop(model, interval, momentum, convention)
        kappa = kappa_of_delay(loop, 12.0)
        assert margin(loop, kappa).law == pytest.approx((12.0 + loop.mean_age) / interval, rel=1e-12)
    # By hand: heavy ball, mu = 0.9, N = 3 (mean age 1), tau = 9: kappa = 0.1/10, law's threshold 0.1/3, margin 10/3.
    by_hand = StalenessLoop("refresh", 3, 0.9)
    assert kappa_of_delay(by_hand, 9.0) == pytest.approx(0.01)
    assert margin(by_hand, 0.01).law == pytest.approx(10 / 3)


def test_response_time_against_a_simulated_loop():
    """The stiffness read off the mean delay of a simulated stale loop is the one that it was run with (3 %)."""
    for interval, momentum, kappa in ((1, 0.9, 0.002), (4, 0.9, 0.001), (8, 0.0, 0.01)):
        x, velocity, seen, path = 1.0, 0.0, 1.0, []
        for step in range(60_000):
            path.append(x)
            seen = x if step % interval == 0 else seen
            velocity = momentum * velocity - kappa * seen
            x += velocity
        delay = float(np.sum(path))  # mean delay of a response 1 - x that starts at rest
        loop = StalenessLoop("refresh", interval, momentum)
        assert kappa_of_delay(loop, delay) == pytest.approx(kappa, rel=0.03)
        wrong = StalenessLoop("refresh", interval, 0.5 * momentum + 0.3)
        assert kappa_of_delay(wrong, delay) != pytest.approx(kappa, rel=0.03)


def test_limits_in_other_units():
    loop = StalenessLoop("refresh", 8, 0.9)
    found = largest_safe_kappa(loop, 2.0)
    assert found.law == pytest.approx(0.1 / 8 / 2)
    assert found.exact == pytest.approx(2.7087 * 0.1 / 8 / 2, rel=1e-4)
    near = found.in_units_of(0.001).within(4.0)
    assert (near.law, near.exact, near.capped, near.law_capped) == (4.0, 4.0, True, True)
    assert not found.in_units_of(0.01).within(4.0).capped
    assert largest_safe_kappa(StalenessLoop("lag", 0, 0.5), 2.0).law is None


def test_silent_groups_by_enumeration():
    for size, p in ((2, 0.3), (4, 0.05), (6, 0.9)):
        silent = sum(
            p ** sum(rewards) * (1 - p) ** (size - sum(rewards))
            for rewards in itertools.product((0, 1), repeat=size)
            if len(set(rewards)) == 1
        )
        assert silent_share(p, size) == pytest.approx(silent, rel=1e-12)


def test_factor_of_the_gradient():
    for size, p, known in ((4, 0.5, 0.808), (4, 0.8, 0.663), (16, 0.95, 0.712), (64, 0.99, 0.670)):
        assert group_factor("grpo", p, size) == pytest.approx(known, abs=6e-4)
    assert group_factor("dr_grpo", 0.3, 8) == pytest.approx(7 / 8)
    assert group_factor("rloo", 0.3, 8) == pytest.approx(1.0)
    assert group_factor("dr_grpo", 0.3, 2) == pytest.approx(1 / 2)
    assert group_factor("dr_grpo", 0.3, 1) is None
    assert group_factor("grpo", 0.0, 8) is None


def test_group_sizes_for_a_wish():
    # 1 - 0.9^G - 0.1^G >= 0.9 first at G = 22: 0.9^21 = 0.109, 0.9^22 = 0.0985.
    assert group_for_signal(0.1, 0.9) == 22
    assert group_for_signal(0.5, 0.9) == 5  # 2/2^5 = 0.0625, 2/2^4 = 0.125
    assert group_for_factor("dr_grpo", 0.3, 0.9) == 10  # 1 - 1/10
    found = group_for_factor("grpo", 0.8, 0.9)
    assert group_factor("grpo", 0.8, found) >= 0.9 > group_factor("grpo", 0.8, found - 1)
    assert group_for_signal(0.0, 0.9) is None
    assert group_for_signal(1e-5, 0.9) is None


@pytest.mark.parametrize(("mean", "concentration"), [(0.3, 2.0), (0.7, 0.4), (0.05, 30.0)])
def test_spread_over_prompts(mean, concentration):
    spread = DifficultySpread(mean, concentration)
    law = stats.beta(concentration * mean, concentration * (1 - mean))
    for size in (2, 8):
        by_quadrature = integrate.quad(lambda q, size=size: silent_share(float(law.ppf(q)), size), 0, 1, limit=400)[0]
        assert spread.silent(size) == pytest.approx(by_quadrature, abs=2e-4)
        assert spread.silent(size) > silent_share(mean, size)  # Jensen
    assert spread.std == pytest.approx(law.std())
    again = spread_from_silence(mean, 8, spread.silent(8))
    assert again.concentration == pytest.approx(concentration, rel=1e-6)
    assert again.silent(16) == pytest.approx(spread.silent(16))


def test_silence_that_tells_no_spread():
    assert spread_from_silence(0.3, 8, 0.5 * silent_share(0.3, 8)) is None
    assert spread_from_silence(0.3, 8, 1.0) is None
    assert spread_from_silence(0.0, 8, 1.0) is None
    assert spread_from_silence(0.5, 1, 1.0) is None
    assert math.isclose(DifficultySpread(0.3, 1e6).silent(8), silent_share(0.3, 8), rel_tol=1e-3)

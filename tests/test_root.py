"""The root that predictions find without SciPy, against SciPy's."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from bandit_lab._root import first_beyond, root

FUNCTIONS = (
    *(lambda x, c=c: math.tanh(3 * (x - c)) for c in (-0.9, 0.1, 0.77)),
    *(lambda x, c=c: (x - c) ** 3 for c in (-0.5, 0.3)),
    lambda x: math.expm1(20 * x) - 1e-9,
    lambda x: min(math.exp(30 * x), 1e3) - 2.0,
    lambda x: math.copysign(1.0, x - 0.25),
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_root_is_where_scipy_finds_it(function):
    """Flat, steep, clipped and broken functions. Planted: a root off by 1e-9 would be another one."""
    place = root(function, -1.0, 1.0)
    expected = brentq(function, -1.0, 1.0, xtol=1e-300, rtol=1e-15, maxiter=2000)
    assert place == pytest.approx(expected, rel=1e-9, abs=1e-14)
    assert np.sign(function(place - 1e-9)) != np.sign(function(place + 1e-9))


def test_a_root_at_an_end_and_none_at_all():
    assert root(lambda x: x, 0.0, 1.0) == 0.0
    assert root(lambda x: x - 1, 0.0, 1.0) == 1.0
    with pytest.raises(ValueError, match="root: expected opposite signs"):
        root(lambda x: x * x + 1, -1.0, 1.0)


def test_a_narrow_window_is_found_wherever_it_lies_on_the_grid():
    """Narrower than the grid's step, beside every inner point. Planted: missed at the border of two stretches."""
    grid = np.geomspace(0.01, 0.8, 64)
    for at in grid[1:-2] * 1.028:
        found = first_beyond(lambda r, at=at: 0.6 + 0.45 * np.exp(-((np.log(r / at) / 0.02) ** 2)) + 0j, grid)
        assert found is not None
        assert 0.95 < found[0] / at < 1

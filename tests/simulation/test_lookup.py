"""A row of its own for every lane."""

import jax
import numpy as np
import pytest

from bandit_lab._numerics import row_of_each


@pytest.mark.parametrize(("size", "lanes"), [(1, 64), (3, 64), (3, 20), (2, 7)])
def test_every_lane_gets_its_own_row(size, lanes):
    """Exactly, also where the lanes are no multiple of those taken together; a neighbour's place is another row."""
    table = np.random.default_rng(0).normal(size=(5, size, lanes))
    place = np.random.default_rng(1).integers(0, 5, lanes).astype(np.int32)
    rows = np.asarray(jax.jit(row_of_each)(table, place))
    np.testing.assert_array_equal(rows, table[place, :, np.arange(lanes)].T)
    assert np.any(rows != table[np.roll(place, 1), :, np.arange(lanes)].T)

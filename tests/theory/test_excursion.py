"""Which starts the first block throws out for long, against iteration of the nonlinear block map."""

import numpy as np
import pytest

from experiments.shared.theory.excursion import edges, place_of_return

FAR, BLOCKS = 5.0, 3000


def skew(x: float) -> float:
    """A drift that falls through zero at 0 with slope -1 and is flat far above."""
    return float(-x * np.exp(-x))


def blocks_beyond(start: float, push: float) -> int:
    """How many blocks until a run is below FAR for good."""
    x, last = start, 0
    for block in range(4 * BLOCKS):
        x += push * skew(x)
        last = block + 1 if x > FAR else last
    return last


@pytest.mark.parametrize("push", [1.2, 2.2])
def test_starts_within_the_edges_are_out_for_the_time_and_no_others(push):
    limit = place_of_return(skew, 0.0, FAR, np.array([BLOCKS * push]))
    high = edges(skew, -4.0, 1.0, np.array([push]), limit)[0, 1]
    assert blocks_beyond(high - 0.02, push) > BLOCKS > blocks_beyond(high + 0.02, push)
    # planted defect: the edge for twice the time is another one
    other = place_of_return(skew, 0.0, FAR, np.array([2 * BLOCKS * push]))
    assert abs(edges(skew, -4.0, 1.0, np.array([push]), other)[0, 1] - high) > 0.02

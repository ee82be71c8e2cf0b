"""Numbers that the claims of experiments/temperature.py compare."""

import numpy as np
import xarray


def corner(data: xarray.Dataset, name: str, momentum: float, first: bool = False) -> float:
    """The largest (or smallest) interval of a momentum at the largest share."""
    mine = np.flatnonzero(data.momentum.values == momentum)
    return float(data[name][mine[0 if first else -1]].values.flat[-1])

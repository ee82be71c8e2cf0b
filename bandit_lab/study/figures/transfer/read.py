"""Numbers that the claims of experiments/transfer.py compare."""

import xarray


def area(data: xarray.Dataset, **where) -> xarray.DataArray:
    """Mean success over the run, per held-out task."""
    return data.held_out.sel(where).mean("time")


def gap(data: xarray.Dataset) -> float:
    """What the larger group gains over the smaller one with `grpo`."""
    low, high = data.group.values
    return float((area(data, advantage="grpo", group=high) - area(data, advantage="grpo", group=low)).mean())

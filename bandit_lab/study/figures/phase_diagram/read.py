"""Numbers that the claims of experiments/phase_diagram.py compare."""

import xarray

from bandit_lab.study.reproduce.experiment import Found


def over_law(part: xarray.Dataset, f: Found, model: str) -> xarray.DataArray:
    """Thresholds over the law's where a policy is stale at all (model A at N = 1 is on-policy)."""
    ratio = (part.threshold / f.predicted.law).sel(model=model)
    return ratio.sel(refresh_interval=slice(2, None)) if model == "refresh" else ratio

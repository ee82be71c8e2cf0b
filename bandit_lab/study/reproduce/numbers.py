"""The numbers of a figure as one long CSV table: role, quantity, unit, a column per coordinate, value."""

import csv
import io
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

    from bandit_lab.study.reproduce.experiment import Found


def csv_of(found: "Found") -> str:
    """Every number of the predicted and the measured data set; missing values and coordinates are empty."""
    parts = {"predicted": found.predicted, "measured": found.measured}
    dims = list(dict.fromkeys(str(d) for part in parts.values() for v in part.variables.values() for d in v.dims))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["role", "quantity", "unit", *dims, "value"])
    for role, part in parts.items():
        for name, variable in part.reset_coords().data_vars.items():
            unit = variable.attrs.get("units", "")
            for place, value in _entries(variable, dims):
                table.writerow([role, name, unit, *place, value])
    return text.getvalue()


def _entries(variable: "xarray.DataArray", dims: list[str]) -> Any:
    """([coordinate or '' for every name in dims], value) of every element."""
    labels = [variable[d].values if d in variable.coords else np.arange(variable.sizes[d]) for d in variable.dims]
    values = np.asarray(variable.values).ravel()
    order = [variable.dims.index(d) if d in variable.dims else None for d in dims]
    for place, value in zip(itertools.product(*labels), values, strict=True):
        yield [_text(place[i]) if i is not None else "" for i in order], _text(value)


def _text(value: Any) -> str:
    """Ten significant digits; empty for NaN."""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.10g}"
    return str(value)

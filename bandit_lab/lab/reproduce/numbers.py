"""The numbers of a figure as one table of text, and read back, so that it can be drawn again without a measurement."""

import csv
import io
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab.lab.reproduce.experiment import Results

if TYPE_CHECKING:
    import xarray


def as_csv(results: Results) -> str:
    """All numbers predicted and measured as one long table: role, quantity, unit, a column per coordinate, value.

    Missing values and coordinates are empty.
    """
    parts = {"predicted": results.predicted, "measured": results.measured}
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


def from_csv(text: str) -> "tuple[xarray.Dataset, xarray.Dataset]":
    """(predicted, measured) from the text of `as_csv`: ten digits, and of attributes the units alone.

    Coordinates that count from 0 are left out. Of coordinates without a dimension of their name, those of text are
    coordinates again, the others variables.
    """
    import xarray

    head, *rows = csv.reader(io.StringIO(text))
    dims = head[3:-1]
    variables: dict[str, dict[str, Any]] = {"predicted": {}, "measured": {}}
    labels: dict[str, dict[str, Any]] = {"predicted": {}, "measured": {}}
    for (role, name, unit), group in itertools.groupby(rows, lambda row: tuple(row[:3])):
        *places, values = zip(*(row[3:] for row in group), strict=True)
        seen = {dim: list(dict.fromkeys(place)) for dim, place in zip(dims, places, strict=True) if any(place)}
        order = sorted(seen, key=lambda dim: -_changes_at(places[dims.index(dim)]))
        one = order[0] if len(order) == 1 else None  # its labels need not differ
        shape = [len(values)] if one else [len(seen[dim]) for dim in order]
        variables[role][name] = (order, _values(values).reshape(shape), {"units": unit})
        for dim in order:
            labels[role][dim] = _values(places[dims.index(dim)] if one else seen[dim])
    datasets = []
    for role, mine in variables.items():
        whole = xarray.Dataset(mine, {dim: x for dim, x in labels[role].items() if not _are_plain_numbers(x)})
        datasets.append(whole.set_coords([name for name, x in whole.data_vars.items() if x.dtype.kind == "U"]))
    return datasets[0], datasets[1]


def _changes_at(place: tuple[str, ...]) -> int:
    """First row at which a dimension's label changes (the number of rows if it never does)."""
    return next((row for row, label in enumerate(place) if label != place[0]), len(place))


def _values(texts: Any) -> np.ndarray:
    """Numbers, truth values or text, whatever all of them are; an empty one is NaN among numbers."""
    if set(texts) <= {"True", "False"}:
        return np.array([text == "True" for text in texts])
    for kind in (int, float, complex):
        try:
            return np.array([kind(text or "nan") for text in texts])
        except ValueError:
            continue
    return np.array(texts)


def _are_plain_numbers(labels: np.ndarray) -> bool:
    return labels.dtype.kind == "i" and np.array_equal(labels, np.arange(labels.size))

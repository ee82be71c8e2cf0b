"""Parts of `reproduce`: the verdict, the entries of the cache, what a function is seen to import."""

import numpy as np
import pytest
import xarray

from bandit_lab.study.reproduce import cache, claims, source
from bandit_lab.study.reproduce.experiment import Claim, Found, as_setting


def _found(predicted: float, measured: float, quality: str = "draft") -> Found:
    data = [xarray.Dataset({"x": ((), value)}) for value in (predicted, measured)]
    return Found(*data, as_setting({"quality": quality, "tolerance": {"x": 0.25}}))


@pytest.mark.parametrize(
    ("measured", "tolerance", "relative", "holds"),
    [
        (2.5, 0.5, False, True),
        (2.50001, 0.5, False, False),
        (1.5, 0.25, True, True),
        (1.4999, 0.25, True, False),
        (1.5, lambda f: f.setting.tolerance.x, True, True),
        (float("nan"), 1e9, False, False),
    ],
)
def test_the_verdict_is_the_distance_against_the_tolerance(measured, tolerance, relative, holds):
    claim = Claim("a.b", "", "", lambda f: float(f.predicted.x), lambda f: float(f.measured.x), tolerance, relative)
    row = claims.row(claim, _found(2.0, measured))
    assert row["holds"] is holds
    assert row["holds"] is bool(abs(row["measured"] - row["predicted"]) <= row["tolerance"])


def test_entries_keep_types_attributes_and_coordinates():
    dataset = xarray.Dataset(
        {
            "number": (("a", "b"), np.array([[1.5, np.nan, np.inf], [-0.0, 1e-300, 3.0]]), {"units": "m", "n": 3}),
            "count": ("a", np.array([1, 2**62])),
            "flag": ("a", np.array([True, False])),
            "pole": ("a", np.array([1j, 2.0])),
            "name": ("a", np.array(["one", "zwölf"], dtype=object)),
            "single": ((), np.float32(0.1)),
        },
        {"a": ["x", "y"], "b": [0.1, 0.2, 0.3], "label": ("a", ["p", "q"])},
        {"about": "all"},
    )
    back = cache.unpack(cache.pack(dataset))
    xarray.testing.assert_identical(back, dataset.assign(name=dataset["name"].astype(str)))
    assert {name: v.dtype.kind for name, v in back.data_vars.items()} == {
        "number": "f",
        "count": "i",
        "flag": "b",
        "pole": "c",
        "name": "U",
        "single": "f",
    }


def test_what_a_function_imports_is_seen_through_its_helpers():
    text = (
        "import bandit_lab.measure as m\nfrom bandit_lab import theory\n"
        "def helper(x):\n    return theory.exact('lag', x, 0.0)\n"
        "def predict(x):\n    return helper(x)\n"
        "def measure(x):\n    from bandit_lab.theory import leading_order\n"
        "    return m.growth_rate(leading_order(x, 0.0))\n"
    )
    assert "bandit_lab.theory.exact" in source.imported(text, "predict")
    assert not any(name.startswith("bandit_lab.measure") for name in source.imported(text, "predict"))
    assert {"bandit_lab.theory.leading_order", "bandit_lab.measure.growth_rate"} <= source.imported(text, "measure")

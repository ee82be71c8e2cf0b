"""`predict plot=branch`: its section, data and picture."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray

import bandit_lab as bl
from bandit_lab.app.cli import main

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def test_a_flip_is_told_with_the_cycle_that_grows_from_it(tmp_path):
    setting = ["refresh_interval=8", "momentum=0", "dynamics=mean_field", "plot=branch"]
    assert main(["predict", f"run_dir={tmp_path}/run", *setting]) == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    branch, rates = summary["branch"], summary["thresholds"]["learning_rate"]
    first, second = branch["bifurcations"]
    assert (first["kind"], first["of"], second["of"]) == ("flip", "fixed_point", "cycle")
    assert first["learning_rate"] == pytest.approx(rates["exact"], rel=1e-9)
    assert branch["criticality"] == "supercritical"
    assert branch["slope"] == pytest.approx(branch["slope_theory"], rel=1e-6)
    assert f"{second['ratio']:.3g} times" in branch["finding"]
    assert (tmp_path / "run/branch.png").stat().st_size > 10_000
    data = xarray.open_zarr(tmp_path / "run/results.zarr").load()
    assert data["cycle_ratio"].values[0] == pytest.approx(1, abs=1e-9)
    # amplitude^2 grows along its slope, and no other
    near = data.isel(cycle=slice(1, 4))
    np.testing.assert_allclose(near["cycle_swing"] ** 2 / (near["cycle_ratio"] - 1), branch["slope"], rtol=0.05)
    assert data.attrs["law"] == pytest.approx(rates["leading_order"])


def test_the_picture_is_drawn_on_given_axes_and_says_what_it_found():
    setting = {"refresh_interval": 4, "momentum": 0.0, "staleness": "lag", "dynamics": "mean_field"}
    found = bl.predict(plot="branch", **setting)
    assert found.to_dict() == bl.predict(plot="branch", **setting).to_dict()
    assert found.branch.bifurcations[0].kind == "neimark_sacker"
    axes = plt.figure().add_subplot()
    assert found.plot(ax=axes) is axes
    assert axes.get_title().replace("\n", " ").replace("\xa0", " ") == found.branch.finding
    assert {"fixed point", "circle (measured)", "published law"} == {
        text.get_text() for text in axes.get_legend().get_texts()
    }
    assert "Neimark-Sacker" in [text.get_text() for text in axes.texts]
    law = found.data.attrs["law"] / found.data.attrs["threshold"]
    assert law in [line.get_xdata()[0] for line in axes.lines]
    plt.close(axes.figure)


def test_what_has_no_branches_says_why():
    found = bl.predict(optimizer="adam", refresh_interval=4, plot="branch")
    assert "second moments" in found.branch.criticality_reason
    assert found.data is None
    with pytest.raises(ValueError, match="plot: expected a result with a picture"):
        found.plot()
    with pytest.raises(ValueError, match="plot: expected one of branch, got 'tree'"):
        bl.predict(plot="tree")

"""The off-policy record of a sweep: that of `simulate` for every cell, and nothing where it is not asked for."""

import numpy as np
import pytest
import xarray

import bandit_lab as bl
from bandit_lab.app.chunks.run import key_of
from bandit_lab.app.settings.config import SweepSettings
from bandit_lab.lab.sweep.jobs import OFF_POLICY, SAMPLED
from bandit_lab.lab.sweep.plan import prepare
from bandit_lab.lab.sweep.sampled import plan_sampled
from bandit_lab.simulation.off_policy import UNITS

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SETTING = {"momentum": 0.5, "group_size": 8, "seeds": 20, "steps": 12, "estimator": {"name": "clipped", "epsilon": 0.2}}
GRID = {"sweep": {"refresh_interval": [1, 4]}, "sampled": {"multiple": [0.3, 0.9], "start": "initial"}}


def work(**settings):
    """The chunks of a sweep's sampled runs, by their kind; what is given counts as given."""
    plan = prepare(SweepSettings(**{**SETTING, "sweep": GRID["sweep"], **settings}), frozenset({*SETTING, *settings}))
    cells = bl.grpo.Hyper(np.ones(2), np.full(2, 0.5), np.array([1, 4]), np.ones(2))
    return plan_sampled(plan, None, cells, np.array([[0.1, 0.2]] * 2)).work


@pytest.mark.slow
def test_a_cell_has_the_record_of_simulate(tmp_path):
    """The same runs, to float32's last digits. Planted: the cell of another learning rate, and that of another age."""
    bl.sweep(run_dir=str(tmp_path), off_policy=True, pictures=False, **SETTING, **GRID)
    data = xarray.open_zarr(tmp_path / "results.zarr").load().isel(kl_weight=0, sampled_momentum=0)
    cell = data.sel(sampled_refresh_interval=4, multiple=0.9)
    one = bl.simulate(learning_rate=float(cell.sampled_learning_rate), refresh_interval=4, off_policy=True, **SETTING)
    for name in UNITS:
        np.testing.assert_allclose(cell[name], one[name], rtol=1e-5, atol=1e-7)
        assert cell[name].attrs == {"units": UNITS[name], "seeds": 20}
    others = data.sel(sampled_refresh_interval=4, multiple=0.3), data.sel(sampled_refresh_interval=1, multiple=0.9)
    for other in others:
        assert np.abs(other.chi_square - one.chi_square).max() > 1e-3
    assert np.all(np.isfinite(data.gradient_cosine.isel(update=slice(1, None))))


def test_nothing_is_done_where_it_is_not_asked_for():
    """One kind of work, with the keys that it had; asked for, the same and another one, whose key knows its start."""
    plain, asked = work(), work(off_policy=True)
    assert (list(plain), list(asked)) == ([SAMPLED], [SAMPLED, OFF_POLICY])
    assert [key_of(one) for one in plain[SAMPLED]] == [key_of(one) for one in asked[SAMPLED]]
    assert key_of(asked[OFF_POLICY][0]) not in [key_of(one) for one in asked[SAMPLED]]
    (many,) = work(off_policy=True, seeds=4096)[OFF_POLICY]
    assert many.seeds == 128


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dynamics": "mean_field"}, "off_policy: expected false with exact dynamics"),
        ({"staleness": {"name": "random_mean"}}, "off_policy: expected false where several policies act at once"),
    ],
)
def test_where_there_is_no_record(settings, said):
    with pytest.raises(ValueError, match=said):
        work(off_policy=True, **settings)

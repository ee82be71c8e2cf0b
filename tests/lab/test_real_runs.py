"""The experiment on real logs: absent logs are a reason, and a curve can be drawn from the numbers that are kept."""

import sys
from unittest import SkipTest

import numpy as np
import pytest
import xarray
from grpo_clinic.fitting import fit_curve

from bandit_lab.lab.reproduce.experiment import discover, read_setting


@pytest.fixture
def experiment():
    return discover()["real_runs"].load()


@pytest.fixture
def module(experiment):
    return sys.modules["bandit_lab_experiment_real_runs"]


def test_without_logs_it_is_skipped_with_the_reason(experiment, monkeypatch, tmp_path):
    for folder in ("", str(tmp_path)):
        monkeypatch.setenv("BANDIT_LAB_LOGS", folder)
        with pytest.raises(SkipTest, match="BANDIT_LAB_LOGS"):
            experiment.check_available(read_setting("real_runs", "draft"))


def test_kept_numbers_give_the_fitted_curve_back(module):
    """Every law's curve from its parameters alone, on steps that start at 5; another plateau is noticed."""
    step = 5.0 + 2.0 * np.arange(40)
    reward = 0.8 - 0.5 * np.exp(-np.arange(40) / 8) + 0.03 * np.random.default_rng(3).normal(size=40)
    fit = fit_curve(step, reward, module.LAWS)
    for place, law in enumerate(module.LAWS):
        found = fit.laws[law].parameters
        numbers = np.array([found[name].value if name in found else np.nan for name in module.NUMBERS])
        kept = xarray.Dataset({"fitted": ("parameter", numbers), "chosen": place})
        np.testing.assert_allclose(module.fitted_curve(kept, step), fit.laws[law].fitted, atol=1e-9)
        kept.fitted[module.NUMBERS.index("plateau")] += 0.01
        assert np.max(np.abs(module.fitted_curve(kept, step) - fit.laws[law].fitted)) > 5e-3

"""Values that no setting can hold: one line that names the key, no exception of a library, no warning of NumPy."""

import warnings

import numpy as np
import pytest

import bandit_lab as bl
from bandit_lab import _checks
from bandit_lab.app.cli import BAD_INPUT, main
from bandit_lab.theory import fixed_points
from bandit_lab.theory.signal import MomentSignal

DIGITS = "1" * 401


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", f"learning_rate={DIGITS}"],
        ["predict", f"momentum=-{DIGITS}"],
        ["predict", f"bandit.rewards=[{DIGITS},0]"],
        ["predict", "learning_rate=1e308"],
        ["predict", "kl_weight=1e308"],
        ["predict", "bandit=k_arm", "bandit.rewards=[0,5e-324]", "advantage=dr_grpo"],
        ["sweep", f"sweep.learning_rate=[{DIGITS}]"],
        ["sweep", "sweep.learning_rate=[0.1,1e308]"],
        ["sweep", f"steps={DIGITS}"],
        ["explore", f"kl_weight={DIGITS}"],
    ],
)
def test_a_number_beyond_all_is_one_line(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    key = arguments[-1].partition("=")[0]
    key = "bandit.rewards" if "rewards" in " ".join(arguments) else key
    assert main(arguments) == BAD_INPUT
    err = capsys.readouterr().err
    assert err.startswith(f"bandit_lab {arguments[0]}: {key}")
    assert ": expected " in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


VALUES = [10**400, 10**5000, b"1", bytearray(b"1"), {1, 2}, 1j, np.array([1j]), object()]


@pytest.mark.parametrize("value", VALUES, ids=["400", "5000", "bytes", "bytearray", "set", "1j", "[1j]", "object"])
@pytest.mark.parametrize(
    ("function", "make"),
    [
        (bl.predict, lambda value: {"momentum": value}),
        (bl.predict, lambda value: {"bandit": {"name": "k_arm", "rewards": [value, 0]}}),
        (bl.simulate, lambda value: {"learning_rate": value}),
        (bl.sweep, lambda value: {"sweep": {"learning_rate": [value]}}),
        (bl.explore, lambda value: {"momentum": value}),
    ],
)
def test_nor_does_python_pass_on_what_no_configuration_holds(function, make, value):
    keywords = make(value)
    with pytest.raises(ValueError, match=rf"^{next(iter(keywords))}\S*: expected .*, got ") as caught:
        function(**keywords)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rate", [1e-300, _checks.LARGEST])
@pytest.mark.parametrize("more", [{}, {"momentum": 0.0}, {"optimizer": "nesterov"}, {"advantage": "dr_grpo"}])
def test_no_warning_at_the_ends_of_what_is_taken(rate, more):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        bl.predict(learning_rate=rate, **more)


def test_nor_from_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        bl.simulate(learning_rate=_checks.LARGEST, steps=3, seeds=4)


@pytest.mark.parametrize("gap", [1e-100, 1e-300, 5e-324])
@pytest.mark.parametrize("weight", [1e-200, 1e-3, 1.0, 1e30])
def test_the_fixed_point_of_arms_that_hardly_differ(gap, weight):
    """pi ~ pi_ref exp(r h / beta) with h = 1, by hand."""
    signal = MomentSignal((0.0, gap), (0.0, 0.0), "dr_grpo")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = fixed_points(signal, np.array([0.3, 0.7]), weight)
    worse = 0.3 * np.exp(-gap / weight) / (0.3 * np.exp(-gap / weight) + 0.7)
    np.testing.assert_allclose([one.policy for one in found], [[worse, 1 - worse]], atol=1e-12)

"""What `fit` prints of bounds and steps."""

import numpy as np
import pytest

from bandit_lab.app.document import Value
from bandit_lab.app.document.value import interval_text, telling
from bandit_lab.runs.fit.results import FittedNumber
from bandit_lab.runs.fit.show import as_value, says_nothing, steps_text
from bandit_lab.runs.logs.gather import Log
from bandit_lab.runs.read.record import RewardScale


def test_an_end_outside_the_scale_bounds_nothing():
    """Rewards in [0, 1]: `below 723` tells nothing, `below 0.9` does; a scale read off the rewards has some room."""
    given, read = (RewardScale(0.0, 1.0, known) for known in (True, False))
    values = [
        (Value(0.6).within(*ends, 0.9, "open"), scale)
        for ends, scale in [
            ([None, 723.0], given), ([-np.inf, 723.0], read), ([None, 0.9], given), ([None, 1.5], given),
            ([None, 1.5], read), ([-3.0, None], given), ([0.2, None], given), ([0.2, 2.0], given),
        ]
    ]  # fmt: skip
    said = ["not bounded" if says_nothing(value, scale) else value.text() for value, scale in values]
    nothing = "not bounded"
    assert said == [nothing, nothing, "below 0.9", nothing, "below 1.5", nothing, "above 0.2", "0.6 [0.2, 2]"]


def test_a_forecast_names_whole_steps():
    """240 steps logged every step: half of them on is 358.5; a log in parts of an epoch keeps its own steps."""
    assert steps_text([335.5, 358.5], [0.0, 239.0]) == "steps 335 to 359"
    assert steps_text([3.9, 4.2], [0.0, 2.9]) == "steps 3.9 to 4.2"


def test_an_interval_far_from_zero_has_digits_enough_to_be_read():
    """A reward of 10^6 and a little, and one that is nearly 1; an ordinary one keeps three digits, four for a value."""
    far = [1_000_000.785, 1_000_000.836]
    assert interval_text(far) == "[1000000.79, 1000000.84]"
    assert Value(1_000_000.8, low=far[0], high=far[1], level=0.9).text() == "1000000.8 [1000000.79, 1000000.84]"
    assert interval_text([0.99981, 0.99989]) == "[0.99981, 0.99989]"
    assert interval_text([0.7963, 0.8591]) == "[0.796, 0.859]"
    assert interval_text([None, 2.0]) == "[open, 2]"
    assert interval_text([1.0, 1.0]) == "[1, 1]"
    assert telling([0.7963, 0.8591], 4) == 4


@pytest.mark.parametrize(
    ("name", "path", "said"),
    [
        ("b.jsonl", "logs/b.jsonl", "b.jsonl: no curve: points: too few"),
        ("b", "logs/b.jsonl", "b: no curve: points: too few"),
        ("run 3", "logs/many.csv", "run 3: no curve: logs/many.csv: points: too few"),
    ],
)
def test_a_log_is_named_once(name, path, said):
    """A run of a shared file keeps the file's name beside its own."""
    assert Log(name, path, None, f"{path}: points: too few").line == said


def test_a_law_without_a_number_is_absent_not_an_error():
    made = as_value(FittedNumber(np.nan, -np.inf, np.inf, np.inf, "steps"), 0.9)
    assert made.value is None
    assert made.reason
    assert made.text() == "-"
    assert made.standard_error is not None
    assert made.standard_error.reason == "this curve does not bound it"

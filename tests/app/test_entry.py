"""What cannot be a setting is one line at the place where settings enter, before any work."""

import pytest

import bandit_lab as bl
from bandit_lab.app.cli import BAD_INPUT, main

LOOP: list = []
LOOP.append(LOOP)
DEEP: list = []
for _ in range(2000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["bandit=" + 5000 * "x"], "expected"),
        (["learning_rate=5e-324"], "learning_rate: expected a number from"),
        (["plugins=glob(*)"], "plugins"),
    ],
)
def test_on_the_command_line(arguments, key, capsys):
    assert main(["predict", *arguments]) == BAD_INPUT
    line = capsys.readouterr().err
    assert key in line
    assert line.count("\n") == 1
    assert len(line) < 600


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"bandit": {"name": "two_arm", "rewards": LOOP}}, "bandit.rewards"),
        ({"bandit": {"name": "two_arm", "rewards": DEEP}}, "bandit.rewards"),
        ({"optimizer": {"name": "adam", "options": [1, 2]}}, "optimizer.options"),
        ({"learning_rate": 5e-324}, "learning_rate"),
    ],
)
def test_in_python(settings, key):
    with pytest.raises(ValueError, match=f"^{key}: expected"):
        bl.predict(**settings)


def test_a_whole_number_that_no_array_holds_is_a_real_one():
    huge = {"name": "grpo", "eps": 2**63}
    assert float(bl.simulate(advantage=huge, seeds=8, steps=3).reward_mean[0]) == pytest.approx(0.5)

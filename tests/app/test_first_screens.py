"""The first screen of every command."""

import pytest

from bandit_lab.app.cli import OK, main
from bandit_lab.app.terminal.commands import COMMANDS


def test_the_commands_are_listed(capsys):
    assert main([]) == OK
    out = capsys.readouterr().out
    assert all(f"\n  {name}" in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_the_example_and_is_bounded(command, capsys):
    assert main([command, "--help"]) == OK
    out = capsys.readouterr().out
    assert COMMANDS[command].example in out
    assert len(out.splitlines()) <= 120

"""The first screen of every command."""

import pytest

from bandit_lab.app.cli import OK, main
from bandit_lab.app.commands import COMMANDS
from bandit_lab.app.settings.config import SCHEMAS, listed


def test_the_commands_are_listed(capsys):
    assert main([]) == OK
    out = capsys.readouterr().out
    assert all(f"\n  {name}" in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_every_setting_and_is_bounded(command, capsys):
    assert main([command, "--help"]) == OK
    out = capsys.readouterr().out
    assert f"\n  python -m bandit_lab {command} " in out
    assert all(f"\n  {key}=" in out for key, *_ in listed(SCHEMAS[command]))
    assert len(out.splitlines()) <= 120

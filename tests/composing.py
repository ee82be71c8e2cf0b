"""Settings as Hydra composes them, without running the command."""

from typing import Any

from bandit_lab.app import plugins, runner
from bandit_lab.app.cli import _overrides, _with_hydra


def composed(command: str, *arguments: str) -> Any:
    """The configuration that these arguments give."""
    overrides = _overrides(command, list(arguments))
    plugins.load_for_hydra(command, overrides)
    classes: list[Any] = []
    _with_hydra(command, overrides, classes.append)
    return classes[0]


def settings(command: str, *arguments: str) -> tuple[Any, frozenset[str]]:
    """(the command's settings, the keys that are given)."""
    return runner._settings_from(command, composed(command, *arguments)), frozenset(
        one.partition("=")[0] for one in arguments
    )

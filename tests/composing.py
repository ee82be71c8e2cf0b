"""Settings as Hydra composes them, without running the command."""

from typing import Any

from bandit_lab.app import cli


def composed(command: str, *arguments: str) -> Any:
    """The configuration that these arguments give."""
    classes: list[Any] = []
    cli._compose(command, cli._overrides(command, arguments), classes.append)
    return classes[0]


def settings(command: str, *arguments: str) -> tuple[Any, frozenset[str]]:
    """(the command's settings, the keys that are given)."""
    given = frozenset(one.partition("=")[0] for one in arguments)
    return cli._typed(command, composed(command, *arguments), arguments), given

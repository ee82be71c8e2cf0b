"""One guard around every hook that a trainer calls: what fails in it is said, and training goes on."""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any


def guarded(hook: Callable[..., None]) -> Callable[..., None]:
    """A hook of an object with `strict` and `failed_in`: an exception goes there, or on where `strict` is set."""

    @wraps(hook)
    def called(self: Any, args: Any, state: Any, control: Any, **rest: Any) -> None:
        try:
            hook(self, args, state, control, **rest)
        except Exception as error:
            if self.strict:
                raise
            with suppress(Exception):
                self.failed_in(hook.__name__, error)

    return called


def one_line(error: Exception) -> str:
    """An exception in at most 200 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]

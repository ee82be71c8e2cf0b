"""`python -m bandit_lab <command> [overrides]`."""

import gc
import os
import sys

if __name__ == "__main__":
    gc.set_threshold(100_000, 20, 20)  # what is imported stays: to look through it takes a sixth of a short command
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
    del sys.path[0]  # as `python -P`: the working directory may be somebody's run, and is no place for code

import io

from bandit_lab.app import cli
from bandit_lab.app.terminal.interrupt import end_at_once, leave

__all__ = ["main"]


def main() -> int:
    """One command, and the process's exit code; an interrupted one does not wait for its threads."""
    end_at_once()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path that is not UTF-8, or an encoding that lacks a letter
        sys.stdout.reconfigure(errors="backslashreplace")
    code = cli.main()
    if code == cli.INTERRUPTED:
        leave()
    return code


if __name__ == "__main__":
    ended = main()
    gc.freeze()  # else Python looks through all that is left before it ends: as long as a prediction
    sys.exit(ended)

"""`python -m bandit_lab <command> [overrides]`."""

import sys

from bandit_lab.study import cli
from bandit_lab.study.terminal.interrupt import leave

__all__ = ["main"]


def main() -> int:
    """One command, and the process's exit code; an interrupted one does not wait for its threads."""
    code = cli.main()
    if code == cli.INTERRUPTED:
        leave()
    return code


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bandit_lab <command> [overrides]`."""

import sys

from bandit_lab.study.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())

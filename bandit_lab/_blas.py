"""One thread of linear algebra for `watch`, which is to cost little beside a training run.

OpenBLAS starts a thread for every core and lets it spin for a while, whatever is asked of it: a twentieth of the time
that `watch` takes. It is told before NumPy is imported or never, so this is the first import of the command line.
"""

import os
import sys

_NAME = "OPENBLAS_NUM_THREADS"
_OURS = sys.argv[1:2] == ["watch"] and _NAME not in os.environ
if _OURS:
    os.environ[_NAME] = "1"


def environment() -> dict[str, str]:
    """The environment as the user gave it, for commands of theirs."""
    return {name: value for name, value in os.environ.items() if not (_OURS and name == _NAME)}

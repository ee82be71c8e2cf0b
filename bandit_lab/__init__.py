"""bandit_lab: a laboratory for the dynamics of Group Relative Policy Optimization on softmax bandits.

    import bandit_lab as bl

    bl.predict(refresh_interval=8, momentum=0.9).thresholds.learning_rate.exact

The functions are the commands of that name: the same settings as keywords, a result in return. `simulate`
returns many runs of one setting as a labelled data set, `explore` the stability map as a page. They are imported when
they are first used: `import bandit_lab` imports neither JAX nor anything else large.

The rooms, each importing only what stands to its right or on a later line:

    app -> lab -> measure -> simulation -> grpo -> bandits
    lab -> theory

`lab` has the commands; `app` is what they stand in: settings, results, run folders, the command line.
`theory` predicts from numbers alone; `bandits`, `grpo` and `simulation` run the update itself. Neither side imports
the other, so that a prediction and a measurement are two independent witnesses.
"""

import importlib
from typing import TYPE_CHECKING, Any

from bandit_lab.app.version import __version__

if TYPE_CHECKING:
    from bandit_lab.functions import (
        check,
        explore,
        load,
        predict,
        reproduce,
        simulate,
        sweep,
    )

__all__ = [
    "__version__",
    "check",
    "explore",
    "load",
    "predict",
    "reproduce",
    "simulate",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("bandit_lab.functions"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

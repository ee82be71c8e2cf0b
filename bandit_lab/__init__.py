"""bandit_lab: a laboratory for the dynamics of Group Relative Policy Optimization on softmax bandits.

    import bandit_lab as bl

    bl.predict(refresh_interval=8, momentum=0.9).to_dict()["thresholds"]

`predict`, `sweep`, `reproduce`, `fit`, `diagnose`, `advise`, `status` and `export` are the commands of that name: the
same settings as keywords, a labelled document in return. `simulate` returns many runs of one setting as a labelled data
set, `explore` the stability map as a page. `Monitor` judges a run while it lives, inside a trainer. They are imported
when they are first used: `import bandit_lab` imports neither JAX nor anything else large.

The rooms, each importing only what stands to its right or on a later line:

    study -> measure, curves -> simulate -> grpo -> bandits
    study, curves -> theory

`theory` predicts from numbers alone; `bandits`, `grpo` and `simulate` run the update itself. Neither side imports
the other, so that a prediction and a measurement are two independent witnesses.
"""

import importlib
from typing import TYPE_CHECKING, Any

from bandit_lab._version import __version__

if TYPE_CHECKING:
    from bandit_lab.curves.monitor import Monitor
    from bandit_lab.study.interface import advise, diagnose, explore, export, fit, predict, reproduce, status, sweep

__all__ = [
    "Monitor",
    "__version__",
    "advise",
    "diagnose",
    "explore",
    "export",
    "fit",
    "predict",
    "reproduce",
    "simulate",
    "status",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "simulate":  # the room of that name, which can be called
        return importlib.import_module("bandit_lab.simulate")
    home = "bandit_lab.curves.monitor" if name == "Monitor" else "bandit_lab.study.interface"
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

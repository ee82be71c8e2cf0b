"""A clinic for the training logs of GRPO runs: what a log proves, what became of the reward, what was not logged.

    from grpo_clinic import diagnose, fit, read, Monitor
    diagnose("run/trainer_state.json")[0].report.verdict

They are imported when they are first used: the monitor inside a trainer needs NumPy alone.
"""

import importlib
from typing import TYPE_CHECKING, Any

from grpo_clinic._version import __version__

if TYPE_CHECKING:
    from grpo_clinic.clinic import diagnose, fit
    from grpo_clinic.monitor import Monitor
    from grpo_clinic.readers import read

__all__ = ["Monitor", "__version__", "diagnose", "fit", "read"]
_HOMES = {"Monitor": "monitor", "diagnose": "clinic", "fit": "clinic", "read": "readers"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

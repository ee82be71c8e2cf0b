"""Engines: where the chunks of a run are computed. What a chunk gives does not depend on it, to the last bit.

Only the process that was started writes into the run folder; an engine gives back what was computed.
"""

from bandit_lab._registry import import_modules
from bandit_lab.app.engine.base import ENGINES, Engine, chosen, register_engine

__all__ = ["ENGINES", "Engine", "chosen", "register_engine"]

import_modules(__name__, __path__)

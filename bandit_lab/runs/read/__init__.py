"""Reading logs: what the file is gets recognised from its first bytes, one small module per format does the rest."""

from bandit_lab._registry import import_modules
from bandit_lab.runs.read.front import Skipped, read, read_all
from bandit_lab.runs.read.normalise import Parsed
from bandit_lab.runs.read.options import ReadOptions
from bandit_lab.runs.read.packed import NoRoom
from bandit_lab.runs.read.record import Curve, RewardScale, Series
from bandit_lab.runs.read.registry import READERS, Example, Reader, register_reader
from bandit_lab.runs.read.table import LogTable

import_modules(__name__, __path__)

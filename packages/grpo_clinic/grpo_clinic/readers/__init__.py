"""Reading logs: what the file is gets recognised from its first bytes, one small module per format does the rest."""

from grpo_clinic.readers.front import Skipped, read, read_all
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.record import Curve, RewardScale, Series
from grpo_clinic.readers.registry import READERS, register_reader
from grpo_clinic.readers.table import LogTable, Parsed

"""Trainers' configurations: read from files that are not trusted, and understood as each trainer implements them."""

from bandit_lab._registry import import_modules
from bandit_lab.runs.trainers import staleness
from bandit_lab.runs.trainers.base import (
    AdvantageRule,
    Age,
    Caveat,
    Default,
    Fact,
    Key,
    Lookup,
    Trainer,
    TrainerReading,
)
from bandit_lab.runs.trainers.configuration import Configuration, from_options, load
from bandit_lab.runs.trainers.in_log import settings_of_log
from bandit_lab.runs.trainers.registry import REGISTRY, TRAINERS, register_trainer
from bandit_lab.runs.trainers.setup import Setup, understand

import_modules(__name__, __path__)

"""Trainers' configurations: read from files that are not trusted, and understood as each trainer implements them."""

from grpo_clinic._registry import import_modules
from grpo_clinic.trainers import staleness
from grpo_clinic.trainers.base import (
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
from grpo_clinic.trainers.configuration import Configuration, from_options, load
from grpo_clinic.trainers.in_log import settings_of_log
from grpo_clinic.trainers.registry import REGISTRY, TRAINERS, register_trainer
from grpo_clinic.trainers.setup import Setup, understand

import_modules(__name__, __path__)

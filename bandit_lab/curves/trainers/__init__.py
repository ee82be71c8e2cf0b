"""Trainers' configurations: read from files that are not trusted, and understood as each trainer implements them."""

from bandit_lab.curves.trainers.base import AdvantageRule, Age, Caveat, Fact, Trainer
from bandit_lab.curves.trainers.configuration import Configuration, from_options, load
from bandit_lab.curves.trainers.in_log import settings_of_log
from bandit_lab.curves.trainers.setup import TRAINERS, Setup, understand

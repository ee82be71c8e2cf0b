"""Trainers' configurations: read from files that are not trusted, and understood as each trainer implements them."""

from bandit_lab.curves.trainers.base import Fact, Loop, Rule, Trainer, Trap
from bandit_lab.curves.trainers.document import Document, from_options, load
from bandit_lab.curves.trainers.setup import TRAINERS, Setup, understand

__all__ = [
    "TRAINERS",
    "Document",
    "Fact",
    "Loop",
    "Rule",
    "Setup",
    "Trainer",
    "Trap",
    "from_options",
    "load",
    "understand",
]

"""Optimisers: conventions of the heavy ball, your own, and every optax optimiser by name."""

from bandit_lab._registry import import_modules
from bandit_lab.grpo.optimizer.base import OPTIMIZERS, Optimizer, optimizer_names, register_optimizer

import_modules(__name__, __path__)

__all__ = ["OPTIMIZERS", "Optimizer", "optimizer_names", "register_optimizer"]

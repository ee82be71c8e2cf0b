"""What is checked: one variant in a small learner whose other parts are ordinary."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from bandit_lab import simulation
from bandit_lab._types import Array
from bandit_lab.app.plugins import MISSING, registries, settings_of
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import Learner, Ratio, Temperature, Uncorrected
from bandit_lab.lab.predict.build import variant

LEARNS = ("bandit", "advantage", "estimator", "staleness", "optimizer", "kl_estimator", "sampler", "correction")
"""What a learner is made of."""
LAWS = ("sampler", "correction")
"""What draws in place of the policy, and what weighs that."""
_PLACES = 3


@dataclass(frozen=True)
class Subject:
    """A variant by kind and name, built with `options`, in a learner. seed: of everything that is drawn."""

    kind: str
    name: str
    options: dict[str, Any]
    learner: Learner
    kl_weight: float = 1.0
    seed: int = 0

    @property
    def variant(self) -> Any:
        """The variant itself."""
        return getattr(self.learner, self.kind)

    @property
    def weight(self) -> Array:
        """The KL weight as JAX takes it."""
        return jax.numpy.asarray(self.kl_weight)

    @cached_property
    def not_summed_reason(self) -> str | None:
        """Why the mean of a finite group cannot be summed exactly, or None."""
        try:
            simulation.check_drift(self.learner, "finite_group")
        except ValueError as error:
            return str(error)
        return None

    @property
    def dynamics(self) -> str:
        """The exact mean that is looked at: of this group if it can be summed, else of an infinite one."""
        return "mean_field" if self.not_summed_reason else "finite_group"

    @cached_property
    def places(self) -> tuple[Array, Array]:
        """(theta [3, D], behaviour theta [3, D]) around the start, a different policy at each."""
        start = self.learner.bandit.initial_parameters
        steps = np.random.default_rng(self.seed).normal(0, 0.5, (2, _PLACES, *start.shape))
        theta, behaviour = (start + jax.numpy.asarray(step) for step in steps)
        return theta, behaviour


def settings_for(kind: str, name: str) -> dict[str, Any]:
    """The settings that a variant gets by its name alone, without `name`."""
    return {key: value for key, value in settings_of(registries()[kind], name).items() if key != "name"}


def subject_of(
    kind: str, name: str, options: dict[str, Any] | None = None, learner: Learner | None = None, **more: Any
) -> Subject:
    """A variant, by default with its own settings, put into `learner` (three noisy arms, groups of 4, ratios).

    Raises:
      ValueError: unknown name or option, or an option that has to be given.
    """
    learner = learner or Learner(
        k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3)), estimator=Ratio(), group_size=4
    )
    options = settings_for(kind, name) if options is None else options
    for key, value in options.items():
        if value == MISSING:
            raise ValueError(f"{kind}.{key}: expected a value, got none")
    if kind == "sampler":  # ratios are no weights of answers that are never drawn
        learner = replace(learner, estimator=Uncorrected())
    if kind == "correction":
        learner = replace(learner, sampler=Temperature())
    learner = replace(learner, **{kind: variant(kind, {"name": name, **options})})
    return Subject(kind, name, options, learner, **more)

"""What holds the policy back: the KL term in all its forms, and the entropy bonus.

The exact reverse KL and the entropy bonus are one exact KL, to a tempered reference:

    beta KL(pi || ref) - w H(pi) = (beta + w) KL(pi || ref^(beta / (beta + w))) + a constant. Derived here.

Any other KL estimator is asked for its slope on every arm.
"""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.kl import Exact
from bandit_lab.simulate.fast.program import Job


def is_exact(job: Job) -> bool:
    """Whether the KL term is the exact reverse one."""
    return type(job.learner.kl_estimator) is Exact


def with_entropy(job: Job) -> Job:
    """The job with an entropy bonus beside an exact KL written as one KL; else as it is."""
    bonus = job.learner.entropy_weight
    if not bonus or not is_exact(job):
        return job
    weight = job.lanes.kl_weight
    reference = job.setting.reference * (weight / (weight + bonus))
    return job._replace(
        lanes=job.lanes._replace(kl_weight=weight + bonus),
        setting=replace(job.setting, reference=reference),
    )


def penalty(job: Job, at: Any, frequency: Array) -> Array:
    """Coefficient of grad log pi(k) [K, L] that is descended. at: the policy. frequency: [K, L] of the drawn arms."""
    kl, bonus = job.learner.kl_estimator, job.learner.entropy_weight
    log_policy = at.log_policy()
    slope = kl.slope(log_policy, jnp.broadcast_to(job.setting.reference, log_policy.shape))
    policy = at.weights * (1 / at.total)
    held = job.lanes.kl_weight * (frequency if kl.sampled else policy) * slope
    return held + bonus * policy * log_policy if bonus else held

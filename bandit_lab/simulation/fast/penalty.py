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
from bandit_lab.simulation.fast.program import Job


def with_entropy(job: Job) -> Job:
    """The job with an entropy bonus beside an exact KL written as one KL; else as it is."""
    bonus = job.learner.entropy_weight
    if not bonus or type(job.learner.kl_estimator) is not Exact:
        return job
    weight = job.lanes.kl_weight
    reference = job.tables.reference * (weight / (weight + bonus))
    return job._replace(
        lanes=job.lanes._replace(kl_weight=weight + bonus),
        tables=replace(job.tables, reference=reference),
    )


def penalty(job: Job, at: Any, acting: Any, frequency: Array) -> Array:
    """Coefficient of grad log pi(k) [K, L] that is descended. at, acting: policies, the one that it is taken at and the
    one that draws. frequency: [K, L] of the drawn arms, or their chances."""
    kl, bonus, reference = job.learner.kl_estimator, job.learner.entropy_weight, job.tables.reference
    log_policy, log_share = at.log_policy(), None
    policy = share = at.weights * (1 / at.total)
    if not kl.sampled or (job.program.dynamics == "mean_field" and acting is at):
        log_share = log_policy
    elif job.program.dynamics == "mean_field":
        log_share = acting.log_policy()
    if kl.sampled:
        share = frequency
    if log_share is not None and kl.expected is not None:
        held = job.lanes.kl_weight * kl.expected(share, log_share, log_policy, reference)
    else:
        held = job.lanes.kl_weight * share * kl.slope(log_policy, jnp.broadcast_to(reference, log_policy.shape))
    return held + bonus * policy * log_policy if bonus else held

"""A plug-in with which the thresholds at KL weight 2 cannot be computed."""

from bandit_lab.bandits import register_bandit, two_arm
from bandit_lab.lab.sweep.jobs import RowsWork

compute = RowsWork.compute


@register_bandit("fails_at_weight_two")
def unused():
    """A plug-in has to register something."""
    return two_arm()


def failing(work):
    if work.weight == 2:
        raise RuntimeError("planted failure")
    return compute(work)


RowsWork.compute = failing

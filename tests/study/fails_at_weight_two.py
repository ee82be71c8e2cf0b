"""A plug-in with which the thresholds at KL weight 2 cannot be computed."""

from bandit_lab.study.sweep.work import RowsWork

compute = RowsWork.compute


def failing(work):
    if work.weight == 2:
        raise RuntimeError("planted failure")
    return compute(work)


RowsWork.compute = failing

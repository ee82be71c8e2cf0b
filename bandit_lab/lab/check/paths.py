"""Do both paths of the simulator give the same runs in distribution?"""

from dataclasses import replace
from typing import Any
from unittest import SkipTest

import numpy as np

from bandit_lab.grpo import Frozen, Hyper
from bandit_lab.lab.check.result import check, close, not_zero
from bandit_lab.lab.check.sampling import judge
from bandit_lab.lab.check.subject import LEARNS, Subject
from bandit_lab.simulation import run
from bandit_lab.simulation.fast import unsupported_reason

SEEDS, STEPS = 4096, 8


@check("fast path against the reference path", *LEARNS)
def _paths(subject: Subject) -> str:
    """Mean expected reward after each of eight steps at refresh interval 3, where the fast path serves the learner.

    Of a rule with a short cut to the mean over all policies that act, runs of the mean field as well.
    """
    rule = subject.learner.staleness
    learner = replace(subject.learner, horizon=rule.horizon_for(3))
    if subject.kind == "staleness":  # ratios would correct for whichever policy acts
        learner = replace(learner, estimator=Frozen())
    if reason := unsupported_reason(learner, "sampled"):
        raise SkipTest(reason)
    cells = Hyper(*(np.array([value]) for value in (0.5, 0.5, 3, subject.kl_weight)))
    options: dict[str, Any] = {
        "steps": STEPS,
        "seeds": SEEDS,
        "seed": subject.seed,
        "dtype": np.float64,
        "summary": False,
    }
    fast, slow = (run(learner, "sampled", cells, path=path, **options) for path in ("fast", "reference"))
    error = np.sqrt((fast.reward_variance + slow.reward_variance)[0, 1:] / SEEDS)
    not_zero("change of the mean reward", slow.reward_mean[0, 1:] - slow.reward_mean[0, :1], slow.reward_variance)
    line = judge((fast.reward_mean - slow.reward_mean)[0, 1:] / (error + 1e-12), SEEDS, subject.seed)
    if not hasattr(rule, "mean"):
        return line
    options["seeds"] = 1
    fast, slow = (run(learner, "mean_field", cells, path=path, **options) for path in ("fast", "reference"))
    return f"{line}; {close('mean field', fast.reward_mean, slow.reward_mean, 0, 1e-9)}"

"""K along the trainer's own update by forward passes alone, and the learning rate at which its loss starts to rise.

Critical sharpness (arXiv:2601.16979) is 2/eta_c: along the update d, eta_c is the rate of loss(theta - eta_c d) =
loss(theta) on the batch of d. On a quadratic it is d^T H d / d^T g, for plain gradients the Rayleigh quotient of H.

Derived here, in the notation of `probe`. Let t = J d and b = d^T (grad^2 l) d, from l(theta +- h d) without a backward
pass. The update d = scale E[J^T g] has the slope d^T E[J^T g] = E[g . t], and u . A d with u = d/scale over it is

    fresh = E[t . g_l t + g . b]/E[g . t],         stale = E[t . g_o t + s t . g]/E[g . t].

So 2/eta_c, whose samples stay where they are, is the fresh share on a quadratic. The law of the samples, s, and what
the loss takes from the old log-probabilities, g_o, make the stale share, which no line search on one batch sees. Their
sum is at most the leading eigenvalue where A is symmetric in the metric of `scale`.
"""

from functools import cache

import numpy as np

from grpo_probe.probe_operator import Operator, torch
from grpo_probe.stiffness import critical_rate


def along_update(
    operator: Operator, gradient: torch.Tensor, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Along d = scale * gradient [D], of each group of all processes: u . A d, fresh and stale [groups, 2], the slope
    g . t [groups]; and eta_c, infinite where there is none. The weights come back to the last bit.

    weights: of this process's groups; gradient: of all.
    Weight decay counts as fresh; eta_c is that of the loss without it.
    """
    d = operator.scaled(gradient.clone(), None)
    count, ranks = operator.ranks.total, operator.ranks
    if not float(d.norm()):
        return np.zeros((count, 2)), np.zeros(count), np.inf
    with operator.moving(d) as moved:
        reached = cache(moved)
        step = operator.step(d, reached)
        up, down = reached(step), reached(-step)
        along = [(high - low) / (2 * step) for high, low in zip(up, down, strict=True)]
        bent = [(a - 2 * one.start + b) / step**2 for one, a, b in zip(operator.tokens, up, down, strict=True)]
        triples = zip(operator.tokens, along, bent, strict=True)
        parts = np.array([one.curvature(t, t, float((one.applied * b).sum())) for one, t, b in triples])
        places = dict(enumerate(along))
        parts[:, 1] += operator.scores(places) * (parts[:, 2] - operator.mean_of(parts[:, 2], places)[0])
        joined, shares = ranks.join(parts), ranks.join(weights)
        each, slopes = joined[:, :2], joined[:, 2]
        slope, fresh = float(shares @ slopes), float(shares @ each[:, 0])
        starts = [one.value(one.start) for one in operator.tokens]

        def rise(rate: float) -> float:
            pairs = zip(weights, operator.tokens, starts, reached(-rate), strict=True)
            mine = [weight * (one.value(present) - start) for weight, one, start, present in pairs]
            return float(ranks.join(np.array(mine)).sum())

        critical = critical_rate(rise, slope, 2 * slope / fresh if fresh > 0 else step)
    each[:, 0] += operator.decayed(gradient, d) / slope * slopes
    return each, slopes, critical

"""Many prompts with a log-linear policy: the mean training curve from features, rewards and a group law alone.

Derived here. pi(k|x) ~ pi_0(k|x) exp(theta . phi(x, k)), binary rewards with success probability s(x, k), a share w_x
of the groups on prompt x. With J_x = sum_k pi s and the gradient g_x = sum_k pi(k|x) (s(x, k) - J_x) phi(x, k) of J_x,
the mean update of groups with law h (`group_law`) is the flow

    d theta / d tau = sum_x w_x h(J_x) g_x,      tau = learning rate * steps / (1 - mu).

A prompt with w_x = 0 is not trained on: its curve shows what is transferred. Progress at a policy is

    dJ/dtau = sum_{x,y} v_x w_y h(J_y) g_x . g_y,    v: weights of the reported mean,

so that with orthogonal gradients dividing by the std multiplies it by sum |g|^2/sigma / sum |g|^2, a mean of 1/sigma.
With orthonormal features, one good arm (reward 1) and K - 1 others, equally likely (reward 0), the log-odds y_x of the
good arm move at w_x c h(J_x) J_x (1 - J_x), c = 1 + 1/(K-1): two arms with another clock, so that the sinh law
(standardised) and the law x + sinh x (mean-only) hold prompt by prompt. Along the unit vector of its gradient a
prompt's J has the second derivative c J (1-J)(1-2J), at most c sigma/4.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from bandit_lab.theory.group_law import GroupLaw


class Prompts(NamedTuple):
    """log_reference [X, K] (nats), features [X, K, D], success [X, K] probabilities, share [X] of the groups."""

    log_reference: np.ndarray
    features: np.ndarray
    success: np.ndarray
    share: np.ndarray


def evenly_trained(log_reference: Any, features: Any, success: Any, trained: int | None = None) -> Prompts:
    """Prompts of which the first `trained` (default all) have equal shares of the groups, and the others none."""
    count = len(success)
    share = np.where(np.arange(count) < (count if trained is None else trained), 1 / (trained or count), 0.0)
    return Prompts(np.asarray(log_reference), np.asarray(features), np.asarray(success), share)


def prompt_gradients(prompts: Prompts, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(J_x [X], its gradient [X, D]) at parameters theta [D]."""
    logits = prompts.log_reference + prompts.features @ theta
    policy = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    value = np.sum(policy * prompts.success, axis=1)
    weights = policy * (prompts.success - value[:, None])
    return value, np.einsum("xk,xkd->xd", weights, prompts.features)


def contextual_curve(time: np.ndarray, prompts: Prompts, law: GroupLaw) -> np.ndarray:
    """Success J_x [T, X] at flow times `time` [T] (increasing, >= 0), from theta = 0; the flow to 1e-8."""

    def speed(_: float, theta: np.ndarray) -> np.ndarray:
        value, gradient = prompt_gradients(prompts, theta)
        return (prompts.share * law.factor(value)) @ gradient

    start = np.zeros(prompts.features.shape[-1])
    path = solve_ivp(speed, (0.0, float(time[-1])), start, t_eval=time, method="DOP853", rtol=1e-8, atol=1e-10)
    return np.stack([prompt_gradients(prompts, theta)[0] for theta in path.y.T])

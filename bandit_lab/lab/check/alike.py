"""Is a variant the same however it is asked: differentiated, on both paths, compiled, by its settings?"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import SkipTest

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.app import plugins
from bandit_lab.grpo import Frozen, Hyper, Learner, init
from bandit_lab.lab.check.result import check, close, not_zero
from bandit_lab.lab.check.sampling import judge
from bandit_lab.lab.check.subject import LAWS, LEARNS, Subject, subject_of
from bandit_lab.simulation import drift_of, run, sampled
from bandit_lab.simulation.cells import cast
from bandit_lab.simulation.fast import unsupported_reason
from bandit_lab.simulation.rollout import rollout

STEP = 1e-5  # of differences
SEEDS, STEPS = 4096, 8  # of both paths
FEW = 6  # updates of a compiled program
NONSENSE: tuple[Any, ...] = ("nonsense", float("nan"))


def _central(function: Callable[[Array], Array], x: Array) -> np.ndarray:
    columns = [(function(x + move) - function(x - move)) / (2 * STEP) for move in jnp.eye(len(x)) * STEP]
    return np.stack([np.asarray(column) for column in columns], axis=-1)


@check("gradient of the policy against finite differences", "bandit")
def _policy(subject: Subject) -> str:
    """d log pi / d theta by forward and reverse differentiation and by central differences."""
    theta, log_policy = subject.places[0][0], subject.learner.bandit.log_policy
    forward = jax.jacfwd(log_policy)(theta)
    not_zero("gradient", forward)
    line = close("forward", forward, _central(log_policy, theta), 1e-7, 1e-8)
    return f"{line}; {close('reverse', jax.jacrev(log_policy)(theta), forward, 1e-12, 1e-12)}"


@check("derivatives of the drift against finite differences", "bandit", "advantage", "estimator", "kl_estimator", *LAWS)
def _drift(subject: Subject) -> str:
    """H_fresh and H_stale by forward differentiation and by central differences."""
    exact, (theta, behaviour) = jax.jit(drift_of(subject.learner, subject.dynamics)), (p[1] for p in subject.places)
    weight, lines, seen = subject.weight, [], []
    for name, at, function in (
        ("current", theta, lambda x: exact(x, behaviour, weight)),
        ("behaviour", behaviour, lambda x: exact(theta, x, weight)),
    ):
        seen.append(jax.jacfwd(function)(at))
        lines.append(close(f"{name} policy", seen[-1], _central(function, at), 1e-6, 1e-8))
    not_zero("derivatives", *seen)
    return "; ".join(lines)


@check("fast path against the reference path", *LEARNS)
def _paths(subject: Subject) -> str:
    """Mean expected reward after each of eight steps at refresh interval 3, where the fast path serves the learner."""
    learner = replace(subject.learner, horizon=subject.learner.staleness.horizon_for(3))
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
    return judge((fast.reward_mean - slow.reward_mean)[0, 1:] / (error + 1e-12), SEEDS, subject.seed)


def _run(learner: Learner, hyper: Hyper, key: jax.Array, theta: jax.Array) -> jax.Array:
    """Parameters [FEW, D] after each of a few sampled updates."""
    start = init(learner, hyper, theta)
    return rollout(learner, sampled(learner), hyper, key, start, FEW, observe=lambda s: s.after.theta).seen


def _hyper(subject: Subject, rate: float, dtype: type = np.float64) -> Hyper:
    rule = subject.learner.staleness
    whole = np.int32 if rule.whole_interval else dtype
    values = (dtype(rate), dtype(0.5), whole(max(rule.smallest_interval, 2)), dtype(subject.kl_weight))
    return Hyper(*(jnp.asarray(value) for value in values))


@check("one compilation; jit, vmap and single precision", *LEARNS)
def _programs(subject: Subject) -> str:
    """Six sampled updates: other numbers do not compile again, seeds side by side and float32 change nothing."""
    learner, keys, starts = subject.learner, jax.random.split(jax.random.key(subject.seed), 3), subject.places[0]
    traces = []

    def counted(*arguments: Any) -> jax.Array:
        traces.append(arguments)
        return _run(*arguments)

    compiled = jax.jit(counted)
    alone = [compiled(learner, _hyper(subject, 0.1), key, theta) for key, theta in zip(keys, starts, strict=True)]
    same = jax.tree.map(lambda x: x + 0, learner)
    compiled(same, _hyper(subject, 0.2), keys[0], starts[1])
    if len(traces) != 1:
        raise AssertionError(f"expected one compilation for all numbers, got {len(traces)}")
    together = jax.jit(jax.vmap(_run, (None, None, 0, 0)))(learner, _hyper(subject, 0.1), keys, starts)
    lines = [close("vmap", together, jnp.stack(alone), 1e-12, 1e-12)]
    if not np.all(np.isfinite(together)):
        raise AssertionError("expected finite parameters")
    not_zero("change of the parameters", np.asarray(together) - np.asarray(starts)[:, None])
    low = cast(learner, np.float32)
    single = jax.jit(_run)(low, _hyper(subject, 0.1, np.float32), keys[0], starts[0].astype(np.float32))
    if single.dtype != np.float32:
        raise AssertionError(f"expected float32 from float32, got {single.dtype}")
    if not np.all(np.isfinite(single)):
        raise AssertionError("float32: expected finite parameters")
    return "; ".join([*lines, "one compilation", "float32 stays float32"])


@check("bad settings are named", *LEARNS)
def _bad_settings(subject: Subject) -> str:
    """An unknown option, and nonsense for every option with a default, raise ValueError with the option's name."""
    cases: dict[str, dict[str, Any]]
    if subject.kind == "optimizer":
        cases = {"options.no_such_option": {"options": {"no_such_option": 1}}}
    else:
        cases = {"no_such_option": {**subject.options, "no_such_option": 1}}
        cases |= {
            f"{key}={bad}": {**subject.options, key: bad}
            for key, value in subject.options.items()
            for bad in (NONSENSE if value is not None else NONSENSE[:1])
        }
    for case, options in cases.items():
        option = case.partition("=")[0]
        key = "no_such_option" if "no_such" in case else plugins.registries()[subject.kind].option(subject.name, option)
        try:
            subject_of(subject.kind, subject.name, options, subject.learner)
        except ValueError as error:
            if key not in str(error):
                raise AssertionError(f"{case}: expected an error that names {key}, got {error}") from error
        except Exception as error:
            raise AssertionError(f"{case}: expected a ValueError that names {key}, got {error!r}") from error
        else:
            raise AssertionError(f"{case}: expected a ValueError that names {key}, got none")
    return f"{len(cases)} cases"

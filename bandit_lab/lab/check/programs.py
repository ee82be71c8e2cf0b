"""Does the variant compile once, and give the same numbers however it is run?"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.lab.check.result import check, close, not_zero
from bandit_lab.lab.check.subject import LEARNS, Subject
from bandit_lab.simulation import sampled
from bandit_lab.simulation.cells import cast
from bandit_lab.simulation.rollout import rollout

STEPS = 6


def _run(learner: Learner, hyper: Hyper, key: jax.Array, theta: jax.Array) -> jax.Array:
    """Parameters [STEPS, D] after each of a few sampled updates."""
    start = init(learner, hyper, theta)
    return rollout(learner, sampled(learner), hyper, key, start, STEPS, observe=lambda s: s.after.theta).seen


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

"""The fast path: the same runs as the reference path in distribution, one to two orders of magnitude faster.

The reference path (`grpo.update` with `simulation.sampled`, one seed at a time, vectorised outside) is the definition.
Here the same update runs for L seeds side by side, with four changes:

- a group enters through counts of its cells (arm, reward), drawn as a multinomial, not through its actions
  (`multinomial`: what is exact, what is not, and by how much), and with normal rewards through their sums
  (`normal_rewards`);
- random bits are a function of lane, step and index, worked out where they are used (`random_bits`);
- arms lead and seeds stand innermost, in chunks that stay in the first caches (`layout`);
- a whole run is one kernel on a CPU (`one_kernel`, a switch), and only moments leave it (`record`).

`many_arms` and `two_arms` are the gradient for one logit per arm. `advantages` has those of cells from their counts,
`penalty` that for leaving the reference. `any_policy` is the gradient for every other policy, through its `log_policy`;
`softmax_head` finds the logits of a policy that has some.

`loop` is the time loop, with optimisers (except `adam`), staleness models, KL and group estimators taken from `grpo` as
they are. `items` is the compiled function, `engine` feeds it, `serve` says which of these ways a setting takes. Left to
the reference path are exact finite groups (sums, not runs) and ages drawn in a mean or by a key. So is what
counts do not say enough for: weights of tokens, batch-wide advantages, samplers, rewards of most continuous laws.
`materialize` appears where XLA:CPU would otherwise work a value out once per consumer.
"""

from bandit_lab.simulation.fast.engine import ensemble, run_cells
from bandit_lab.simulation.fast.layout import WIDTH
from bandit_lab.simulation.fast.random_bits import DEFAULT_GENERATOR, GENERATORS
from bandit_lab.simulation.fast.serve import unsupported_reason

__all__ = ["DEFAULT_GENERATOR", "GENERATORS", "WIDTH", "ensemble", "run_cells", "unsupported_reason"]

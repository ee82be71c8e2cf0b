"""The fast path: the same runs as the reference path in distribution, one to two orders of magnitude faster.

The reference path (`grpo.update` with `simulate.sampled`, one seed at a time, vectorised outside) is the definition.
Here the same update runs for L seeds side by side, with four changes:

- a group enters through counts of its cells (arm, reward), drawn as a multinomial, not through its actions
  (`multinomial`: what is exact, what is not, and by how much);
- random words are a function of lane, step and index, worked out where they are used (`words`, `threefry`);
- arms lead and seeds stand innermost, in chunks that stay in the first caches (`lanes`, `layout`);
- a whole run is one kernel on a CPU (`one_kernel`, a switch), and only moments leave it (`record`).

`many_arms` and `two_arms` are the gradient, `loop` the time loop, with optimisers and staleness models taken from
`grpo` as they are; `items` is the compiled function, `engine` feeds it, `serve` says which settings it serves.
`computed_once` appears where XLA:CPU would otherwise work a value out once per consumer.
"""

from bandit_lab.simulate.fast.engine import ensemble, run_cells
from bandit_lab.simulate.fast.layout import WIDTH
from bandit_lab.simulate.fast.serve import why_not
from bandit_lab.simulate.fast.words import DEFAULT_GENERATOR, GENERATORS

__all__ = ["DEFAULT_GENERATOR", "GENERATORS", "WIDTH", "ensemble", "run_cells", "why_not"]

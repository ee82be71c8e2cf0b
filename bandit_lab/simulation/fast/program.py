"""What is compiled, and the arrays that go in."""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import jax

from bandit_lab._types import Array
from bandit_lab.bandits import Bandit
from bandit_lab.grpo import Learner

NO_BANDIT = cast(Bandit, None)
"""In a learner whose bandit's numbers are in `BanditTables`."""


@dataclass(frozen=True)
class Program:
    """Static choices of a run of lanes; equal programs and shapes share one compiled function.

    learner: what is trained, without its numbers (`Learner` with the bandit left out): see `BanditTables`.
    dynamics: `sampled` or `mean_field`. lanes: L. per_row: neighbouring lanes with one
    setting. groups: sets of neighbouring lanes whose moments are kept, or 0: then
    J of every lane is. columns: cells per arm in the table of counts, 1 where rewards are a function of the arm, else
    the number of reward values. classes: for one column, the arms that share a reward. spreads: where rewards are
    normal (columns is then 1), the arms that share a standard deviation. reported_is_trained: whether the
    reported reward is the one that is trained on. blocks: whether the policy that
    acts stays for a refresh interval (an inner loop), or is looked up at every step. two_arms: whether one logit stands
    for both. watched, final: whether the summary of every lane is kept, and its policy at the end. generator: name of
    the random words. contexts: X of a policy with parameters of its own (see `any_policy`), or 0: a softmax over one
    logit per arm.
    """

    dynamics: str
    steps: int
    lanes: int
    per_row: int
    groups: int
    columns: int
    classes: tuple[tuple[int, ...], ...]
    reported_is_trained: bool
    blocks: bool
    two_arms: bool
    watched: bool
    generator: str
    final: bool = False
    contexts: int = 0
    spreads: tuple[tuple[int, ...], ...] = ()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BanditTables:
    """The bandit's numbers, shared by all lanes.

    values: [V, 1] reward of every column, or of every arm if there is one column. chances, reached: [K, columns]
    probabilities of an arm's rewards and their cumulative sums. trained, variances: [K, 1] mean and variance of an
    arm's reward. means: [K, 1] of the reported reward. reference: [K, 1] log-probabilities (or [K, L], see `penalty`).
    distinct: [U, 1] the rewards that occur, rising, for advantages without `scale`. stds: [K, 1] of normal rewards,
    whose means are the values. In one drawn group of these, values: [K, L] mean of each arm's rewards, and squares: [L]
    about them, summed. For two arms with fixed rewards, filled in by `two_arms.with_tables`: under the plain rules
    increments: [G], what each draw of the rarer arm adds to the signal of arm 0, and least: scalar, half the smallest
    signal that is not zero; under others scale_steps: [G // 2], what each draw adds to the scale of the group.

    For a policy with parameters of its own bandit: the bandit itself, means and reference: [X K, 1], and with several
    contexts chances and reached: [X, K, columns].
    """

    values: Any
    chances: Any
    reached: Any
    trained: Any
    variances: Any
    means: Any
    reference: Any
    distinct: Any = None
    stds: Any = None
    squares: Any = None
    increments: Any = None
    least: Any = None
    scale_steps: Any = None
    bandit: Any = None


class Lanes(NamedTuple):
    """One chunk. steps: scalar, 0 for lanes that only fill up a call. learning_rate, momentum, kl_weight: [L], or
    scalars if all lanes share them. interval: scalar. theta: [K, L]. keys: of the random words, [L] each. counted: [L]
    which lanes enter the moments. fixed_point: [L] expected reward there (NaN: none), if the runs are watched."""

    steps: Array
    learning_rate: Array
    momentum: Array
    kl_weight: Array
    interval: Array
    theta: Array
    keys: Any
    counted: Array
    fixed_point: Array | None


class Job(NamedTuple):
    """Everything that a lane's update needs, gathered for the functions of this room."""

    program: Program
    learner: Learner
    tables: BanditTables
    lanes: Lanes

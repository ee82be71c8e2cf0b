"""Which settings the fast path serves, and how they are laid out in lanes."""

from typing import Any

import jax
import numpy as np

from bandit_lab.bandits import Bandit
from bandit_lab.grpo import Learner, Refresh, resampled, sees_batch, weighs_tokens
from bandit_lab.simulation.fast.advantages import scales
from bandit_lab.simulation.fast.any_policy import LARGEST_CONTEXTS
from bandit_lab.simulation.fast.layout import lanes_for, lanes_for_policy
from bandit_lab.simulation.fast.multinomial import LARGEST_GROUP, LARGEST_INVERTED, words_for_counting
from bandit_lab.simulation.fast.non_silent import words_for_non_silent
from bandit_lab.simulation.fast.normal_rewards import words_for_rewards
from bandit_lab.simulation.fast.program import BanditTables, Program
from bandit_lab.simulation.fast.random_bits import require_enough_words
from bandit_lab.simulation.fast.two_arms import is_plain

LARGEST_TABLE = 1024
"""Most cells (arm, reward value) in a table of counts."""
LARGEST_PROMPTS = 64
_MIRRORED = ("sgd", "sgd_ema", "nesterov", "adam", "adamw")  # see `two_arms`; decay shrinks the gap as each logit


def unsupported_reason(learner: Learner, dynamics: str) -> str | None:
    """Why the reference path has to run, or None where the fast one serves."""
    staleness = learner.staleness
    if dynamics not in ("sampled", "mean_field"):
        return f"dynamics={dynamics} enumerates groups"
    if staleness.drawn and (dynamics != "sampled" or staleness.recall is None):
        return f"{type(staleness).__name__} draws ages in a mean, or by a key"
    return None if _is_counted(learner, dynamics) else "counts of arms and rewards do not say all that it needs"


def _is_counted(learner: Learner, dynamics: str) -> bool:
    """Whether counts of cells (arm, reward value) say all that the gradient needs to know of a group.

    In the mean field these are chances of cells.
    """
    bandit = learner.bandit
    few = learner.group_size <= LARGEST_GROUP and (learner.prompts <= LARGEST_PROMPTS or not bandit.tabular)
    normal = _needs_two_moments(learner)
    small = normal or _columns(learner) * bandit.reference_log_policy.shape[1] <= LARGEST_TABLE
    return (
        (bandit.exact_law or normal)
        and not (sees_batch(learner.advantage) and learner.prompts > 1)
        and not weighs_tokens(learner)
        and not resampled(learner)
        and (few or dynamics == "mean_field")
        and small
        and bandit.reference_log_policy.shape[0] <= LARGEST_CONTEXTS
    )


def _needs_two_moments(learner: Learner) -> bool:
    """Whether rewards are normal and a group's mean and variance say all of them (see `normal_rewards`)."""
    normal = learner.bandit.normal_stds is not None and len(learner.bandit.reference_log_policy) == 1
    moments = scales(learner) and learner.estimator.ignores_ratio
    return normal and moments and not learner.advantage.drops_silent


def _alike(numbers: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Places of equal numbers, by rising number."""
    return tuple(tuple(np.flatnonzero(numbers == one).tolist()) for one in np.unique(numbers))


def _law(learner: Learner) -> tuple[np.ndarray, np.ndarray]:
    """(reward values [U], distinct and rising; their probabilities [X, K, U] for every arm), float64."""
    law = learner.bandit.law
    values, place = np.unique(np.asarray(law.values, np.float64), return_inverse=True)
    return values, np.asarray(law.probabilities, np.float64) @ np.eye(len(values))[place]


def _columns(learner: Learner) -> int:
    """Cells per arm: 1 where the reward is a function of the arm in the only context."""
    values, probabilities = _law(learner)
    certain = len(probabilities) == 1 and np.all((probabilities == 0) | (probabilities == 1))
    return 1 if certain else len(values)


def describe(
    learner: Learner, dynamics: str, steps: int, watched: bool, generator: str, dtype: Any
) -> tuple[Program, BanditTables]:
    """The program without its layout (groups and blocks left open), and the bandit's numbers in `dtype`.

    Raises:
      ValueError: more steps than a lane has random words for.
    """
    values, laws = _law(learner)
    probabilities, contexts = laws[0], 0 if learner.bandit.tabular else len(laws)
    normal = _needs_two_moments(learner)
    arms, columns = len(probabilities), 1 if normal else _columns(learner)
    means, column_values, distinct = (laws @ values).reshape(-1), values, values
    classes: tuple[tuple[int, ...], ...] = ()
    stds = np.asarray(learner.bandit.normal_stds, np.float64)[0] if normal else None
    spreads = () if stds is None else _alike(stds)
    chances = probabilities if len(laws) == 1 else laws
    if columns == 1:
        column_values, distinct, chances, classes = means, np.unique(means), np.ones((arms, 1)), _alike(means)
    two_arms = arms == 2 and not contexts and not normal and _one_logit_is_enough(learner, dynamics)
    if two_arms and columns == 1:
        two_arms = learner.group_size <= LARGEST_INVERTED and column_values[0] != column_values[1]
    if contexts:
        size = max(laws.shape[0] * arms, learner.bandit.initial_parameters.shape[-1])
        lanes = lanes_for_policy(jax.default_backend(), arms * columns, size, learner.bandit.costly)
    else:
        lanes = lanes_for(jax.default_backend(), arms, columns, two_arms)
    if dynamics == "sampled":
        size = learner.group_size
        words = words_for_non_silent(size) if learner.advantage.drops_silent else words_for_counting(size, False)
        words += words_for_rewards(arms, len(spreads), size) if spreads else 0
        groups = steps * learner.prompts * (learner.horizon + 1 if learner.staleness.averages else 1)
        words = 1 if two_arms and columns == 1 else words + (contexts > 1)
        require_enough_words(groups, words, ages=learner.staleness.recall is not None)
    own = type(learner.bandit).true_means is not Bandit.true_means
    reported = np.asarray(learner.bandit.true_means, np.float64).reshape(-1) if own else means
    program = Program(
        dynamics=dynamics,
        steps=steps,
        lanes=lanes,
        per_row=lanes,
        groups=1,
        columns=columns,
        classes=classes,
        reported_is_trained=bool(np.array_equal(reported, means)),
        blocks=False,
        two_arms=two_arms,
        watched=watched,
        generator=generator,
        contexts=contexts,
        spreads=spreads,
    )
    second_moments = (laws @ values**2).reshape(-1)
    tables = BanditTables(
        values=np.asarray(column_values[:, None], dtype),
        chances=np.asarray(chances, dtype),
        reached=np.asarray(np.cumsum(chances, axis=-1), dtype),
        trained=np.asarray(means[:, None], dtype),
        variances=np.asarray((second_moments - means**2)[:, None] * (columns > 1 or normal), dtype),
        means=np.asarray(reported[:, None], dtype),
        reference=np.asarray(learner.bandit.reference_log_policy, dtype).reshape(-1, 1),
        stds=None if stds is None else np.asarray(stds[:, None], dtype),
        distinct=None if scales(learner) else np.asarray(distinct[:, None], dtype),
        bandit=_in_type(learner.bandit, dtype) if contexts else None,
    )
    return program, tables


def _in_type(bandit: Bandit, dtype: Any) -> Bandit:
    """The bandit with its real numbers in `dtype`, all on the host."""

    def one(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return array.astype(dtype) if np.issubdtype(array.dtype, np.floating) else array

    return jax.tree.map(one, bandit)


def needs_blocks(learner: Learner, interval: np.ndarray) -> np.ndarray:
    """[C] whether the policy that acts stays for several steps (the inner loop over a refresh interval)."""
    if not learner.staleness.block_synchronous:
        return np.zeros(len(interval), bool)
    return (interval > 1) | (type(learner.staleness) is not Refresh)


def _one_logit_is_enough(learner: Learner, dynamics: str) -> bool:
    mirrored = learner.optimizer.name in _MIRRORED and not learner.optimizer.options
    return dynamics == "sampled" and mirrored and (is_plain(learner) or _columns(learner) == 1)

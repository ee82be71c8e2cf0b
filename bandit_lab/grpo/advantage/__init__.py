"""From the rewards of a group to the advantage of each of its actions: one file per rule."""

from bandit_lab._registry import import_modules
from bandit_lab.grpo.advantage.base import (
    ADVANTAGES,
    Advantage,
    BatchWide,
    Scaled,
    advantages,
    batch_advantages,
    drawn_advantages,
    is_silent,
    register_advantage,
    sees_batch,
)
from bandit_lab.grpo.advantage.dapo import DAPO
from bandit_lab.grpo.advantage.dr_grpo import DrGRPO
from bandit_lab.grpo.advantage.grpo import GRPO
from bandit_lab.grpo.advantage.rloo import RLOO

import_modules(__name__, __path__)

"""The old policy that draws the actions of step t: several meanings of "refresh interval N".

Step t is the number of updates done. The policy used at step t has the age

    model A  refresh    t mod N            0 .. N-1    sample at block start, N updates on it
    model B  lag        N (t until then)   exactly N   asynchronous pipeline with constant lag; N = 0 is on-policy
    model C  pipeline   N + t mod N        N .. 2N-1   train on what the policy of the previous block produced

and is theta_0 before it exists. A at N = 1 equals B at N = 0; C at N = 1 equals B at N = 1. Any distribution of ages,
drawn or averaged over, is in `ages`.
"""

from bandit_lab._registry import import_modules
from bandit_lab.grpo.staleness.ages import DrawnAges, MixedAges
from bandit_lab.grpo.staleness.base import STALENESS, Mixture, Staleness, register_staleness
from bandit_lab.grpo.staleness.lag import Lag
from bandit_lab.grpo.staleness.pipeline import Pipeline
from bandit_lab.grpo.staleness.refresh import Refresh

import_modules(__name__, __path__)

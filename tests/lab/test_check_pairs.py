"""The conformance suite over pairs of variants: what each keeps beside ordinary others, it has to keep beside all."""

from itertools import product

import pytest

from bandit_lab.app.plugins import registries
from bandit_lab.grpo import Learner
from bandit_lab.lab.check import run_check, subject_of
from bandit_lab.lab.check.subject import settings_for
from bandit_lab.lab.predict.build import variant

MEAN, LIMIT = "exact mean of a group against sampling", "infinite groups are the limit of large ones"
PATHS, GROWTH = "fast path against the reference path", "multipliers against simulated growth"
PAIRS = {
    ("advantage", "bandit"): ((MEAN, LIMIT), ("sign", "gaussian")),
    ("estimator", "bandit"): ((MEAN,), ("ratio", "contextual")),
    ("staleness", "bandit"): ((PATHS,), ("lag", "modes")),
    ("estimator", "advantage"): ((MEAN,), ("tpo", "dapo")),
    ("estimator", "staleness"): ((PATHS, GROWTH), ("ratio", "lag")),
}
"""What is asked of the first of a pair of kinds beside the second; the pair that `.ci/run` asks, all others nightly."""
CASES = [
    pytest.param(*kinds, *names, marks=pytest.mark.slow if names == PAIRS[kinds][1] else pytest.mark.nightly)
    for kinds in PAIRS
    for names in product(*(registries()[kind] for kind in kinds))
]


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(("kind", "other", "name", "beside"), CASES, ids=str)
def test_every_variant_beside_every_other(kind, other, name, beside):
    """Each with its own settings. n = 20,000 (2,000 at G = 512; 4,096 runs), |z| <= 5, seed 0: false alarm below 6e-7
    a number, 1e-3 for all pairs together. Growth within 1 % or 1e-6 a step (pipeline beside frozen among them)."""
    start = subject_of(kind, name).learner
    parts = {key: getattr(start, key) for key in ("bandit", "advantage", "estimator", "group_size")}
    parts[other] = variant(other, {"name": beside, **settings_for(other, beside)})
    subject = subject_of(kind, name, None, Learner(**parts))
    answers = [run_check(check, subject) for check in PAIRS[kind, other][0]]
    assert [answer for answer in answers if answer.status == "FAIL"] == []

"""A diagnostic of one's own beside the four of the package."""

import numpy as np
import pytest
from grpo_clinic.diagnosis import (
    DIAGNOSTICS,
    FAILURES,
    OUTCOMES,
    DiagnoseSettings,
    Evidence,
    Finding,
    diagnose,
    register_diagnostic,
)
from grpo_clinic.readers import Curve, RewardScale, Series

STEP = np.arange(1.0, 61.0)
REWARD = 0.2 + 0.01 * STEP + 0.02 * np.random.default_rng(0).normal(size=60)
CURVE = Curve("run", "file", "test", "TRL", Series(STEP, REWARD, "reward"), RewardScale(0.0, 1.0, True))


@pytest.fixture
def _forgotten():
    before = dict(DIAGNOSTICS)
    yield
    DIAGNOSTICS.clear()
    DIAGNOSTICS.update(before)


def slow_start(curve, settings, group_size=None):
    first = float(curve.reward[: curve.reward.size // 4].mean())
    proof = Evidence("reward", (1.0, 15.0), first, 0.5, "the first quarter stays below 0.5")
    return Finding("slow_start", 0.5 / first, (proof,))


@pytest.mark.usefixtures("_forgotten")
def test_a_registered_diagnostic_is_run_after_the_four():
    quick = DiagnoseSettings(surrogates=19)
    assert set(DIAGNOSTICS) == {*FAILURES, *OUTCOMES}
    assert "slow_start" not in diagnose(CURVE, quick).scores
    register_diagnostic("slow_start")(slow_start)
    found = diagnose(CURVE, quick)
    assert tuple(found.scores) == (*FAILURES, *OUTCOMES, "slow_start")
    assert "slow_start" in found.verdict
    with pytest.raises(ValueError, match=r"diagnostic reward_hacking: expected one definition, got two: .*coupling"):
        register_diagnostic("reward_hacking")(slow_start)

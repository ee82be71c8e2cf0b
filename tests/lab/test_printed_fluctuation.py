"""Every fluctuation that `predict` prints against sampled runs: each staleness model, each way of making a batch.

Runs begin at the predicted fixed point. After ten times the relaxation time their variance over seeds is that of the
stationary state. n = 4,096 seeds; a variance of n normal numbers has the relative error sqrt(2/n) = 2.2 %. The
limit |z| <= 5 has a false-alarm rate of 6e-7 a case. The learning rate is a fiftieth of the threshold, at most .3,
where the law is linear to 2 %, which the limit leaves room for. Planted: the noise of one group in place of the mean
over ages is a factor of 2 to 4 in the variance.
"""

import numpy as np
import pytest

import bandit_lab as bl
from bandit_lab.grpo import STALENESS

SEEDS, LIMIT = 4096, 5.0
RULES = {name: [{"name": name}] for name in STALENESS} | {
    "ages": [
        {"name": "ages", "weights": [0.25, 0.25, 0.25, 0.25]},
        {"name": "ages", "weights": [0.2, 0.3, 0.5]},
        {"name": "ages", "weights": [0.5, 0.5], "draws": 1},
        {"name": "ages", "weights": [0.5, 0.5], "draws": 3},
    ]
}
BATCHES = {
    "plain": {},
    "three prompts": {"prompts": 3},
    "reused": {"batch_reuse": True},
    "momentum": {"momentum": 0.5},
    "ratio": {"estimator": "ratio"},
    "another sampler": {"sampler": {"name": "temperature", "tau": 1.2}},
}
CASES = [
    pytest.param(rule, batch, marks=() if batch == "plain" else pytest.mark.slow)
    for rules in RULES.values()
    for rule in rules
    for batch in BATCHES
]


@pytest.mark.parametrize(("rule", "batch"), CASES, ids=lambda value: value if isinstance(value, str) else str(value))
def test_printed_std_is_that_of_sampled_runs(rule, batch):
    setting = {"momentum": 0.0, "group_size": 8, "refresh_interval": 3, "staleness": rule, **BATCHES[batch]}
    built = STALENESS.build(rule["name"], {key: value for key, value in rule.items() if key != "name"})
    if batch == "reused" and not built.block_synchronous:
        pytest.skip("without blocks no batch can be reused")
    exact = bl.predict(**setting).thresholds.learning_rate.exact
    rate = min(0.02 * exact, 0.3) if isinstance(exact, float) else 0.1
    prediction = bl.predict(**setting, learning_rate=rate)
    printed = prediction.stationary_std["expected_reward"]
    if printed is None:
        assert built.drawn, prediction.stationary_std
        pytest.skip("nothing is printed of drawn ages")
    policy = np.log(prediction.fixed_point.policy)
    steps = int(10 / (rate * prediction.stiffness))
    bandit = {"initial_logits": policy.tolist()}
    runs = bl.simulate(**setting, bandit=bandit, learning_rate=rate, seeds=SEEDS, steps=steps, seed=1)
    z = (float(runs.reward_variance[-1]) / printed**2 - 1) / np.sqrt(2 / SEEDS)
    assert abs(z) <= LIMIT, (z, printed, float(np.sqrt(runs.reward_variance[-1])), rate, steps)

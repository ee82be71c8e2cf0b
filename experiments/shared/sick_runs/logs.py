"""From a simulated run to the log that a trainer would have written of it."""

import numpy as np
from grpo_clinic.readers.record import Curve, RewardScale, Series

from experiments.shared.oscillation import ar1
from experiments.shared.sick_runs.simulate import Simulated


def as_curve(run: Simulated) -> Curve:
    """Reward, entropy, share of silent groups at every step, an evaluation now and then, with the noise planned."""
    about, points = run.planted.log, run.planted.points
    rng = np.random.default_rng([run.planted.seed, 7])
    step = np.arange(1.0, points + 1)
    low, high = about["reward_scale"]
    reward = run.reward + about["extra_noise"] * ar1(rng, 1, points, about["extra_correlation"])[0]
    reward = low + (high - low) * np.clip(reward, 0, 1)
    count = min(round(about["evaluations"]), points)
    at = np.unique(np.linspace(points / count, points, count).round().astype(int)) - 1
    answers = round(about["evaluation_answers"])
    held_out = rng.binomial(answers, np.clip(run.true[at], 0, 1)) / answers
    entropy = about["entropy_scale"] * run.entropy * (1 + about["entropy_noise"] * rng.normal(size=points))
    scale = RewardScale(low, high, True) if about["reward_scale_given"] else RewardScale.estimated(reward)
    return Curve(
        name=run.planted.name,
        source="simulated",
        format="simulated",
        framework="TRL",
        reward_series=Series(step, reward, "reward"),
        scale=scale,
        step_unit="optimiser step",
        series={
            "entropy": Series(step, entropy, "entropy"),
            "zero_std_frac": Series(step, run.silent, "zero_std_frac"),
        },
        eval=Series(step[at], held_out, "eval_reward"),
        settings={"group_size": run.planted.group_size, "refresh_interval": run.planted.refresh_interval},
    )

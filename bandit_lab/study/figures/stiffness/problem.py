"""What all sides are told of experiments/stiffness.py."""

from typing import NamedTuple

import numpy as np

from bandit_lab.study.reproduce.experiment import Setting

RATE = {"units": "logits per unit gradient"}
STIFFNESS = {"units": "reward per logit^2", "long_name": "largest stiffness"}


class Problem(NamedTuple):
    """Numbers of one random bandit and its settings."""

    rewards: list[float]
    reference: list[float]  # logits
    kl_weight: float
    momentum: float
    refresh_interval: int


def problems_of(setting: Setting, place: int) -> list[Problem]:
    """The random bandits of a class."""
    rng, arms = np.random.default_rng([setting.seed, place]), setting.classes[place][0]
    low, high = np.log(setting.kl_weight)
    return [
        Problem(
            rng.uniform(setting.reward[0], setting.reward[1], arms).tolist(),
            rng.normal(0, setting.reference_std, arms).tolist(),
            float(np.exp(rng.uniform(low, high))),
            float(rng.choice(setting.momentum)),
            int(rng.choice(setting.refresh_interval)),
        )
        for _ in range(setting.bandits_per_class)
    ]


def coordinates(setting: Setting) -> dict[str, tuple]:
    """What every bandit is, as coordinates."""
    count, rows = setting.bandits_per_class, range(len(setting.classes))
    problems = [p for place in rows for p in problems_of(setting, place)]
    about: dict[str, tuple] = {
        name: ("bandit", [one[i] for one in setting.classes for _ in range(count)], {"units": unit})
        for i, (name, unit) in enumerate([("arms", "1"), ("advantage", ""), ("model", "")])
    }
    for name, unit in (("kl_weight", "reward per nat"), ("momentum", "1"), ("refresh_interval", "steps")):
        about[name] = ("bandit", [getattr(p, name) for p in problems], {"units": unit})
    return about | {"bandit": ("bandit", np.arange(len(problems)), {"units": "1"})}

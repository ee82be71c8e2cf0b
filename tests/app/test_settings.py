"""Settings: the interface's defaults, variants by name, options of a group."""

import composing
import pytest

from bandit_lab.app import plugins
from bandit_lab.app.settings import config
from bandit_lab.lab.predict import build


def settings(command="sweep", *arguments):
    return composing.settings(command, *arguments)[0]


def test_defaults_are_those_of_the_interface():
    chosen = settings()
    assert {group: getattr(chosen, group)["name"] for group in config.GROUPS} == {
        "bandit": "two_arm",
        "advantage": "grpo",
        "estimator": "frozen",
        "staleness": "refresh",
        "optimizer": "sgd",
        "kl_estimator": "exact",
        "sampler": "exact",
        "correction": "none",
    }
    assert chosen.bandit["rewards"] == [0.9, 0.1]
    assert chosen.advantage == {"name": "grpo", "eps": 0.0, "ddof": 0}
    scalars = ("refresh_interval", "learning_rate", "momentum", "batch_reuse", "kl_weight", "group_size", "prompts")
    assert [getattr(chosen, s) for s in scalars] == [1, 0.05, 0.9, False, 1.0, 64, 1]
    scalars = ("dynamics", "steps", "overwrite", "quiet", "seeds", "seed", "precision", "rng", "path")
    assert [getattr(chosen, s) for s in scalars] == ["sampled", 1000, False, False, 1024, 0, None, None, "auto"]
    assert chosen.engine == {"name": "local"}


@pytest.mark.parametrize(
    ("group", "name"), [(g, n) for g in config.GROUPS for n in plugins.registries()[g]], ids=lambda value: value
)
def test_every_variant_builds_by_its_name(group, name):
    chosen = settings("sweep", f"{group}={name}")
    build.check_scalars(chosen)
    build.build_learner(chosen, 4)


def test_options_of_a_group_reach_the_variant():
    learner = build.build_learner(settings("sweep", "advantage.eps=0.25", "advantage.ddof=1", "group_size=9"), 1)
    assert (learner.advantage.eps, learner.advantage.ddof, learner.group_size) == (0.25, 1, 9)

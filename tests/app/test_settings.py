"""Settings: the interface's defaults, variants by name, configurations of one's own."""

import composing
import pytest
from omegaconf import OmegaConf

from bandit_lab.app import plugins
from bandit_lab.app.cli import main
from bandit_lab.app.settings import config
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import K3, Learner
from bandit_lab.lab.predict import build


def settings(command="sweep", *arguments):
    return composing.settings(command, *arguments)[0]


@pytest.mark.parametrize("command", [n for n, schema in config.SCHEMAS.items() if issubclass(schema, config.Settings)])
def test_defaults_are_those_of_the_interface(command):
    chosen = settings(command)
    names = {group: getattr(chosen, group)["name"] for group in config.GROUPS}
    assert names == {
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
    scalars = ("refresh_interval", "learning_rate", "momentum", "batch_reuse", "kl_weight")
    assert [getattr(chosen, s) for s in scalars] == [1, 0.05, 0.9, False, 1.0]
    scalars = ("group_size", "prompts", "dynamics", "steps", "overwrite", "quiet")
    assert [getattr(chosen, s) for s in scalars] == [64, 1, "sampled", 1000, False, False]
    drawn = {"seeds": 1024, "seed": 0, "precision": None, "rng": None, "path": "auto"}
    assert {s: getattr(chosen, s) for s in drawn if hasattr(chosen, s)} == (drawn if command == "sweep" else {})


@pytest.mark.parametrize(
    ("group", "name"), [(g, n) for g in config.GROUPS for n in plugins.registries()[g]], ids=lambda value: value
)
def test_every_variant_builds_by_its_name(group, name):
    chosen = settings("sweep", f"{group}={name}")
    build.check_scalars(chosen)
    build.build_learner(chosen, 4)


def test_a_folder_of_ones_own_brings_choices_and_studies(tmp_path, capsys):
    """`--config-dir`: a choice of a group, one in place of ours, and a study that begins with a command's settings."""
    (tmp_path / "bandit").mkdir()
    (tmp_path / "bandit" / "of_a_folder.yaml").write_text("name: two_arm\nrewards: [0.7, 0.2]\n")
    (tmp_path / "slow.yaml").write_text("defaults: [predict, _self_]\nlearning_rate: 0.001\n")
    for option in ("-cd", "--config-dir"):
        assert main(["predict", option, str(tmp_path), "-cn", "slow", "bandit=of_a_folder", "--cfg", "job"]) == 0
        out = capsys.readouterr().out
        assert "learning_rate: 0.001" in out
        assert "- 0.7\n" in out
    assert main(["predict", "-cd", str(tmp_path / "none"), "--cfg", "job"]) == 2
    assert "none" in capsys.readouterr().err


def test_a_kl_estimator_is_given_by_name_or_with_options():
    """The name alone is what configurations from before its options hold."""
    for given in ("kl_estimator=k3", "kl_estimator.name=k3"):
        assert settings("sweep", given).kl_estimator == {"name": "k3"}
    old = OmegaConf.merge(OmegaConf.structured(config.SweepSettings), {"kl_estimator": "k3"})
    for value in (OmegaConf.to_object(old).kl_estimator, {"name": "k3"}):
        assert (
            build.variant("kl_estimator", value) == K3() == Learner(k_arm((0.8, 0.2)), kl_estimator="k3").kl_estimator
        )


def test_options_of_a_group_reach_the_variant():
    learner = build.build_learner(settings("sweep", "advantage.eps=0.25", "advantage.ddof=1", "group_size=9"), 1)
    assert (learner.advantage.eps, learner.advantage.ddof, learner.group_size) == (0.25, 1, 9)

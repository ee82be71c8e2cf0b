"""Settings: the interface's defaults, variants by name, options of a group."""

from dataclasses import asdict

import composing
import pytest
from omegaconf import OmegaConf

from bandit_lab.app import plugins
from bandit_lab.app.settings import config
from bandit_lab.app.settings.names import NAMES
from bandit_lab.lab.predict import build


def settings(command="sweep", *arguments):
    return composing.settings(command, *arguments)[0]


@pytest.mark.parametrize("command", config.SCHEMAS)
def test_conf_begins_a_command_as_its_schema_does(command):
    """Planted: another value, a setting or a group that is missing in `conf/<command>.yaml`."""
    content, usual = OmegaConf.load(config.config_dir() / f"{command}.yaml"), asdict(config.SCHEMAS[command]())
    chosen = {key: value for one in content.defaults if not isinstance(one, str) for key, value in one.items()}
    groups = {key: value for key, value in chosen.items() if not key.startswith("override")}
    assert groups == {key: usual.pop(key)["name"] for key in config.CHOICES if key in usual}
    del content.defaults, content.hydra
    assert content == usual


def test_conf_holds_every_variant_with_its_options():
    """Planted: a variant without its file, a file without its variant (completion offers it), another default."""
    named = {
        (kind, name): plugins.settings_of(registry, name)
        for kind, registry in plugins.chosen_from().items()
        for name in NAMES[kind]
        if name in registry
    }
    named |= {("optimizer", name): {"name": name, "options": {}} for name in ("adam", "adamw")}
    files = {place: OmegaConf.load(place) for place in config.config_dir().glob("*/*.yaml")}
    assert {(place.parent.name, place.stem): content for place, content in files.items()} == named


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


def test_a_folder_of_the_users_adds_variants(tmp_path):
    (tmp_path / "bandit").mkdir()
    (tmp_path / "bandit/mine.yaml").write_text("name: k_arm\nrewards: [0.7, 0.2, 0.1]\n", encoding="utf-8")
    assert settings("predict", f"--config-dir={tmp_path}", "bandit=mine").bandit["rewards"] == [0.7, 0.2, 0.1]

"""Nearest names: a slip, a symbol of the papers or a trainer's word is answered with the name that is meant."""

import re
import shlex
from pathlib import Path

import pytest

from bandit_lab._names import MEANT, nearest, one_of
from bandit_lab.app import plugins
from bandit_lab.app.cli import BAD_INPUT, OK, main
from bandit_lab.app.settings.config import GROUPS, SCHEMAS
from bandit_lab.app.settings.schema import setting_fields
from bandit_lab.app.terminal import choices
from bandit_lab.app.terminal.commands import COMMANDS
from bandit_lab.lab.predict.build import DYNAMICS

TYPED = {
    "predct": "did you mean predict?",
    "simulate": "did you mean sweep?",
    "predict --refresh_interval 8": "expected refresh_interval=8, got '--refresh_interval'",
    "predict --refresh-interval=8": "expected refresh_interval=8, got '--refresh-interval=8'",
    "predict --lr 0.1 momentum=0.9": "expected learning_rate=0.1, got '--lr'",
    "predict --overwrite momentum=0.9": "expected overwrite=true",
    "predict --epsilon": "expected estimator.epsilon=VALUE",
    "fit --from_fraction 0.5 log.json": "expected from_fraction=0.5",
    "predict refresh_interval 8": "expected refresh_interval=VALUE, got 'refresh_interval'",
    "predict lr=0.1": "did you mean learning_rate?",
    "predict N=8": "did you mean refresh_interval?",
    "predict G=8": "did you mean group_size?",
    "predict beta=0.1": "did you mean kl_weight?",
    "predict rewards=[1,0]": "did you mean bandit.rewards?",
    "predict bandit.reward=[1,0]": "did you mean rewards?",
    "sweep sweep.lr=[1]": "did you mean learning_rate?",
    "predict staleness=C": "did you mean pipeline?",
    "predict estimator=clip": "did you mean clipped?",
    "predict optimizer=adamm": "did you mean adam?",
    "predict dynamics=meanfield": "did you mean mean_field?",
    "reproduce figures=phase_diagramm": "did you mean phase_diagram?",
    "advise options.num_iteration=4": "did you mean num_iterations?",
    "--help advantages": "did you mean advantage?",
    "predict --help mu": "did you mean momentum?",
    "predict bandit@other=two_arm": "override: expected key=value with a setting of predict, got 'bandit@other'",
    "predict ~foo": "override: expected key=value with a setting of predict, got 'foo'",
    "predict 'momentum=${mu}'": "momentum: expected a number, got Interpolation key 'mu' not found",
    "predict group_size=8,64": "group_size: expected one value, or -m for a run per value",
    "sweep momentum=0,.9": "momentum: expected one value, sweep.momentum=[0,.9] for a grid, or -m for a run per value",
    "predict bandit.rewards=.9,.1": "bandit.rewards: expected one value, a list (bandit.rewards=[.9,.1]), or -m",
}


@pytest.mark.parametrize("typed", TYPED)
def test_the_complaint_has_the_name_that_is_meant(typed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(typed)) == BAD_INPUT
    err = capsys.readouterr().err
    assert TYPED[typed] in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_page_on_the_command_line_quotes_the_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/command_line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|$", page, re.MULTILINE)
    assert len(rows) >= 5
    for typed, answer in rows:
        for one in re.findall(r"`(.*?)`", typed):
            assert main(shlex.split(one if one.startswith("predct") else f"predict {one}")) == BAD_INPUT
            assert answer in capsys.readouterr().err


@pytest.mark.parametrize("given", ["+momentum=0.5", "++momentum=0.5", "++bandit=k_arm"])
def test_a_plus_before_a_known_setting_changes_nothing(given, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "--cfg", "job", given]) == OK
    forced = capsys.readouterr().out
    assert main(["predict", "--cfg", "job", given.lstrip("+")]) == OK
    assert capsys.readouterr().out == forced


def test_what_is_meant_is_a_name_of_ours():
    """No name that a word leads to is gone, and no word leads to two names of one command."""
    keys = {command: [key for key, _ in setting_fields(schema)] for command, schema in SCHEMAS.items()}
    variants = {group: choices.names_of(group) for group in GROUPS}
    together = [*keys.values(), *variants.values(), list(COMMANDS), list(DYNAMICS)]
    assert set(MEANT) <= {name for names in together for name in names}
    for names in together:
        words = [word for name in names for word in MEANT.get(name, ())]
        assert len(words) == len(set(words))


def test_a_word_that_is_near_to_nothing_is_answered_with_the_list_alone():
    assert nearest("foo", ["sgd", "adam"]) is None
    assert one_of("foo", ["sgd", "adam"]) == "one of sgd, adam"
    assert one_of("adm", ["sgd", "adam"]) == "one of sgd, adam (did you mean adam?)"
    assert nearest("multiple", ["multiply", "sampled.multiple"]) == "sampled.multiple"


def test_variants_of_plug_ins_are_among_the_nearest(monkeypatch):
    monkeypatch.setitem(plugins.registries()["advantage"]._builders, "my_rank", lambda: None)
    assert nearest("my_rnk", choices.names_of("advantage")) == "my_rank"

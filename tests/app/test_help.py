"""Help texts: sections of settings, a line on every choice, everything about one group."""

import inspect
import re

import pytest

from bandit_lab.app import plugins
from bandit_lab.app.cli import BAD_INPUT, OK, main
from bandit_lab.app.settings.config import CHOICES, GROUPS, SCHEMAS
from bandit_lab.app.settings.schema import SECTIONS, by_section, setting_fields
from bandit_lab.app.terminal import choices
from bandit_lab.app.terminal.commands import COMMANDS
from bandit_lab.grpo import optimizer_names
from bandit_lab.grpo.optimizer import REFUSED, optimizer_options

PLUG_IN = '''
from dataclasses import dataclass
from bandit_lab.grpo import Advantage, register_advantage

@register_advantage("plug_doubt")
@dataclass(frozen=True)
class Doubt(Advantage):
    """Rewards less twice the mean. For a test.

    doubt: how much.
    """
    doubt: float = 0.25

@register_advantage("plug_silent")
@dataclass(frozen=True)
class Silent(Advantage):
    doubt: float = 0.5
'''


@pytest.fixture
def plug_in(tmp_path, monkeypatch):
    """A module beside which somebody works; what it registers is forgotten afterwards."""
    registry = plugins.registries()["advantage"]
    before = dict(registry._builders)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "plug_doubts.py").write_text(PLUG_IN)
    yield
    registry._builders = before


@pytest.mark.parametrize("command", COMMANDS)
def test_every_setting_has_its_place_in_a_section(command):
    """Every setting stands in one section; the sections come in their order, none of them empty."""
    found = by_section(SCHEMAS[command])
    sections = {key: section for section, settings in found.items() for key, _ in settings}
    assert sorted(sections) == sorted(key for key, _ in setting_fields(SCHEMAS[command]))
    assert sum(map(len, found.values())) == len(sections)
    assert all(found.values())
    place = {
        "problem": {"bandit", "paths"},
        "learner": {"advantage", "momentum", "group_size"},
        "rare": {"compilation_cache", "quiet", "plugins"},
    }
    for section, keys in place.items():
        assert {sections[key] for key in keys & set(sections)} <= {section}
    if "run_dir" in sections:
        assert sections["run_dir"] == "output"


def test_a_commands_own_settings_stand_before_those_that_it_shares():
    run = [key for key, _ in by_section(SCHEMAS["sweep"])["run"]]
    assert run.index("sweep") < run.index("sampled.multiple") < run.index("seeds")
    for settings in map(by_section, SCHEMAS.values()):
        assert settings["rare"][-1][0] == "quiet"


@pytest.mark.parametrize("command", COMMANDS)
def test_sections_come_in_their_order(command, capsys):
    assert main([command, "--help", "all"]) == OK
    out = capsys.readouterr().out
    shown = re.findall(rf"^({'|'.join(SECTIONS)}): ", out, re.MULTILINE)
    assert shown == [section for section in SECTIONS if section in shown]
    assert len(shown) >= 2
    for section in shown:
        assert f"{section}: {SECTIONS[section]}\n  " in out


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_one_screen_and_leads_on(command, capsys):
    assert main([*command.split(), "--help"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert "examples:" in lines
    assert any("--help all" in line for line in lines)
    if command:
        assert {COMMANDS[command].example, COMMANDS[command].further} <= {line.strip() for line in lines}
        shown = [line.split("=")[0].strip() for line in lines if re.match(r"  \w+(\.\w+)?=", line)]
        assert shown == COMMANDS[command].matter.split()


def test_explore_offers_what_its_page_can_show(capsys):
    """The variants that its help has are those that it takes; one that only `predict` takes is refused."""
    assert main(["explore", "--help", "estimator"]) == OK
    assert re.findall(r"^(\w+)$", capsys.readouterr().out, re.MULTILINE) == ["frozen", "uncorrected", "ratio"]
    for arguments in (["--help"], ["--help", "all"]):
        assert main(["explore", *arguments]) == OK
        out = capsys.readouterr().out
        assert "dr_grpo" in out
        assert not re.search(r"\b(tempered|gaussian|cispo|random_mean|adam)\b", out)
    assert main(["explore", "estimator=cispo"]) == BAD_INPUT
    assert "one of frozen, uncorrected, ratio (predict has the others)" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["predict", "sweep", "check"])
def test_every_choice_of_a_group_has_one_line(command, capsys):
    assert main([command, "--help", "all"]) == OK
    out = capsys.readouterr().out
    for group in GROUPS:
        part = out[out.index(f"\n  {group} ") :].split("\n")[3:]
        lines = [line for line in part[: len(choices.names_of(group))] if re.match(r" {4}\w", line)]
        assert [line.split()[0] for line in lines] == choices.names_of(group)
        assert all(len(line.split()) > 2 and len(line) <= 120 for line in lines)


@pytest.mark.parametrize("group", GROUPS)
def test_a_line_is_the_beginning_of_the_docstring_in_the_registry(group):
    """Read from the sources, without importing them, and from the registry: the same."""
    written = choices._written(group)
    registry = plugins.registries()[group]
    assert set(written) == {name for name in registry if registry[name].__module__.startswith("bandit_lab.")}
    for name, (text, options) in written.items():
        assert options == registry.defaults(name)
        assert text == inspect.cleandoc(inspect.unwrap(registry[name]).__doc__)
        line = choices.line_of(group, name)
        assert text.startswith(line)
        assert 8 <= len(line) <= choices.LINE
        assert "arXiv" not in line


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("before", [[], ["predict"]])
def test_help_of_a_group_has_every_variant_with_its_options(group, before, capsys):
    assert main([*before, "--help", group]) == OK
    out = capsys.readouterr().out
    for name in choices.names_of(group):
        assert f"\n\n{name}\n    {choices.line_of(group, name)[:60]}" in out
        for key, default in choices.options_of(group, name):
            assert f"    {key}={default}" in out
    example = re.search(r"example:\n  python -m bandit_lab (.*)", out)[1]
    assert f" {group}=" in example
    assert "Raises:" not in out


def test_example_of_every_group_is_good_input(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for group in CHOICES:
        main(["--help", group])
        example = re.search(r"example:\n  python -m bandit_lab (.*)", capsys.readouterr().out)[1]
        assert main([*example.split(), "--cfg", "job"]) == OK
        assert f"name: {example.split(f'{group}=')[1].split()[0]}\n" in capsys.readouterr().out


def test_help_of_the_optimisers_lists_those_of_optax_and_why_some_are_refused(capsys):
    assert main(["--help", "optimizer"]) == OK
    out = capsys.readouterr().out
    for name in optimizer_names():
        assert re.search(rf"^ *{name}(:|$)", out, re.MULTILINE), name
    assert all(f"{name}: {reason}" in out for name, reason in REFUSED.items())
    assert "b1" not in optimizer_options("nadamw")
    assert "weight_decay" in optimizer_options("nadamw")
    assert "beta" not in optimizer_options("signum")
    with pytest.raises(ValueError, match=r"optimizer\.name"):
        optimizer_options("lbfgs")


def test_a_plug_ins_variants_are_explained_by_their_docstrings(plug_in, capsys):
    for arguments in (["predict", "--help", "all"], ["--help", "advantage"]):
        assert main([*arguments, "plugins=[plug_doubts]"]) == OK
        out = capsys.readouterr().out
        assert re.search(r"plug_doubt\s+Rewards less twice the mean", out)
        assert "plug_silent" in out
        assert "Silent(doubt" not in out
    assert "advantage.doubt=0.25" in out


def test_one_setting_and_what_is_unknown(capsys):
    assert main(["sweep", "--help", "momentum"]) == OK
    assert capsys.readouterr().out.split()[:2] == ["momentum", "0.9"]
    assert main(["sweep", "--help", "sampled"]) == OK
    assert len(re.findall(r"^  sampled\.", capsys.readouterr().out, re.MULTILINE)) == 4
    assert main(["--help", "predict"]) == OK
    assert capsys.readouterr().out.startswith("bandit_lab predict: ")
    for arguments in (["--help", "advantages"], ["predict", "--help", "momentums"], ["fit", "--help", "x.json"]):
        code = main(arguments)
        err = capsys.readouterr().err
        assert (code, err.count("\n")) == ((OK, 0) if arguments[0] == "fit" else (BAD_INPUT, 1))
        assert arguments[0] == "fit" or f"got {arguments[-1]!r}" in err

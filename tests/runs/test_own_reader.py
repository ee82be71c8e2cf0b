"""Readers and trainers of one's own: which stands first, what a bad one is told, where they count."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bandit_lab.app import plugins
from bandit_lab.app.cli import BAD_INPUT, OK, main
from bandit_lab.runs.read import READERS, read
from bandit_lab.runs.read.registry import in_order
from bandit_lab.runs.trainers import REGISTRY, TRAINERS, Configuration as Settings, understand

READER = '''
from bandit_lab.runs.read import LogTable, Parsed, register_reader

@register_reader("tenths")
class Tenths:
    """Rows of CSV whose rewards are tenths."""

    def owns(self, path, start):
        return {owns}

    def read(self, path, options):
        table = LogTable()
        for line in path.read_text().splitlines()[1:]:
            step, reward = line.split(",")
            table.add({{"step": step, "reward": float(reward) / 10}})
        return Parsed("tenths", {{"": table}})
'''
TRAINER = """
from bandit_lab.runs.trainers import Key, register_trainer, trl
from dataclasses import replace

@register_trainer("fork")
def fork():
    return {gives}
"""
BUILT_IN = ["parquet", "wandb", "notebook", "tensorboard", "json_lines", "json_document", "csv", "console"]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module of the user's; what it registers is forgotten afterwards."""
    before = [(registry, dict(registry._builders)) for registry in (READERS, REGISTRY)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])

    def write(text):
        (tmp_path / "mine.py").write_text(text)
        (tmp_path / "log.csv").write_text("step,reward\n" + "".join(f"{i},{i % 7}\n" for i in range(1, 41)))

    yield write
    sys.modules.pop("mine", None)
    for registry, builders in before:
        registry._builders = builders


def test_the_package_s_own_stand_in_a_fixed_order():
    assert list(in_order()) == BUILT_IN
    assert list(TRAINERS) == ["trl", "verl", "openrlhf", "nemo_rl", "prime_rl", "open_instruct", "areal", "skyrl",
                              "slime", "own_loop"]  # fmt: skip


def test_a_reader_of_one_s_own_stands_before_those_of_the_package(module, capsys):
    module(READER.format(owns="start.startswith(b'step,reward')"))
    tenths = np.arange(1, 41) % 7 / 10
    np.testing.assert_allclose(read("log.csv")[0].reward, 10 * tenths)
    for command in ("fit", "diagnose"):
        assert main([command, "log.csv", "plugins=[mine]", f"run_dir={command}", "report=false"]) == OK
        (found,) = json.loads(Path(command, "summary.json").read_text())["logs"]
        assert found["format"] == "tenths"
    assert list(in_order()) == ["tenths", *BUILT_IN]
    np.testing.assert_allclose(read("log.csv")[0].reward, tenths)
    capsys.readouterr()
    assert main(["watch", "log.csv", "plugins=[mine]", "idle=0.2", "run_dir=own"]) == OK
    assert "40 rewards" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (READER.format(owns="1 / 0"), "owns(path, first bytes): expected true or false, got ZeroDivisionError"),
        (READER.format(owns="'yes'"), "owns(path, first bytes): expected true or false, got str"),
        (READER.format(owns="True").replace("def read", "def reads"), "expected something with owns, read, got Tenths"),
        (TRAINER.format(gives="trl"), "expected a function that gives a Trainer, got module"),
        (TRAINER.format(gives="replace(trl.TRAINER, keys=())"), "keys: expected group_size and learning_rate among"),
        (
            TRAINER.format(gives="replace(trl.TRAINER, read=len)"),
            "read(look): expected a TrainerReading, got Type",
        ),
    ],
)
def test_one_that_is_none_is_told_before_any_work(text, told, module, capsys):
    module(text)
    assert main(["diagnose", "log.csv", "plugins=[mine]", "run_dir=found"]) == BAD_INPUT
    said = capsys.readouterr().err
    assert told in said
    assert "mine" in said
    assert len(said.strip().splitlines()) == 1


def test_a_trainer_of_one_s_own_is_known_by_its_marks_and_by_its_name(module, tmp_path):
    module(TRAINER.format(gives="replace(trl.TRAINER, name='fork', marks=(*trl.TRAINER.marks, 'fork_depth'))"))
    values = {"num_generations": 16, "learning_rate": 1e-6, "fork_depth": 2}
    assert understand(Settings("a.yaml", "YAML", values), {}).trainer.name == "TRL"
    (tmp_path / "a.json").write_text(json.dumps(values))
    (tmp_path / "b.json").write_text(json.dumps({"num_generations": 16, "learning_rate": 1e-6}))
    plugins.load(["mine"])
    assert understand(Settings("a.yaml", "YAML", values), {}).trainer.name == "fork"

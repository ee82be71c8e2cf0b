"""The page that a probe keeps of a run: what it says, who has it after a kill, and that its faults stay its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
from grpo_probe import probe_report
from grpo_probe.probe_report import NUMBERS, PAGE
from grpo_probe.probe_trl import TrlProbe
from test_probe_faults import trained

pytestmark = client.MARKS


def read(folder):
    """The page, whole, and its numbers."""
    page = (folder / PAGE).read_text(encoding="utf-8")
    assert page.endswith("</html>\n")
    return page, json.loads((folder / NUMBERS).read_text(encoding="utf-8"))


def test_at_the_end_the_page_has_every_measurement(tmp_path):
    trainer = client.trainer(tmp_path, max_steps=4, group_size=4, num_iterations=2, beta=0.1)
    probe = TrlProbe(trainer, prompts=4, products=3, every=2, show=lambda line: None, strict=True)
    trainer.add_callback(probe)
    trainer.train()
    text, numbers = read(tmp_path)
    assert "Training ended at step 4 of 4." in text
    assert [row["step"] for row in numbers["measurements"]] == [2, 4]
    logged = [row["probe/stiffness"] for row in trainer.state.log_history if "probe/stiffness" in row]
    assert [row["stiffness"] for row in numbers["measurements"]] == logged
    assert numbers["settings"]["updates per rollout batch N"] == 2
    assert numbers["verdict"] == probe.report.last.verdict


def test_measurements_before_a_checkpoint_are_kept(tmp_path):
    options = {"max_steps": 4, "group_size": 4, "save_strategy": "steps", "save_steps": 2}
    for resumed in (False, True):
        trainer = client.trainer(tmp_path, **options)
        trainer.add_callback(TrlProbe(trainer, prompts=4, products=3, every=1, show=lambda line: None, strict=True))
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2") if resumed else None)
        _, numbers = read(tmp_path)
        assert [row["step"] for row in numbers["measurements"]] == [1, 2, 3, 4]
    assert [row["fresh"] is None for row in numbers["measurements"]] == [True, True, False, False]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("plain"))[0]


def test_a_report_that_cannot_be_written_leaves_training_as_it_was(tmp_path, plain, monkeypatch):
    """One line says so; measurements go on."""

    def broken(*args, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(probe_report.page, "write", broken)
    weights, lines = trained(tmp_path, method="forward")
    rest = [{key: one for key, one in row.items() if not key.startswith("probe/")} for row in weights[2]]
    assert (weights[0], weights[1], rest, *weights[3:]) == plain
    assert sum(line.startswith("no report is written any more, ") for line in lines) == 1
    assert sum("along the update K = " in line for line in lines) == 4
    assert not (tmp_path / PAGE).exists()


KILLED = """
import os, signal, sys
import client
from transformers import TrainerCallback
from grpo_probe.probe_trl import TrlProbe

class Killer(TrainerCallback):
    def on_step_begin(self, args, state, control, **rest):
        if state.global_step == 3:
            os.kill(os.getpid(), signal.SIGKILL)

trainer = client.trainer({folder!r}, max_steps=5, group_size=4)
trainer.add_callback(TrlProbe(trainer, prompts=4, products=3, every=2, show=lambda line: None))
trainer.add_callback(Killer())
trainer.train()
"""


def test_a_run_that_is_killed_leaves_the_page_of_its_last_measurement(tmp_path):
    root = Path(__file__).resolve().parents[3]
    paths = os.pathsep.join(map(str, (root, root / "packages/grpo_probe/tests")))
    program = KILLED.format(folder=str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=os.environ | {"PYTHONPATH": paths}, capture_output=True
    )
    assert ended.returncode == -signal.SIGKILL
    text, numbers = read(tmp_path)
    assert "Written at step 2 of 5, before training had ended." in text
    assert [row["step"] for row in numbers["measurements"]] == [2]
    assert sorted(one.name for one in tmp_path.iterdir()) == [PAGE, NUMBERS]

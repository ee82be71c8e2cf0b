"""The page that a probe keeps of a run: what it says, who has it after a kill, and that its faults stay its own."""

import html.parser
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
from grpo_probe import probe_report
from grpo_probe.probe import Stiffness
from grpo_probe.probe_margin import Loop, margin
from grpo_probe.probe_report import NUMBERS, PAGE, ProbeReport
from grpo_probe.probe_trl import TrlProbe
from test_probe_faults import trained

pytestmark = client.MARKS


class Text(html.parser.HTMLParser):
    """The words of a page, and which of its elements are still open."""

    def __init__(self, page):
        super().__init__()
        self.words, self.open = [], []
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)


def read(folder):
    """Text of the page, and its numbers. A page that is cut off has elements that are open."""
    page = Text((folder / PAGE).read_text(encoding="utf-8"))
    assert not page.open
    return page.text, json.loads((folder / NUMBERS).read_text(encoding="utf-8"))


def stiffness(value=1.0, error=0.1, **more):
    known = {"fresh": 0.0, "stale": value, "in_sample": value, "crossed": value, "angle": 0.0, "residual": 0.0}
    return Stiffness(value, error, passes=1, groups=16, method="central", **(known | more))


def told(found):
    """(numbers, text) of a report with one measurement."""
    report = ProbeReport({"N": 4})
    report.add(10, found)
    return report.numbers("Written."), report.text("Written.")


LOOP = Loop(0.1, refresh_interval=4)
EDGE = 2.0 / 0.1 / 4
"""K beyond which the loop of model A without momentum is unstable where all of K is stale: K eta N = 2."""


@pytest.mark.parametrize(
    ("k", "first", "then"),
    [
        (0.5 * EDGE, "Stable at the last measurement: 50% of the threshold is used.", "you may raise N"),
        (2.0 * EDGE, "Unstable at the last measurement: 200% of the threshold is used.", "lower the learning rate"),
        (1.0 * EDGE, "Cannot tell whether it is stable", "raise neither N nor the learning rate"),
        (-1.0, "Stable at the last measurement: no restoring direction", ""),
    ],
)
def test_verdict_and_what_to_do_stand_first(k, first, then):
    numbers, text = told(margin(stiffness(k, 0.1 * abs(k)), LOOP))
    assert text.index(first) < text.index("What to do next: ") < text.index("step, K, error")
    assert then in numbers["next"]


def test_no_signal_permits_nothing():
    found = margin(replace(stiffness(0.0), silent=16), LOOP)
    numbers, text = told(found)
    assert "No signal" in text
    assert "you may" not in text
    assert numbers["verdict"] == "no signal"


def test_along_the_update_no_share_of_a_threshold_is_told():
    numbers, text = told(margin(stiffness(0.5 * EDGE, critical=1.5), LOOP))
    assert "another direction may be stiffer" in text
    assert "critical sharpness" in text
    assert numbers["measurements"][0]["used"] is None


def test_a_name_from_outside_is_text(tmp_path):
    folder = tmp_path / "<b>run"
    folder.mkdir()
    report = ProbeReport({"N": 4})
    report.add(10, margin(stiffness(), LOOP))
    report.write(folder, "Written.")
    assert "<b>run" in read(folder)[0]  # as words, for a tag would have been no data


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


def test_a_run_in_which_nothing_was_measured_says_why(tmp_path):
    trained(tmp_path, "reward")
    text, numbers = read(tmp_path)
    assert "Not measured." in text
    assert "reward server down" in text
    assert numbers["measurements"] == []


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("plain"))[0]


@pytest.mark.parametrize("fault", ["disk", "page", "folder"])
def test_a_report_that_cannot_be_written_leaves_training_as_it_was(tmp_path, plain, monkeypatch, fault):
    """One line says so; measurements go on. `folder`: a file stands where the output directory should be."""

    def broken(*args, **more):
        raise OSError(28, "No space left on device")

    if fault == "disk":
        monkeypatch.setattr(probe_report.page, "write", broken)
    elif fault == "page":
        monkeypatch.setattr(probe_report.page, "page", broken)
    else:
        (tmp_path / "file").write_text("")
        monkeypatch.setattr(ProbeReport, "write", lambda self, folder, state: write(self, tmp_path / "file", state))
    found, said = trained(tmp_path, method="forward")
    rest = [{key: one for key, one in row.items() if not key.startswith("probe/")} for row in found[2]]
    assert (found[0], found[1], rest, *found[3:]) == plain
    lost = [line for line in said if line.startswith("no report is written any more, ")]
    assert len(lost) == 1
    assert lost[0].endswith("; training goes on")
    assert sum("along the update K = " in line for line in said) == 4
    assert not (tmp_path / PAGE).exists()


write = ProbeReport.write
KILLED = """
import os, signal, sys
import client
from transformers import TrainerCallback
from grpo_probe.probe_trl import TrlProbe

class Killer(TrainerCallback):
    def on_step_begin(self, args, state, control, **rest):
        if state.global_step == 3:
            os.kill(os.getpid(), signal.{signal})

trainer = client.trainer({folder!r}, max_steps=5, group_size=4)
trainer.add_callback(TrlProbe(trainer, prompts=4, products=3, every=2, show=lambda line: None))
trainer.add_callback(Killer())
trainer.train()
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_run_that_is_killed_leaves_the_page_of_its_last_measurement(tmp_path, how):
    root = Path(__file__).resolve().parents[3]
    paths = os.pathsep.join(map(str, (root, root / "packages/grpo_probe/tests")))
    program = KILLED.format(signal=how, folder=str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=os.environ | {"PYTHONPATH": paths}, capture_output=True
    )
    assert ended.returncode == -getattr(signal, how)
    text, numbers = read(tmp_path)
    assert "Written at step 2 of 5, before training had ended." in text
    assert [row["step"] for row in numbers["measurements"]] == [2]
    assert sorted(one.name for one in tmp_path.iterdir()) == [PAGE, NUMBERS]

"""`watch`: restarts, alarms, exit codes, pages, cost; what it refuses."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import types
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
import pytest
import watch_cost
from watch_logs import FORMATS, document, jsonl, rewards, trl_console

from bandit_lab.app.cli import ALARMED, BAD_INPUT, OK, main
from bandit_lab.runs.diagnose import diagnose
from bandit_lab.runs.logs.findings import verdict_text
from bandit_lab.runs.monitor import Alarm, Monitor
from bandit_lab.runs.read import read
from bandit_lab.runs.read.options import ReadOptions
from bandit_lab.runs.watch import show
from bandit_lab.runs.watch.alarms import AlarmSender
from bandit_lab.runs.watch.command import Budget
from bandit_lab.runs.watch.settings import WatchSettings
from bandit_lab.runs.watch.sources import Reading, follow
from bandit_lab.runs.watch.state import Watched


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_end_that_trl_prints_ends_the_run(capsys):
    Path("trl.log").write_text(trl_console(rewards()))
    start = time.monotonic()
    assert main(["watch", "trl.log", "every=0.1", "for=30"]) == OK
    assert time.monotonic() - start < 20
    assert "verdict: healthy" in capsys.readouterr().out


def test_a_restart_from_a_checkpoint_goes_back_in_the_same_file(capsys):
    """The fall from step 150 on is taken back by a restart at step 120: no alarm stands at the end."""
    bad, good = rewards(200, fall=150), rewards(200)
    Path("run.jsonl").write_text(jsonl(bad) + jsonl(good[119:], first=120))
    assert main(["watch", "run.jsonl", "for=0.3", "every=0.1"]) == OK
    out = capsys.readouterr().out
    assert '"failure": "collapsed"' in out  # it was raised when it stood
    assert "taken up again 1 times" in out
    assert "verdict: 5 of 8 not judged" in out  # as `diagnose` says where a log holds rewards alone


def swinging(points=300):
    """0.5 +- 0.4 with period 32: it falls by more than half and comes back, over and over [points]."""
    return 0.5 + 0.4 * np.sin(np.arange(points) * 2 * np.pi / 32) + 0.02 * np.random.default_rng(1).normal(size=points)


@pytest.mark.parametrize("values", [swinging(), rewards(300), rewards(300, fall=150)], ids=["swings", "rises", "falls"])
@pytest.mark.parametrize("name", ["run.jsonl", "trainer_state.json", "trl.log"])
def test_at_the_end_the_verdict_is_that_of_diagnose(capsys, values, name):
    """Of the same file, whatever was raised on the way."""
    Path(name).write_text(FORMATS[name](values))
    main(["watch", name, "for=0.2", "every=0.1"])
    out = capsys.readouterr().out
    assert main(["diagnose", name, "report=false", "run_dir=out"]) == OK
    (row,) = json.loads(Path("out/summary.json").read_text())["logs"]
    told = next(line for line in out.splitlines() if line.startswith("verdict: ")).removeprefix("verdict: ")
    found = diagnose(read(name)[0])
    assert told == verdict_text(found, short=False)
    assert row["verdict"] == list(found.verdict)
    for line in out.splitlines():
        if line.startswith("  ") and " at step " in line:
            raised = line.split(" at step ")[0].strip()
            known = raised in told or raised.startswith("earlier alarm, not in the whole log: ")
            assert known


def test_a_trainers_state_that_is_at_its_last_step_ends_it(capsys):
    """At 300 of 300; at 300 of 400 it is followed on. The forecast is made, or says why not."""
    state = json.loads(document(rewards(300)))
    for last, done in ((300, True), (400, False)):
        Path("trainer_state.json").write_text(json.dumps({**state, "global_step": 300, "max_steps": last}))
        start = time.monotonic()
        assert main(["watch", "trainer_state.json", "every=0.1", "for=12"]) == OK
        assert (time.monotonic() - start < 10) == done
        assert "fewer than 32" not in capsys.readouterr().out


def test_a_forecast_that_was_not_made_says_so():
    run = Watched(WatchSettings(), follow(Path("run"), Reading(ReadOptions(), {})), Monitor())
    run.take([(i, {"reward": value}) for i, value in enumerate(rewards(31))])
    assert run.forecast.reason == "fewer than 32 rewards"
    run.take([(31, {"reward": 0.5})])
    assert run.forecast.reason == "not made yet"
    run.look_ahead()
    assert run.forecast.reason != "not made yet"


def test_a_file_that_does_not_exist_yet_is_waited_for(capsys):
    def write():
        time.sleep(0.6)
        Path("late.jsonl").write_text(jsonl(rewards()))

    writer = threading.Thread(target=write)
    writer.start()
    assert main(["watch", "late.jsonl", "for=2", "every=0.1"]) == OK
    writer.join()
    assert "200 rewards" in capsys.readouterr().out


@pytest.mark.parametrize("make", [lambda: None, lambda: Path("logs").mkdir(), lambda: Path("logs").touch()])
def test_what_is_not_there_is_said(make, capsys):
    make()
    assert main(["watch", "logs", "for=0.2", "every=0.1"]) == OK
    assert "waits for" in capsys.readouterr().out


def test_an_alarm_is_a_line_a_command_and_an_exit_code(capsys):
    """A collapse at row 120 of 200, found within 20 rows: JSON on stdout and in a file, the command saw it, exit 4."""
    Path("run.jsonl").write_text(jsonl(rewards(200, fall=120)))
    command = 'printf "%s" "$BANDIT_LAB_ALARM" > seen.json'
    code = main(["watch", "run.jsonl", "for=0.3", "every=0.1", f"on_alarm={command}", "run_dir=own"])
    assert code == ALARMED
    captured = capsys.readouterr()
    line = next(json.loads(one) for one in captured.out.splitlines() if one.startswith("{"))
    assert line["failure"] == "collapsed"
    assert 120 < line["row"] <= 140
    assert (
        json.loads(Path("own/alarms.jsonl").read_text().splitlines()[0])
        == line
        == json.loads(Path("seen.json").read_text())
    )
    assert captured.out.splitlines()[-1] == "own/page.html"
    assert "alarm: collapsed" in captured.err
    page = Path("own/page.html").read_text()
    assert "collapsed at step" in page
    assert "data:image/png" in page


@pytest.mark.skipif(os.name == "nt", reason="process groups")
def test_commands_that_do_not_end_are_stopped_together_with_what_they_started(tmp_path, capsys):
    """Three that sleep are waited for once, not one after another; none of them is left, nor what they started."""
    sender = AlarmSender(f"sleep 60 & echo $! $$ >> {tmp_path}/pids; wait", None, "run", to_stdout=False)
    for _ in range(3):
        sender.send(Alarm("collapsed", 1.0, 1, 1.0, 1.0, "fell"))
    until = time.monotonic() + 20
    while len(pids := (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []) < 6:
        assert time.monotonic() < until
        time.sleep(0.02)
    start = time.monotonic()
    sender.close(0.5)
    assert time.monotonic() - start < 2
    assert capsys.readouterr().err.count("on_alarm: still ran 0.5 s after the end and was stopped") == 3
    for pid in map(int, pids):
        assert not running(pid)


def running(pid: int) -> bool:
    """Whether a process is there and no zombie, a second later at the most."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except OSError:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize(("given", "inside", "for_commands"), [(None, "1", None), ("3", "3", "3")])
def test_one_thread_of_linear_algebra_unless_the_user_says_more(given, inside, for_commands):
    """In the process alone: a command that an alarm starts has the environment that the user gave."""
    variables = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    variables |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    code = (
        "import os, sys; sys.argv[1:] = ['watch']; from bandit_lab import _blas; name = 'OPENBLAS_NUM_THREADS'; "
        "print(os.environ[name], _blas.environment().get(name), 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [inside, str(for_commands), "False"]


def test_what_the_log_holds_is_escaped_on_the_page():
    settings = WatchSettings()
    source = follow(Path("<b>run</b>"), Reading(ReadOptions(), {}))
    run = Watched(settings, source, Monitor())
    for i, value in enumerate(rewards(60)):
        run.take([(i, {"reward": value})])
    from bandit_lab.app.document.as_page import as_html

    assert "<b>run</b>" not in as_html(show.document(run))


def test_the_margin_is_logged_or_worked_out():
    """N = 1, mu = 0: the threshold is eta K = 2, so that K = 0.5 and eta = 1 leave a factor of four."""
    source = follow(Path("run"), Reading(ReadOptions(), {}))
    run = Watched(WatchSettings(stiffness=0.5, learning_rate=1.0, refresh_interval=1), source, Monitor())
    assert run.margin.value == pytest.approx(4)
    run.take([(1, {"reward": 0.5, "probe/stability_used": 0.4})])
    assert run.margin.value == pytest.approx(2.5)
    assert Watched(WatchSettings(), source, Monitor()).margin.value is None


def test_the_small_plot_rises_with_the_curve():
    rows = show.small_plot(np.linspace(0, 1, 64), 8, 2)
    assert [float(row.split()[0]) for row in rows] == [0.944, 0.0556]  # means of the first and of the last eight
    assert len(rows) == 2
    marks = rows[1][10:]
    assert list(marks) == sorted(marks)
    assert marks[0] == "▁"
    assert rows[0].endswith("█")


def test_the_budget_refuses_what_costs_more_than_its_share(monkeypatch):
    clock = {"wall": 0.0, "cpu": 0.0}
    monkeypatch.setattr("time.monotonic", lambda: clock["wall"])
    monkeypatch.setattr("time.process_time", lambda: clock["cpu"])
    budget = Budget(share=0.1, guess=1.0)

    def work():
        clock["cpu"] += 2.0

    assert not budget.afford("page")
    clock["wall"] = 20.0
    assert budget.afford("page")
    budget.spend("page", work)
    assert not budget.afford("page")
    clock["wall"] = 45.0
    assert budget.afford("page")


class Verl:
    """verl 1dda039 (2026-08-22), verl/utils/tracking.py: `Tracking.log(self, data, step, backend=None)`."""

    def log(self, data, step, backend=None):
        self.seen = data


class OpenRlhf:
    """OpenRLHF 3c3be62 (2026-08-13): `(self, global_step, logs_dict=None, client_states=None)`; loggers' `log_eval`."""

    class Logger:
        seen = None

        def log_eval(self, global_step, logs_dict):
            self.seen = logs_dict

    def __init__(self):
        self.wandb_logger, self.tensorboard_logger = None, self.Logger()

    def step(self, row, step):
        """A step, and an evaluation that is late."""
        self.save_logs_and_checkpoints(step, row, {})
        for late in (0, 2):
            self.tensorboard_logger.log_eval(max(step - late, 0), {"eval_aime_pass1": 0.3})
        assert self.tensorboard_logger.seen == {"eval_aime_pass1": 0.3}

    def save_logs_and_checkpoints(self, global_step, logs_dict=None, client_states=None):
        self.seen = logs_dict


class OldOpenRlhf:
    wandb_logger = tensorboard_logger = None

    def save_logs_and_checkpoints(self, args, global_step, step_bar, logs_dict={}, client_states={}):  # noqa: B006
        self.seen = logs_dict


class PrimeRl:
    """prime-rl 559b447 (2026-08-21), its module `prime_rl.monitors`.

    `async def log(data, step, kind="train", subset="effective")` goes to every monitor's `log`, whose base class tells
    metrics from episodes; what a monitor raises is caught.
    """

    class Monitor(ABC):
        def __init__(self, config):
            self.config = config

        async def log(self, data, step, kind="train", subset="effective"):
            if isinstance(data, dict):
                await self.log_metrics(data, step=step)
            else:
                await self.log_episodes(data if isinstance(data, list) else [data], step=step, kind=kind, subset=subset)

        @abstractmethod
        async def log_metrics(self, metrics, step): ...

        @abstractmethod
        async def log_episodes(self, episodes, step, kind, subset): ...

    def __init__(self):
        self.MONITORS, self.failed = [], []

    async def log(self, data, step, kind="train", subset="effective"):
        for monitor in self.MONITORS:
            try:
                await monitor.log(data, step=step, kind=kind, subset=subset)
            except Exception as error:
                self.failed.append(error)

    async def step(self, row, step):
        """As the orchestrator: episodes as they come, the batch's, its metrics, and an evaluation that is late."""
        await self.log([object()], step, "train", "all")
        await self.log([object(), object()], step, "train", "effective")
        decoy = {"train/agg/all/solver/reward/mean": 0.5, "off_policy/mean": 1.0, "progress/tokens": 10 * step}
        await self.log(decoy | row, step=step)
        await self.log({"eval/aime/effective/solver/avg@8": 0.3}, step=max(step - 2, 0))
        self.seen = row


@pytest.mark.parametrize(
    ("heading", "kind", "call", "key"),
    [
        ("verl", Verl, lambda one, row, step: one.log(data=row, step=step), "critic/rewards/mean"),
        ("OpenRLHF", OpenRlhf, lambda one, row, step: one.step(row, step), "reward"),
        ("OpenRLHF", OldOpenRlhf, lambda one, row, step: one.save_logs_and_checkpoints(0, step, 0, row), "reward"),
        (
            "prime-rl",
            PrimeRl,
            lambda one, row, step: asyncio.run(one.step(row, step)),
            "train/agg/effective/solver/reward/mean",
        ),
    ],
)
def test_the_wrappers_in_the_docs_see_what_other_trainers_log(heading, kind, call, key, monkeypatch, capsys):
    """The code below the heading, as it stands, with the trainer's own way to call: the collapse is found."""
    text = (Path(__file__).parents[2] / "docs" / "watch.md").read_text().split(f"### {heading}\n")[1].split("\n### ")[0]
    code = textwrap.dedent("\n".join(line for line in text.splitlines() if line.startswith("    ") or not line))
    tracking = types.SimpleNamespace(Tracking=Verl)
    monkeypatch.setattr(Verl, "log", Verl.log)  # put back afterwards
    for name, module in (("verl", types.SimpleNamespace()), ("verl.utils", None), ("verl.utils.tracking", tracking)):
        monkeypatch.setitem(sys.modules, name, module or types.SimpleNamespace())
    trainer = kind()
    monkeypatch.setitem(sys.modules, "prime_rl", types.SimpleNamespace(monitors=trainer))
    about = {"trainer": trainer, "__name__": "docs"}
    exec(code, about)
    for step, value in enumerate(rewards(200, fall=120)):
        call(trainer, {key: value}, step)
        assert trainer.seen[key] == value
    assert "ALARM collapsed" in capsys.readouterr().out
    if kind is OpenRlhf:
        assert ("eval" in about["monitor"]._held, about["monitor"].restarts) == (True, 0)
    assert not getattr(trainer, "failed", [])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "paths: expected one log or folder, got none"),
        (["a", "b"], "paths: expected one log"),
        (["a", "for=0"], "seconds: expected"),
        (["a", "false_alarm=2"], "false_alarm: expected"),
        (["a", "run_dir=/dev/null"], "run_dir: expected a folder that can be written"),
        (["a", "page=p.html"], "paths: expected a file that exists or a setting of watch (did you mean run_dir?)"),
        (["a", "momentum=1"], "momentum: expected"),
        (["simulated=held_out"], "simulated: expected a setting of watch (that is now python experiments/grading/al"),
    ],
)
def test_bad_input_is_one_line(arguments, text, capsys):
    assert main(["watch", *arguments]) == BAD_INPUT
    err = capsys.readouterr().err
    assert err.startswith(f"bandit_lab watch: {text}")
    assert err.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_it_with_the_last_state():
    import signal

    Path("run.jsonl").write_text(jsonl(rewards()))
    command = [sys.executable, "-m", "bandit_lab", "watch", "run.jsonl", "every=0.1", "run_dir=now"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not Path("now/page.html").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert Path("now/page.html").exists()  # the first page does not wait for its share of the time
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == OK, err
    assert "verdict: healthy" in out
    assert err == ""


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_watching_costs_little():
    """20 seconds of 1,000 lines/s from another process on a log of 200,000 lines: all are read, in bounded memory.

    Start and closing forecast are half of it. CI's cores are shared: the shares measured are in the docs.
    """
    made = watch_cost.growing(Path(), 20, 200_000)
    assert "220000 rewards" in made.out
    assert made.seconds < 4
    assert made.memory < 150

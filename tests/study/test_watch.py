"""`watch`: what is followed, however it is written; alarms, exit codes, pages; what it refuses."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import watch_cost

from bandit_lab.curves.monitor import Monitor
from bandit_lab.curves.options import ReadOptions
from bandit_lab.study.cli import ALARMED, BAD_INPUT, OK, main
from bandit_lab.study.watch import show
from bandit_lab.study.watch.budget import Budget
from bandit_lab.study.watch.settings import WatchSettings
from bandit_lab.study.watch.sources import Reading, follow
from bandit_lab.study.watch.state import Watched
from bandit_lab.study.watch.tail import Tail


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def rewards(points=200, fall=None):
    """A rise, back to its start from row `fall` on [points]."""
    time = np.arange(points) / points
    made = 0.1 + 0.7 * (1 - np.exp(-4 * time)) + 0.04 * np.random.default_rng(0).normal(size=points)
    if fall is not None:
        made[fall:] -= made[fall] - 0.1
    return made


def jsonl(values, first=1):
    return "".join(f"{json.dumps({'step': first + i, 'reward': value})}\n" for i, value in enumerate(values))


def trl_console(values):
    rows = (f"{{'loss': '0.0', 'reward': '{v:.4f}', 'kl': '0.01', 'epoch': '{i}'}}\n" for i, v in enumerate(values))
    return "".join(rows) + "{'train_runtime': '12.0', 'train_loss': '0.1', 'epoch': '9'}\n"


def verl_console(values):
    return "".join(f"step:{i + 1} - critic/rewards/mean:{v:.4f} - actor/entropy:0.5\n" for i, v in enumerate(values))


def prime_console(values):
    return "".join(f"Step {i + 1} | Time: 3.1s | Reward: {v:.4f} | Entropy: 0.5\n" for i, v in enumerate(values))


def wide(values):
    return "step,reward\n" + "".join(f"{i + 1},{v}\n" for i, v in enumerate(values))


def long(values):
    return "run,metric,step,value\n" + "".join(f"a,reward,{i + 1},{v}\n" for i, v in enumerate(values))


def document(values):
    return json.dumps({"log_history": [{"step": i + 1, "reward": v} for i, v in enumerate(values)]})


FORMATS = {
    "run.jsonl": jsonl,
    "verl.log": verl_console,
    "trl.log": trl_console,
    "prime.log": prime_console,
    "wide.csv": wide,
    "long.csv": long,
    "trainer_state.json": document,
}


def watched(path, **options):
    """Everything that can be read of a path at once; the rewards that the monitor keeps."""
    source = follow(Path(path), Reading(ReadOptions(**options), options))
    return drained(source)


def drained(source):
    rows = list(source.poll())
    while source.behind:
        rows += source.poll()
    return rows + list(source.close())


@pytest.mark.parametrize("name", FORMATS)
def test_a_log_that_grows_by_pieces_gives_the_rows_that_are_in_it(name):
    """Written in 17 pieces that end anywhere in a line: rewards and steps are those that `fit` reads at the end."""
    values = np.round(rewards(40), 4)
    text = FORMATS[name](values)
    reading = Reading(ReadOptions(), {})
    source, rows = follow(Path(name), reading), []
    cuts = np.linspace(0, len(text), 18).astype(int)
    for first, last in itertools.pairwise(cuts):
        with open(name, "a") as file:
            file.write(text[first:last])
        rows += source.poll()
        if hasattr(source._inner, "_not_before"):
            source._inner._not_before = 0.0
    rows += source.close()
    monitor = Monitor()
    for step, row in rows:
        monitor.feed(step, row)
    curve = monitor.curve()
    np.testing.assert_allclose(curve.reward, values)
    np.testing.assert_allclose(curve.step, np.arange(1, 41))


def test_the_end_that_trl_prints_ends_the_run(capsys):
    Path("trl.log").write_text(trl_console(rewards()))
    start = time.monotonic()
    assert main(["watch", "trl.log", "every=0.1", "for=30"]) == OK
    assert time.monotonic() - start < 20
    assert "verdict: healthy" in capsys.readouterr().out


def test_rotation_truncation_and_a_name_that_is_gone_for_a_moment():
    path = Path("run.log")
    tail = Tail(path)
    assert tail.poll() == []
    path.write_text("a\nb\nhalf")
    assert tail.poll() == [b"a", b"b"]
    with path.open("a") as file:
        file.write(" whole\n")
    path.rename("run.log.1")
    assert tail.poll() == [b"half whole"]
    assert tail.poll() == []
    path.write_text("new\n")
    assert tail.poll() == [b"new"]
    assert "rotated" in tail.events[0]
    path.write_text("")
    path.write_text("x\n")
    assert tail.poll() == [b"x"]
    assert "cut" in tail.events[1]
    path.write_text("other bytes of more length\n")  # cut and longer than before between two looks
    assert tail.poll() == [b"other bytes of more length"]
    assert tail.close() == []


def test_a_restart_from_a_checkpoint_goes_back_in_the_same_file(capsys):
    """The fall from step 150 on is taken back by a restart at step 120: no alarm stands at the end."""
    bad, good = rewards(200, fall=150), rewards(200)
    Path("run.jsonl").write_text(jsonl(bad) + jsonl(good[119:], first=120))
    assert main(["watch", "run.jsonl", "for=0.3", "every=0.1"]) == OK
    out = capsys.readouterr().out
    assert '"failure": "collapsed"' in out  # it was raised when it stood
    assert "taken up again 1 times" in out
    assert "verdict: healthy" in out


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


def test_a_folder_of_checkpoints_is_followed_to_the_newest(monkeypatch):
    monkeypatch.setattr("bandit_lab.study.watch.sources.PATIENCE", 0)
    monkeypatch.setattr("bandit_lab.study.watch.sources._LATEST", 0)
    values = rewards(60)
    source, rows = follow(Path("run"), Reading(ReadOptions(), {})), []
    for count in (20, 40, 60):
        Path(f"run/checkpoint-{count}").mkdir(parents=True)
        Path(f"run/checkpoint-{count}/trainer_state.json").write_text(document(values[:count]))
        rows += source.poll()
    assert [step for step, _ in rows][-20:] == list(range(41, 61))
    monitor = Monitor()
    for step, row in rows:
        monitor.feed(step, row)
    np.testing.assert_allclose(monitor.curve().reward, values)


def test_an_alarm_is_a_line_a_command_and_an_exit_code(capsys):
    """A collapse at row 120 of 200, found within 20 rows: JSON on stdout and in a file, the command saw it, exit 4."""
    Path("run.jsonl").write_text(jsonl(rewards(200, fall=120)))
    command = 'printf "%s" "$BANDIT_LAB_ALARM" > seen.json'
    code = main(
        ["watch", "run.jsonl", "for=0.3", "every=0.1", f"on_alarm={command}", "alarms=alarms.jsonl", "page=p.html"]
    )
    assert code == ALARMED
    captured = capsys.readouterr()
    line = next(json.loads(one) for one in captured.out.splitlines() if one.startswith("{"))
    assert line["failure"] == "collapsed"
    assert 120 < line["row"] <= 140
    assert (
        json.loads(Path("alarms.jsonl").read_text().splitlines()[0])
        == line
        == json.loads(Path("seen.json").read_text())
    )
    assert captured.out.splitlines()[-1] == "p.html"
    assert "alarm: collapsed" in captured.err
    page = Path("p.html").read_text()
    assert "collapsed at step" in page
    assert "data:image/png" in page


def test_what_the_log_holds_is_escaped_on_the_page():
    settings = WatchSettings()
    source = follow(Path("<b>run</b>"), Reading(ReadOptions(), {}))
    run = Watched(settings, source, Monitor())
    for i, value in enumerate(rewards(60)):
        run.take([(i, {"reward": value})])
    from bandit_lab.study.document.as_page import as_html

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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "paths: expected one log or folder, got '0 of them'"),
        (["a", "b"], "paths: expected one log"),
        (["a", "for=0"], "seconds: expected"),
        (["a", "false_alarm=2"], "false_alarm: expected"),
        (["a", "page=nowhere/p.html"], "page: expected a file in a folder that can be written"),
        (["a", "momentum=1"], "momentum: expected"),
        (["a", "runs=50"], "runs: expected simulated="),
        (["a", "seed=5"], "seed: expected simulated="),
        (["simulated=training", "seed=-1"], "seed: expected"),
        (["simulated=real"], "simulated: expected one of training, held_out"),
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
    command = [sys.executable, "-m", "bandit_lab", "watch", "run.jsonl", "every=0.1"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(6)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == OK, err
    assert "verdict: healthy" in out
    assert err == ""


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_watching_costs_little():
    """20 seconds of 1,000 lines/s from another process, and a log of 200,000 lines: all are read, in bounded memory.

    Start and closing forecast are 1.5 CPU-seconds of it. CI's cores are shared: the shares measured are in the docs.
    """
    made = watch_cost.growing(Path(), 20)
    assert "20000 rewards" in made.out
    assert made.seconds < 5
    assert made.memory < 150
    made = watch_cost.finished(Path(), 200_000)
    assert "200000 rewards" in made.out
    assert made.seconds < 5
    assert made.memory < 150

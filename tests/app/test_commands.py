"""The command line as a person meets it: help, folders, interruption, several runs, start-up."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from settings import nightly_but

from bandit_lab.app.cli import INTERRUPTED, OK, main
from bandit_lab.app.settings.compose import expand
from bandit_lab.app.settings.config import SCHEMAS
from bandit_lab.app.settings.schema import setting_fields
from bandit_lab.app.terminal.arguments import as_overrides
from bandit_lab.app.terminal.commands import COMMANDS
from bandit_lab.app.terminal.errors import BadInput
from bandit_lab.lab.predict import command as predict

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run_python(*arguments: str, **options) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False, **options
    )


def test_overview_names_every_command(capsys):
    assert main([]) == OK
    out = capsys.readouterr().out
    assert all(f"\n  {name}" in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_all_has_every_setting_its_unit_and_two_examples(command, capsys):
    assert main([command, "--help", "all"]) == OK
    out = capsys.readouterr().out
    for key, entry in setting_fields(SCHEMAS[command]):
        line = next(line for line in out.splitlines() if line.split()[:1] == [key])
        assert line.endswith(entry.metadata["unit"])
        assert entry.metadata["help"] in out
    chosen = COMMANDS[command]
    assert out.split("\n\n")[1] == f"examples:\n  {chosen.example}\n  {chosen.further}"
    assert all(f"python -m bandit_lab {command} " in one for one in (chosen.example, chosen.further))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", ["example", "further"])
def test_examples_of_the_help_are_good_input(command, place, monkeypatch):
    import shlex

    from bandit_lab.app import cli, plugins, runner
    from bandit_lab.app.settings import compose

    plugins.load([])
    arguments = shlex.split(getattr(COMMANDS[command], place).partition(" < ")[0])[4:]
    if {"-m", "-", "plugins=[my_module]"} & set(arguments):
        pytest.skip("several runs, pasted text, a module of the reader's")
    named = [a.removeprefix("eval_path=") for a in arguments]
    written = [Path(a) for a in named if COMMANDS[command].paths == "paths" and "=" not in a]
    for path in written:
        path.parent.mkdir(parents=True, exist_ok=True)
        log = json.dumps({"log_history": [{"step": i, "reward": 0.1 * i} for i in range(9)]})
        path.write_text("num_generations: 8\n" if path.suffix == ".yaml" else log)
    overrides = cli.rewritten(as_overrides(command, arguments))
    with compose.hydra_ready():
        composed = compose.composed(command, overrides)
    if COMMANDS[command].paths == "folder":
        with pytest.raises(BadInput, match="folder: expected the folder of a run"):
            runner.check(command, composed, cli.explicit_keys(overrides), Path("new"))
    else:
        runner.check(command, composed, cli.explicit_keys(overrides), Path("new"))
    assert sorted(path for path in Path().rglob("*") if path.is_file()) == sorted(written)


def test_cfg_job_prints_the_settings_and_does_nothing(capsys, tmp_path):
    main(["predict", "--cfg", "job", "refresh_interval=7"])
    out = capsys.readouterr().out
    assert "refresh_interval: 7" in out
    assert "kl_weight: 1.0" in out
    assert list(tmp_path.iterdir()) == []


def test_default_folder_is_the_last_line_and_nothing_else_is_left(capsys, tmp_path):
    assert main(["predict"]) == OK
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    assert folder.parts[:2] == ("outputs", "predict")
    assert sorted(p.name for p in folder.iterdir()) == ["config.yaml", "manifest.json", "summary.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["outputs"]


def test_finished_run_is_replaced_only_on_demand(capsys):
    assert main(["predict", "run_dir=here"]) == OK
    before = Path("here/manifest.json").read_bytes()
    assert main(["predict", "run_dir=here", "refresh_interval=3"]) == 2
    assert "overwrite=true" in capsys.readouterr().err
    assert Path("here/manifest.json").read_bytes() == before
    assert main(["predict", "run_dir=here", "refresh_interval=3", "overwrite=true"]) == OK
    assert "refresh_interval: 3" in Path("here/config.yaml").read_text()


def test_multirun_makes_one_run_per_value_in_a_folder_named_after_it(capsys):
    assert main(["predict", "-m", "optimizer=sgd,rmsprop", "group_size=8,16", "run_dir=many"]) == OK
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "many"
    names = [f"optimizer_{o}__group_size_{g}" for o in ("sgd", "rmsprop") for g in (8, 16)]
    assert sorted(p.name for p in Path("many").iterdir() if p.is_dir()) == sorted(names)
    drifts = [json.loads(Path(f"many/{name}/summary.json").read_text())["drift"] for name in names]
    assert drifts == ["G = 8", "G = 16", "G = 8", "G = 16"]
    lines = Path("many/multirun.csv").read_text().splitlines()
    assert lines[0].startswith("# bandit_lab predict")
    rows = list(csv.DictReader(lines[1:]))
    assert [(row["folder"], row["optimizer"], row["group_size"], row["state"]) for row in rows] == [
        (name, *name.removeprefix("optimizer_").split("__group_size_"), "done") for name in names
    ]
    assert float(rows[0]["exact, eta"]) < float(rows[1]["exact, eta"])  # a larger group is less stiff
    assert rows[2]["exact, eta"] == ""
    assert rows[0]["verdict"].startswith("stable: ")
    table = out[out.index("4 runs of predict") :]
    assert all(value in table for value in ("rmsprop", "oscillatory", f"{float(rows[1]['exact, eta']):.4g}"))


def test_expand_is_the_product_of_choices():
    assert list(expand(["a=1,2", "b=3", "c=x,y"])) == [
        ["a=1", "b=3", "c=x"],
        ["a=1", "b=3", "c=y"],
        ["a=2", "b=3", "c=x"],
        ["a=2", "b=3", "c=y"],
    ]


def test_any_optax_optimiser_by_name(capsys):
    assert main(["predict", "optimizer=rmsprop", "optimizer.options.decay=0.5", "run_dir=here"]) == OK
    text = Path("here/config.yaml").read_text()
    assert "name: rmsprop" in text
    assert "decay: 0.5" in text
    assert "no linear theory of the optimiser rmsprop" in Path("here/summary.json").read_text()


def test_interruption_tells_how_to_run_again(monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(predict, "linearise", interrupted)
        assert main(["predict", "bandit.rewards=[0.8, 0.2]", "run_dir=here"]) == INTERRUPTED
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    again = "python -m bandit_lab predict 'bandit.rewards=[0.8, 0.2]' run_dir=here"
    assert err.rstrip().endswith(again)
    assert not Path("here/manifest.json").exists()
    assert main(["predict", "bandit.rewards=[0.8, 0.2]", "run_dir=here"]) == OK


def test_quiet_run_leaves_stderr_empty():
    done = run_python("-m", "bandit_lab", "predict", "run_dir=here")
    assert done.returncode == OK
    assert done.stderr == ""


@pytest.mark.parametrize("kill", nightly_but([signal.SIGTERM], [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
def test_killed_sweep_is_not_a_finished_one(kill):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "bandit_lab", "sweep", "run_dir=here", "steps=20000"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(1200):
        if Path("here/config.yaml").exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(kill)
    _, err = process.communicate(timeout=60)
    assert not Path("here/manifest.json").exists()
    assert not Path("here/summary.json").exists()
    if kill != signal.SIGKILL:
        assert process.returncode == INTERRUPTED
        assert "continue it with: python -m bandit_lab sweep run_dir=here steps=20000" in err


def test_importing_the_package_stays_light():
    names = "('hydra', 'matplotlib', 'jax', 'rich', 'xarray')"
    code = f"import sys, bandit_lab; print([m for m in {names} if m in sys.modules])"
    done = run_python("-W", "error", "-c", code)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_starts_without_jax_or_hydra(command):
    code = (
        f"import sys; from bandit_lab.app.cli import main; main([{command!r}, '--help']);"
        f"main([{command!r}, '--help', 'all']); main(['-sc', 'query=bash', 'bandit-lab {command} ']);"
        "print([m for m in ('hydra', 'matplotlib', 'jax', 'xarray') if m in sys.modules])"
    )
    assert run_python("-c", code).stdout.splitlines()[-1] == "[]"


def test_predict_does_not_import_what_it_does_not_need():
    code = (
        "import sys; from bandit_lab.app.cli import main; main(['predict', 'run_dir=here']);"
        "print([m for m in ('matplotlib', 'xarray', 'zarr') if m in sys.modules])"
    )
    assert run_python("-c", code).stdout.splitlines()[-1] == "[]"


def test_help_ends_quietly_where_nobody_reads_it():
    """`--help | head -1`: the reader has gone before the text is written."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "bandit_lab", "sweep", "--help"], stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")

"""`fit` on settings, files and paths that mean no good: one line, exit code 2, nothing written; text as it stands."""

import os
import pickle
from pathlib import Path

import pytest
from fit_logs import rising, write_log
from hypothesis import given, settings, strategies as st
from omegaconf import OmegaConf
from settings import nightly_but

from bandit_lab.app.cli import BAD_INPUT, main
from bandit_lab.app.settings import compose
from bandit_lab.app.terminal import arguments


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)


SETTINGS = {
    "": ("paths", "files or folders as plain arguments"),
    "a.json logs_index=b.csv": ("paths", "logs_index=PATH, one of the two"),
    "absent.json": ("paths: absent.json", "a readable file"),
    "runs/lr=3.json": ("paths", "a file that exists"),
    "logs_index=absent.csv": ("logs_index", "a readable file"),
    "logs_index=a.json": ("logs_index", "a column 'file'"),
    "a.json models=[logistic]": ("models[0]", "oscillator, softmax_law"),
    "a.json models=[]": ("models", "at least one"),
    "a.json level=1.5": ("level", "[0.5, 0.99]"),
    "a.json momentum=1": ("momentum", "[0, 1)"),
    "a.json optimizer=adam": ("optimizer", "sgd, sgd_ema, nesterov"),
    "a.json reward_scale=[1,0]": ("reward_scale", "lowest < highest"),
    "a.json step_unit=epoch": ("step_unit", "optimiser_step, rollout_cycle"),
    "a.json reward_key=acc": ("paths: a.json: reward_key", "the log has step, reward"),
    "a.json where=kind": ("where", "column=value"),
    "a.json rewrd_key=x": ("rewrd_key", "did you mean reward_key"),
    "short.json": ("paths: short.json: points", "at least 8 rewards"),
}


@pytest.mark.parametrize("text", SETTINGS)
def test_bad_settings_are_one_line_and_exit_2(text, capsys, tmp_path):
    write_log("a.json")
    write_log("short.json", rising(5))
    assert main(["fit", *text.split(), "run_dir=out"]) == BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    name, expected = SETTINGS[text]
    assert err.startswith(f"bandit_lab fit: {name}: expected ")
    assert expected in err
    assert not (tmp_path / "out").exists()


class Bomb:
    """Would end the process when unpickled."""

    def __reduce__(self):
        return os._exit, (9,)


FILES = {
    "empty.json": b"",
    "truncated.json": b'{"log_history": [{"reward": 0.1, "step": 1}, {"rew',
    "deep.json": b"[" * 200_000,
    "deep.jsonl": (b'{"a":' * 5_000 + b"\n") * 20,
    "pickle = 1.bin": pickle.dumps(Bomb()),
    "training_args.bin": b"PK\x03\x04" + pickle.dumps(Bomb()),
    "binary.log": bytes(range(256)) * 100,
    "long.log": b"x" * 5_000_000,
    "no_reward.csv": b"step,loss\n1,2\n2,3\n",
    "nan.csv": b"step,reward\n" + b"".join(b"%d,nan\n" % i for i in range(20)),
    "new\nline ${oc.env:HOME}.json": b"{",
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files_are_one_line_and_exit_2(name, capsys, tmp_path):
    Path(name).write_bytes(FILES[name])
    assert main(["fit", name, "run_dir=out"]) == BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("bandit_lab fit: ")
    assert "expected" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_two_hundred_megabytes_are_refused_in_bounded_memory(name, capsys):
    """One endless line after a valid start, through the command; what Python holds at most is below 64 MiB."""
    import tracemalloc

    with open(name, "wb") as file:
        file.write(b'[{"a": 1}, ')
        for _ in range(200):
            file.write(b"1234567 " * 131072)
    tracemalloc.start()
    assert main(["fit", name, "run_dir=out"]) == BAD_INPUT
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 1024**2
    assert capsys.readouterr().err.count("\n") == 1


ODD = st.text(alphabet=st.sampled_from("ab=, '\"\\$}{[]:()\n\té%#*?~+-"), min_size=1, max_size=10).filter(
    lambda text: text != "???"
)


@pytest.mark.parametrize("examples", nightly_but([15], [15, 60]))
def test_any_path_and_any_text_reach_the_command_unchanged(examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(paths=st.lists(ODD, min_size=1, max_size=3), where=ODD)
    def reach(paths, where):
        overrides = [*arguments.as_overrides("fit", ["--", *paths]), f"where={arguments.quoted(where)}"]
        with compose.hydra_ready():
            found = OmegaConf.to_object(compose.composed("fit", overrides))
        assert found.paths == paths
        assert found.where == where

    compose.register([])
    reach()


def test_the_one_path_that_cannot_be_written_is_refused(capsys):
    """`???` is how Hydra writes a missing value."""
    assert main(["fit", "--", "???"]) == BAD_INPUT
    assert "write ./???" in capsys.readouterr().err

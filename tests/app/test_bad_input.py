"""Bad input: one clear line that names the key, what was expected and what was got; exit 2; nothing written."""

import shlex

import pytest

from bandit_lab.app.cli import BAD_INPUT, main

SHARED = {
    "learning_rat=0.1": ("learning_rat", "did you mean learning_rate"),
    "learning_rate=-1": ("learning_rate", "> 0"),
    "learning_rate=nan": ("learning_rate", "finite"),
    "learning_rate=abc": ("learning_rate", "a number", "'abc'"),
    "momentum=1": ("momentum", "[0, 1)"),
    "refresh_interval=2.5": ("refresh_interval", "integer", "2.5"),
    "refresh_interval=-1 staleness=lag": ("refresh_interval", "integer >= 0", "-1"),
    "bandit=foo": ("bandit", "k_arm", "two_arm", "'foo'"),
    "optimizer=foo": ("optimizer.name", "nesterov, sgd, sgd_ema", "'foo'"),
    "advantage.epz=1": ("advantage.epz", "unknown option"),
    "group_size=1 advantage=rloo": ("group_size", ">= 2"),
    "bandit.rewards=[0.9,1.1]": ("bandit.rewards[1]", "[0, 1]", "1.1"),
    "bandit=k_arm bandit.rewards=[0.9]": ("bandit.rewards", "at least 2 arms"),
    "bandit.foo=1": ("bandit.foo", "bandit=two_arm", "rewards, reference_logits, initial_logits, kind"),
    "sampler=top_k estimator=clipped": ("sampler", "draw every answer", "Clipped(epsilon=0.2)", "TopK(k=3)"),
    "plugins=[no_such_module]": ("plugins", "'no_such_module'"),
    "batch_reuse=maybe": ("batch_reuse", "true or false", "'maybe'"),
    "run_dir=/dev/null/x": ("run_dir", "can be written"),
    "run_dir=/proc/no/such": ("run_dir", "can be created"),
    "foo": ("override", "key=value", "'foo'"),
    "optimizer=adam optimizer.options.foo=1": ("optimizer.options", "b1, b2", "'foo'"),
    "dynamics=finite_group bandit=k_arm bandit.kind=fixed": ("group_size", "ways"),
    "bandit=contextual bandit.contexts=1000000": ("bandit.contexts", "at most", "numbers in all features"),
}
SWEEP = {
    "seeds=0": ("seeds", ">= 1"),
    "rng=hash path=reference": ("rng", "null with path=reference", "'hash'"),
    "sweep.group_size=[8,16]": ("sweep.group_size", "use -m group_size="),
    "learning_rate=0.1 sweep.learning_rate=[0.1,0.2]": ("learning_rate", "one of learning_rate and sweep", "0.1"),
    "sweep.learning_rate=[0.1,-1]": ("sweep.learning_rate[1]", "> 0"),
    "'sweep.learning_rate={start: 0.1, stop: 1, nun: 3}'": ("sweep.learning_rate", "start, stop, num, scale", "'nun'"),
    "sweep.momentum=[0.5,1.0]": ("sweep.momentum[1]", "[0, 1)"),
    "seeds=1000000000000": ("sweep", "GiB", "sweep fewer values, lower seeds"),
    "memory_limit=1 'sweep.learning_rate={start: 1, stop: 2, num: 1000000}'": ("sweep", "GiB"),
    "group_size=1000000000 path=reference": ("group_size", "at most", "got 1000000000 (about", "on the reference path"),
    "chunk.seeds=1000": ("chunk.seeds", "a multiple of 4096", "1000"),
    "'sweep.learning_rate={num: 100000000}'": ("sweep.learning_rate.num", "at most"),
}
PREDICT = {
    "seeds=8": ("seeds", "a setting of predict"),
    "refresh_interval=1e9": ("refresh_interval", "at most 65536 with staleness=refresh", "1000000000"),
    "refresh_interval=4097 staleness=lag": ("refresh_interval", "at most 4096 with staleness=lag", "4097"),
}
CASES = [("predict", text, want) for text, want in SHARED.items()]
CASES += [("predict", text, want) for text, want in PREDICT.items()]
CASES += [("sweep", text, want) for text, want in SWEEP.items()]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)


@pytest.mark.parametrize(
    ("command", "text", "want"),
    CASES,
    ids=[f"{c} {t}" for c, t, _ in CASES],
)
def test_one_line_exit_2_nothing_written(command, text, want, capsys, tmp_path):
    code = main([command, *shlex.split(text)])
    out, err = capsys.readouterr()
    assert code == BAD_INPUT
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"bandit_lab {command}: {want[0]}: expected ")
    assert "got " in err
    for part in want[1:]:
        assert part in err
    assert list(tmp_path.iterdir()) == []


def test_unknown_command_lists_the_known(capsys):
    assert main(["swep"]) == BAD_INPUT
    assert "expected one of sweep, predict" in capsys.readouterr().err


def test_full_error_shows_the_exception(monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="learning_rate: expected a number > 0"):
        main(["predict", "learning_rate=-1"])


def test_folder_of_someone_else_is_not_touched(tmp_path, capsys):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.txt").write_text("do not touch")
    assert main(["predict", f"run_dir={folder}", "overwrite=true"]) == BAD_INPUT
    assert "run_dir: expected a new folder" in capsys.readouterr().err
    assert [p.name for p in folder.iterdir()] == ["chapter.txt"]

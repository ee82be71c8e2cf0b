"""Bad input: one clear line that names the key, what was expected and what was got; exit 2; nothing written.

One case of each kind of mistake on the command line; what a value may be is asked of the functions (test_functions.py).
"""

import shlex

import pytest

from bandit_lab.app.cli import BAD_INPUT, main

CASES = {
    "predict learning_rat=0.1": ("learning_rat", "did you mean learning_rate"),
    "predict learning_rate=nan": ("learning_rate", "finite"),
    "predict learning_rate=abc": ("learning_rate", "a number", "'abc'"),
    f"predict momentum={'1' * 401}": ("momentum",),
    "predict refresh_interval=2.5": ("refresh_interval", "integer", "2.5"),
    "predict bandit=foo": ("bandit", "k_arm", "two_arm", "'foo'"),
    "predict bandit.foo=1": ("bandit.foo", "bandit=two_arm", "rewards, reference_logits, initial_logits, kind"),
    "predict optimizer=adam optimizer.options.foo=1": ("optimizer.options", "b1, b2", "'foo'"),
    "predict sampler=top_k estimator=clipped": ("sampler", "draw every answer", "Clipped(epsilon=0.2)", "TopK(k=3)"),
    "predict run_dir=/dev/null/x": ("run_dir", "can be written"),
    "predict foo": ("override", "key=value", "'foo'"),
    "predict dynamics=finite_group bandit=k_arm bandit.kind=fixed": ("group_size", "ways"),
    "predict refresh_interval=4097 staleness=lag": ("refresh_interval", "at most 4096 with staleness=lag", "4097"),
    "predict seeds=8": ("seeds", "a setting of predict"),
    "sweep sweep.group_size=[8,16]": ("sweep.group_size", "use -m group_size="),
    "sweep learning_rate=0.1 sweep.learning_rate=[0.1,0.2]": ("learning_rate", "one of learning_rate and sweep", "0.1"),
    "sweep 'sweep.learning_rate={start: 0.1, nun: 3}'": ("sweep.learning_rate", "start, stop, num, scale", "'nun'"),
    "sweep seeds=1000000000000": ("sweep", "GiB", "sweep fewer values, lower seeds"),
    "sweep chunk.seeds=1000": ("chunk.seeds", "a multiple of 4096", "1000"),
    "explore nothing": ("paths", "a finished sweep's folder"),
}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)


@pytest.mark.parametrize("text", CASES)
def test_one_line_exit_2_nothing_written(text, capsys, tmp_path):
    command, *arguments = shlex.split(text)
    key, *parts = CASES[text]
    code = main([command, *arguments])
    out, err = capsys.readouterr()
    assert code == BAD_INPUT
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"bandit_lab {command}: {key}: expected ")
    assert "got " in err
    assert all(part in err for part in parts)
    assert list(tmp_path.iterdir()) == []


def test_unknown_command_lists_the_known(capsys):
    assert main(["swep"]) == BAD_INPUT
    assert "expected one of sweep, predict" in capsys.readouterr().err


def test_full_error_shows_the_exception(monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="learning_rate: expected a number > 0"):
        main(["predict", "learning_rate=-1"])

"""Bad input: one clear line that names the key, what was expected and what was got; exit 2; nothing written."""

import shlex
from pathlib import Path

import pytest
from settings import nightly_but

from bandit_lab.app.cli import BAD_INPUT, main

SHARED = {
    "learning_rat=0.1": ("learning_rat", "did you mean learning_rate"),
    "learning_rate=-1": ("learning_rate", "> 0"),
    "learning_rate=0": ("learning_rate", "> 0"),
    "learning_rate=nan": ("learning_rate", "finite"),
    "learning_rate=inf": ("learning_rate", "finite"),
    "learning_rate=abc": ("learning_rate", "a number", "'abc'"),
    "learning_rate=null": ("learning_rate", "a number"),
    "momentum=1": ("momentum", "[0, 1)"),
    "momentum=-0.1": ("momentum", "[0, 1)"),
    "refresh_interval=0": ("refresh_interval", "integer >= 1", "0"),
    "refresh_interval=2.5": ("refresh_interval", "integer", "2.5"),
    "refresh_interval=-1 staleness=lag": ("refresh_interval", "integer >= 0", "-1"),
    "bandit=foo": ("bandit", "k_arm", "two_arm", "'foo'"),
    "advantage=foo": ("advantage", "dr_grpo", "grpo", "rloo", "'foo'"),
    "estimator=foo": ("estimator", "frozen", "uncorrected", "ratio", "'foo'"),
    "staleness=foo": ("staleness", "lag", "pipeline", "refresh", "'foo'"),
    "optimizer=foo": ("optimizer.name", "nesterov, sgd, sgd_ema", "'foo'"),
    "advantage.epz=1": ("advantage.epz", "unknown option"),
    "advantage.eps=-1": ("advantage.eps", ">= 0"),
    "advantage.eps=abc": ("advantage.eps", "'abc'"),
    "advantage.ddof=3": ("advantage.ddof", "0 or 1"),
    "group_size=1": ("group_size", ">= 2"),
    "group_size=1 advantage=rloo": ("group_size", ">= 2"),
    "group_size=1 advantage=dr_grpo": ("group_size", ">= 2"),
    "kl_weight=-1": ("kl_weight", ">= 0"),
    "kl_weight=nan": ("kl_weight", "finite"),
    "steps=0": ("steps", ">= 1"),
    "prompts=0": ("prompts", ">= 1"),
    "bandit.rewards=[0.9,1.1]": ("bandit.rewards[1]", "[0, 1]", "1.1"),
    "bandit.rewards=[0.9,-0.1]": ("bandit.rewards[1]", "[0, 1]", "-0.1"),
    "bandit.rewards=[0.9,nan]": ("bandit.rewards[1]", "finite"),
    "bandit.rewards=[0.9]": ("bandit.rewards", "2 arms"),
    "bandit.rewards=0.5": ("bandit.rewards", "a list of numbers"),
    "bandit=k_arm bandit.rewards=[0.9]": ("bandit.rewards", "at least 2 arms"),
    "bandit.kind=foo": ("bandit.kind", "bernoulli, fixed"),
    "bandit.reference_logits=[0,-1000]": ("bandit.reference_logits", "> 0"),
    "bandit.reference_logits=[0,-inf]": ("bandit.reference_logits[1]", "finite"),
    "bandit.initial_logits=[0,nan]": ("bandit.initial_logits[1]", "finite"),
    "dynamics=foo": ("dynamics", "mean_field, finite_group, sampled"),
    "kl_estimator=foo": ("kl_estimator", "exact", "k3"),
    "bandit.foo=1": ("bandit.foo", "bandit=two_arm", "rewards, reference_logits, initial_logits, kind"),
    "advantage.foo=1": ("advantage.foo", "advantage=grpo", "eps, ddof"),
    "estimator=clipped estimator.foo=1": ("estimator.foo", "estimator=clipped", "epsilon"),
    "staleness.foo=1": ("staleness.foo", "no options of staleness=refresh"),
    "kl_estimator.foo=1": ("kl_estimator.foo", "no options of kl_estimator=exact"),
    "sampler=foo": ("sampler", "exact", "temperature", "'foo'"),
    "sampler=temperature sampler.tau=0": ("sampler.tau", "> 0"),
    "sampler=top_k estimator=clipped": ("sampler", "draw every answer", "Clipped(epsilon=0.2)", "TopK(k=3)"),
    "sampler=top_p correction=tis": ("sampler", "draw every answer", "Truncated(largest=2.0)"),
    "sampler=logit_noise sampler.noise=[1,2,3]": ("sampler.noise", "2 numbers"),
    "correction=tis correction.largest=0.5": ("correction.largest", ">= 1"),
    "entropy_weight=-1": ("entropy_weight", ">= 0", "-1"),
    "plugins=[no_such_module]": ("plugins", "'no_such_module'"),
    "batch_reuse=true staleness=lag": ("batch_reuse", "false"),
    "batch_reuse=maybe": ("batch_reuse", "true or false", "'maybe'"),
    "run_dir=/dev/null/x": ("run_dir", "can be written"),
    "run_dir=/proc/no/such": ("run_dir", "can be created"),
    "foo": ("override", "key=value", "'foo'"),
    "=3": ("override", "key=value"),
    "+foo=1": ("foo", "a setting of"),
    "bandit=[1,2]": ("override", "key=value"),
    "-q": ("option", "'-q'"),
    "--cfg": ("--cfg", "job, hydra, all", "got nothing"),
    "--cfg seed=1": ("--cfg", "job, hydra, all", "'seed=1'"),
    "-m learning_rate=1,-1": ("learning_rate", "> 0", "-1"),
    "optimizer=adam optimizer.options.foo=1": ("optimizer.options", "b1, b2", "'foo'"),
    "optimizer=gac optimizer.options.low=2": ("optimizer.options", "low <= high", "'low': 2"),
    "dynamics=finite_group bandit=k_arm bandit.kind=fixed": ("group_size", "ways"),
    "bandit=modes 'bandit.sizes=[1000000000,2,4,8]'": ("bandit.sizes", "at most 65536 arms together", "1000000014"),
    "bandit=contextual bandit.contexts=1000000": ("bandit.contexts", "at most", "numbers in all features"),
    "bandit=contextual bandit.dimension=1000000000": ("bandit.contexts", "at most", "numbers in all features"),
}
SWEEP = {
    "seeds=0": ("seeds", ">= 1"),
    "seeds=abc": ("seeds", "an integer", "'abc'"),
    "seed=-1": ("seed", ">= 0"),
    "precision=float16": ("precision", "float32, float64"),
    "rng=foo": ("rng", "hash, threefry"),
    "path=foo": ("path", "auto, fast, reference"),
    "rng=hash path=reference": ("rng", "null with path=reference", "'hash'"),
    "path=fast bandit=gaussian group_size=65536": ("path", "reference (more than 65536 pairs of an action and an arm"),
    "sweep.group_size=[8,16]": ("sweep.group_size", "use -m group_size="),
    "sweep.bandit=[two_arm]": ("sweep.bandit", "use -m bandit="),
    "sweep=[]": ("sweep", "a mapping", "'[]'"),
    "sweep.learning_rat=[1]": ("sweep.learning_rat", "one of learning_rate"),
    "learning_rate=0.1 sweep.learning_rate=[0.1,0.2]": ("learning_rate", "one of learning_rate and sweep", "0.1"),
    "sweep.learning_rate=[]": ("sweep.learning_rate", "empty"),
    "sweep.learning_rate=0.1": ("sweep.learning_rate", "a list or"),
    "sweep.learning_rate=[0.1,-1]": ("sweep.learning_rate[1]", "> 0"),
    "sweep.learning_rate=[nan]": ("sweep.learning_rate[0]", "finite"),
    "'sweep.learning_rate={start: 0, stop: 1, num: 3, scale: log}'": ("sweep.learning_rate.start", "> 0", "0"),
    "'sweep.learning_rate={start: 0.1, stop: 1, num: 0}'": ("sweep.learning_rate.num", ">= 1"),
    "'sweep.learning_rate={start: 0.1, stop: 1, num: 3, scale: cubic}'": ("sweep.learning_rate.scale", "linear, log"),
    "'sweep.learning_rate={start: 0.1, stop: 1, nun: 3}'": ("sweep.learning_rate", "start, stop, num, scale", "'nun'"),
    "sweep.momentum=[0.5,1.0]": ("sweep.momentum[1]", "[0, 1)"),
    "sweep.refresh_interval=[0,1]": ("sweep.refresh_interval[0]", "integer >= 1"),
    "sweep.refresh_interval=[1,2.5]": ("sweep.refresh_interval[1]", "integer"),
    "sweep.refresh_interval=[-1] staleness=lag": ("sweep.refresh_interval[0]", "integer >= 0"),
    "sweep.kl_weight=[-1]": ("sweep.kl_weight[0]", ">= 0"),
    "sampled.refresh_interval=[]": ("sampled.refresh_interval", "empty"),
    "sampled.multiple=[0]": ("sampled.multiple[0]", "> 0"),
    "sampled.start=nowhere": ("sampled.start", "fixed_point, initial"),
    "boundary=momentum": ("boundary", "learning_rate, refresh_interval"),
    "memory_limit=-1": ("memory_limit", "> 0"),
    "seeds=1000000000000": ("sweep", "GiB", "free on the disk of run_dir", "sweep fewer values, lower seeds"),
    "memory_limit=1 'sweep.learning_rate={start: 1, stop: 2, num: 1000000}'": ("sweep", "GiB"),
    "group_size=1000000000 path=reference": ("group_size", "at most", "got 1000000000 (about", "on the reference path"),
    "prompts=1000000000": ("prompts", "at most", "got 1000000000 (about", "on the reference path"),
    "group_size=65536 path=reference memory_limit=0.1": ("group_size", "at most", "for 0.1 GiB of memory"),
    "steps=1000000000000": ("sweep", "GiB", "lower seeds or steps"),
    "chunk.seeds=1000": ("chunk.seeds", "a multiple of 4096", "1000"),
    "chunk.cells=3": ("chunk.cells", "a multiple of 4", "3"),
    "chunk.rows=0": ("chunk.rows", "an integer >= 1", "0"),
    "keep_runs=some": ("keep_runs", "true or false", "'some'"),
    "'sweep.learning_rate={num: 100000000}'": ("sweep.learning_rate.num", "at most"),
}
PREDICT = {
    "seeds=8": ("seeds", "a setting of predict (it is one of sweep)"),
    "path=fast": ("path", "a setting of predict (it is one of sweep)"),
    "steps=500": ("steps", "beside a schedule or a bandit with a clock", "500"),
    "refresh_interval=1e9": ("refresh_interval", "at most 65536 with staleness=refresh", "1000000000"),
    "refresh_interval=1000000 staleness=pipeline": ("refresh_interval", "at most 65536", "1000000"),
    "refresh_interval=513 staleness=lag": ("refresh_interval", "at most 512 with staleness=lag", "513"),
}
CASES = [(command, text, want) for command in ("predict", "sweep") for text, want in SHARED.items()]
TWICE = CASES[: len(SHARED) : 2] + CASES[len(SHARED) + 1 :: 2]
"""Of what both commands refuse, every second one by the other command: left to `make nightly`."""
CASES += [("predict", text, want) for text, want in PREDICT.items()]
CASES += [("sweep", text, want) for text, want in SWEEP.items()]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)


@pytest.mark.parametrize(
    ("command", "text", "want"),
    nightly_but([case for case in CASES if case not in TWICE], CASES),
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


def test_multirun_checks_every_job_before_the_first(tmp_path, capsys):
    assert main(["predict", "-m", "group_size=8,1", "run_dir=many"]) == BAD_INPUT
    assert "group_size" in capsys.readouterr().err
    assert not Path("many").exists()

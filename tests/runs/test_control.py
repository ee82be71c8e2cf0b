"""`diagnose LOG control=true`: what to run at learning rate 0, in the words of the trainer, and what must stay."""

import json
from pathlib import Path

import numpy as np
import pytest

import bandit_lab as bl
from bandit_lab.app.cli import BAD_INPUT, main

REWARD = 0.31 + 0.02 * np.random.default_rng(0).normal(size=40)


def log(folder, name="log.jsonl", **columns):
    """A log of 40 rows under these keys."""
    path = folder / name
    rows = [{key: float(value[n]) for key, value in columns.items()} | {"step": n} for n in range(REWARD.size)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return str(path)


def recipe(path, capsys, **more):
    """(what the terminal says on few lines, quantity -> what it must do)."""
    found = bl.diagnose(path, control=True, quiet=True, report=False, **more)
    found.show()
    return " ".join(capsys.readouterr().out.split()), {
        row["quantity"]: row["must"] for row in found.to_dict()["control"]
    }


@pytest.mark.parametrize(
    ("marks", "setting"),
    [
        (("reward", "frac_reward_zero_std", "num_tokens", "clip_ratio/region_mean"), "TRL: learning_rate=0."),
        (("critic/rewards/mean", "critic/score/max", "timing_s/step"), "verl: actor_rollout_ref.actor.optim.lr=0"),
        (("reward", "act_loss", "actor_lr"), "OpenRLHF: actor.adam.lr=0"),
        (("reward/all/mean", "entropy/all/mean", "off_policy/mean"), "prime-rl: optim.lr=0"),
    ],
)
def test_the_learning_rate_has_the_name_of_the_trainer(marks, setting, tmp_path, capsys):
    said, _ = recipe(log(tmp_path, **dict.fromkeys(marks, REWARD)), capsys)
    assert setting in said
    assert sum(f"{name}: " in said for name in ("TRL", "verl", "OpenRLHF", "prime-rl")) == 1


def test_a_log_of_no_known_trainer_is_told_the_names_of_four(tmp_path, capsys):
    said, _ = recipe(log(tmp_path, mean_reward=REWARD), capsys)
    assert all(f"{name}: " in said for name in ("TRL", "verl", "OpenRLHF", "prime-rl"))


def test_a_configuration_names_the_trainer(tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text("actor_rollout_ref: {rollout: {n: 8}, actor: {optim: {lr: 1.0e-6}}}\ndata: {train_batch_size: 8}")
    assert "Set verl: " in recipe(log(tmp_path, mean_reward=REWARD), capsys, config=str(config))[0]


def test_what_must_stay_is_what_the_log_holds(tmp_path, capsys):
    said, must = recipe(log(tmp_path, reward=REWARD, kl=REWARD, entropy=REWARD), capsys)
    assert set(must) == {"reward 'reward'", "kl 'kl'", "entropy 'entropy'", "log-probabilities (log them)"}
    assert must["kl 'kl'"].startswith("stay at 0")
    assert "engine that never gets any passes" in said
    assert "Log the learning rate in it" in said
    assert "Log the learning rate in it" not in recipe(log(tmp_path, reward=REWARD, learning_rate=REWARD), capsys)[0]
    _, with_ratio = recipe(log(tmp_path, reward=REWARD, **{"sampling/importance_sampling_ratio/mean": REWARD}), capsys)
    assert "log-probabilities (log them)" not in with_ratio


def test_the_band_holds_a_level_run_and_not_a_broken_one(tmp_path, capsys):
    """200 control runs of the same noise: the mean of 20 steps stays within the band in all but one in a hundred."""
    _, must = recipe(log(tmp_path, reward=REWARD), capsys)
    words = must["reward 'reward'"].replace(",", "").split()
    within, level = float(words[words.index("within") + 1]), float(words[words.index("of", 6) + 1])
    means = 0.31 + 0.02 * np.random.default_rng(1).normal(size=(200, 20)).mean(axis=1)
    assert np.mean(np.abs(means - level) <= within) >= 0.99
    assert within < 0.1  # a reward that falls from .31 to .017, as with wrong weights, is far outside


def test_the_page_holds_the_recipe_and_several_runs_have_none(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = (log(tmp_path, f"{name}.jsonl", reward=REWARD) for name in "ab")
    assert main(["diagnose", first, "control=true", "run_dir=out"]) == 0
    assert "Control run" in Path("out/report/index.html").read_text()
    assert main(["diagnose", first, "run_dir=out", "overwrite=true"]) == 0
    assert "Control run" not in Path("out/report/index.html").read_text()
    assert main(["diagnose", first, second, "control=true", "run_dir=out", "overwrite=true"]) == BAD_INPUT
    assert "control: expected one run" in capsys.readouterr().err

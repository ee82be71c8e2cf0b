"""Settings that a log holds: each form as trainers print it, and nothing from text that only looks like one."""

import json
import os
import struct
import time
from pathlib import Path

import pytest
from grpo_clinic.trainers import settings_of_log, understand

VERL = """ray init kwargs: {{'num_cpus': 8}}
(TaskRunner pid=7) {{'actor_rollout_ref': {{'actor': {{'kl_loss_coef': 0.002,
(TaskRunner pid=7)                                  'optim': {{'lr': 3e-06, 'betas': [0.9, 0.99]}},
(TaskRunner pid=7)                                  'ppo_mini_batch_size': 16,
(TaskRunner pid=7)                                  'use_kl_loss': True}},
(TaskRunner pid=7)                        'rollout': {{'n': {n}, 'val_kwargs': {{'n': 1}}}}}},
(TaskRunner pid=7)  'algorithm': {{'adv_estimator': 'grpo'}},
(TaskRunner pid=7)  'data': {{'train_batch_size': 64, 'train_files': None}}}}
(TaskRunner pid=7) step:1 - critic/rewards/mean:0.3
"""
NAMESPACE = "Arguments: Namespace(num_generations=6, learning_rate=2e-05, kl_beta=0.02, exp_name='a (b)', run=None)\n"
CONFIG = (
    "GRPOConfig(\nnum_generations=6,\nbeta=0.02,\nlr_scheduler_type=SchedulerType.COSINE,\nlearning_rate=2e-5,\n)\n"
)
SPOKEN = "Starting\n  KL coef: 0.02\n  Rollouts per prompt: 6\n - learning_rate = 2e-05\nrewards: 0.3\n"


def written(tmp_path, text, name="run.log"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def of(path, framework):
    """Group size, KL weight, learning rate and their origins."""
    setup = understand(None, {}, {}, None, None, settings_of_log(path), framework)
    return (setup.number("group_size"), setup.reading.kl_weight, setup.number("learning_rate")), setup


def test_lines_of_other_processes_inside_a_dump_are_passed_over(tmp_path):
    """ray mixes stderr and other workers in. A dump without prefixes has no way to tell, and is left as it was."""
    lines = VERL.format(n=4).splitlines(keepends=True)
    foreign = ("UserWarning: a } tool's config\n", "(vLLM pid=8) {'n': 9}\n", "\n", "  warnings.warn({\n")
    for place in range(2, 7):
        text = "".join((*lines[:place], *foreign, *lines[place:]))
        found = of(written(tmp_path, text), "verl")
        assert found[0] == (4, 0.002, 3e-6)
        assert found[1].loop.interval == 4  # 64 / 16
        assert found[1].reading.rule.name == "grpo"


@pytest.mark.parametrize("text", [NAMESPACE, CONFIG, SPOKEN])
def test_printed_arguments(tmp_path, text):
    found, setup = of(written(tmp_path, text), "TRL")
    assert found == (6, 0.02, 2e-5)
    assert {setup.facts[name].origin for name in ("group_size", "kl_weight", "learning_rate")} == {"log"}
    assert setup.loop.assumed  # nobody said how many updates a batch serves
    assert "in the log" in setup.facts["group_size"].text


def test_the_dump_of_verl(tmp_path):
    """Planted: the n of the validation, 1, is nearer to the end of the dump."""
    found, setup = of(written(tmp_path, VERL.format(n=5)), "verl")
    assert found == (5, 0.002, 3e-6)
    assert setup.loop.block == 4
    assert not setup.loop.assumed


def test_a_run_that_went_on_was_not_refused(tmp_path):
    text = VERL.format(n=5).replace("'train_batch_size': 64", "'train_batch_size': 2")
    (trap,) = [one for one in of(written(tmp_path, text), "verl")[1].traps if one.name == "mini_batch_larger"]
    assert not trap.severe
    assert "refuses" not in trap.text


def test_rows_that_repeat_settings(tmp_path):
    rows = [{"type": "train", "reward": 0.1 * i, "group_size": 8, "kl_coef": 0.01, "learning_rate": 1e-5 * i,
             "optimizer_updates_per_rollout_batch": 4} for i in range(1, 6)]  # fmt: skip
    path = written(tmp_path, "\n".join(map(json.dumps, rows)), "m.jsonl")
    found, setup = of(path, "own loop")
    assert found == (8, 0.01, None)  # a rate that changes is no setting
    assert setup.loop.block == 4
    assert of(written(tmp_path, json.dumps(rows), "m.json"), "own loop")[0] == found


def test_texts_of_tensorboard(tmp_path):
    """A record framed by hand, as TensorBoard frames it; the library is not needed."""
    text = json.dumps({"num_generations": 6, "beta": 0.02, "learning_rate": 2e-5}).encode()
    records = (b"\x09\0\0\0\0\0\0\xf0?\x1a\rbrain.Event:2", b"\x12args/text_summaryB" + text)
    framed = b"".join(struct.pack("<Q", len(one)) + b"\0" * 4 + one + b"\0" * 4 for one in records)
    path = tmp_path / "events.out.tfevents.1.a"
    path.write_bytes(framed)
    assert of(str(path), "TRL")[0] == (6, 0.02, 2e-5)


def test_a_configuration_beside_the_log(tmp_path):
    log = written(tmp_path, json.dumps([{"step": 1, "reward": 0.1}]), "log.json")
    assert settings_of_log(log) is None
    written(tmp_path, '{"model_type": "qwen2", "hidden_size": 4}', "config.json")
    assert settings_of_log(log) is None  # a model's configuration
    written(tmp_path, "num_generations:\n  value: 6\nbeta:\n  value: 0.02\n", "wandb_config.yaml")
    found = settings_of_log(log)
    assert found.values["num_generations"] == 6
    assert found.path.endswith("wandb_config.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "", "{" * 5000, "{'data': {" * 3000, "Namespace(" * 4000, "GRPOConfig(\n" + "a=1,\n" * 3000,
        "beta: " + "9" * 90,
        "[" * 100_000, '{"group_size": 1e999, "beta": NaN}\n' * 50, "the beta: 3 of them\n", "\x00\x01",
    ],
)  # fmt: skip
def test_what_is_no_setting_gives_none(tmp_path, text):
    found = settings_of_log(written(tmp_path, text))
    assert found is None or set(found.values) <= {"a", "group_size", "beta"}


@pytest.mark.parametrize("line", ["{'data': {'a': 1,", "GRPOConfig(", "Namespace(a=1, " + "b=2, " * 400])
def test_a_hostile_log_takes_no_longer_than_an_honest_one(tmp_path, line):
    path = written(tmp_path, f"{line}\n" * 19_000)
    start = time.process_time()
    settings_of_log(path)
    assert time.process_time() - start < 2


def test_what_the_log_says_wins(tmp_path):
    log = settings_of_log(written(tmp_path, NAMESPACE))
    config = tmp_path / "c.yaml"
    config.write_text("num_generations: 16\nbeta: 0.5\nnum_iterations: 2\n")
    from grpo_clinic.trainers import load

    setup = understand(load(str(config)), {}, {}, None, None, log, "TRL")
    assert setup.number("group_size") == 6
    assert setup.loop.block == 2  # the log does not say
    assert understand(load(str(config)), {}, {"group_size": 4}, None, None, log, "TRL").number("group_size") == 4


def test_the_framework_of_the_log(tmp_path):
    assert understand(None, {}, log_of="verl").trainer.name == "verl"
    assert understand(None, {}, log_of="verl").loop.assumed
    assert not [trap for trap in understand(None, {}, log_of="verl").traps if trap.severe]
    assert understand(None, {}, framework="trl", log_of="verl").trainer.name == "TRL"
    assert "ROLL" in understand(None, {}, log_of="ROLL").recognised[0]


@pytest.mark.skipif("BANDIT_LAB_LOGS" not in os.environ, reason="public logs are not part of this repository")
def test_public_logs_that_hold_settings():
    """Counted with grep: G stands in 29 of the logs (or beside them), the KL weight in 26, one learning rate in 28."""
    folder = Path(os.environ["BANDIT_LAB_LOGS"])
    held = {"group_size": 0, "kl": 0, "rate": 0}
    for path in sorted(folder.iterdir()):
        found = settings_of_log(str(path))
        values = {} if found is None else found.values
        held["group_size"] += any(key.endswith(("num_generations", "group_size", "rollout.n")) for key in values)
        held["kl"] += any(key in ("beta", "kl_beta", "kl_weight", "kl_coef") or "kl_loss_coef" in key for key in values)
        held["rate"] += any(key.endswith(("learning_rate", "actor.optim.lr")) for key in values)
    assert held == {"group_size": 29, "kl": 26, "rate": 28}

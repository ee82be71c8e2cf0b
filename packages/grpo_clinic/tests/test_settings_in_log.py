"""Settings that a log holds: each form as trainers print it, and nothing from text that only looks like one."""

import json
import time

import pytest
from grpo_clinic.trainers import recipe_in_log, settings_of_log

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


def written(tmp_path, text, name="run.log"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def of(path, framework):
    return recipe_in_log(settings_of_log(path), framework)


def test_lines_of_other_processes_inside_a_dump_are_passed_over(tmp_path):
    """ray mixes stderr and other workers in. A dump without prefixes has no way to tell, and is left as it was."""
    lines = VERL.format(n=4).splitlines(keepends=True)
    foreign = ("UserWarning: a } tool's config\n", "(vLLM pid=8) {'n': 9}\n", "\n", "  warnings.warn({\n")
    for place in range(2, 7):
        settings = settings_of_log(written(tmp_path, "".join((*lines[:place], *foreign, *lines[place:]))))
        assert settings["actor_rollout_ref.rollout.n"] == 4
        assert settings["algorithm.adv_estimator"] == "grpo"


def test_the_dump_of_verl(tmp_path):
    """Planted: the n of the validation, 1, is nearer to the end of the dump."""
    settings = of(written(tmp_path, VERL.format(n=5)), "verl")
    assert settings.group_size == 5
    assert not settings.without_baseline(5)
    assert "no baseline" in of(written(tmp_path, VERL.format(n=1)), "verl").without_baseline(1)
    assert of(written(tmp_path, "nothing"), "verl").group_size is None  # a default is no statement


def test_a_run_that_went_on_was_not_refused(tmp_path):
    text = VERL.format(n=5).replace("'train_batch_size': 64", "'train_batch_size': 2")
    (trap,) = [one for one in of(written(tmp_path, text), "verl").traps if one.name == "mini_batch_larger"]
    assert "refuses" not in trap.text


def test_a_configuration_beside_the_log(tmp_path):
    log = written(tmp_path, json.dumps([{"step": 1, "reward": 0.1}]), "log.json")
    assert settings_of_log(log) == {}
    written(tmp_path, '{"model_type": "qwen2", "hidden_size": 4}', "config.json")
    assert settings_of_log(log) == {}  # a model's configuration
    written(tmp_path, "num_generations:\n  value: 6\nbeta:\n  value: 0.02\n", "wandb_config.yaml")
    assert of(log, "TRL").group_size == 6
    assert settings_of_log(log, {"group_size": 4}) == {"group_size": 4}  # what the log says wins
    dumped = written(tmp_path, VERL.format(n=5))
    assert settings_of_log(dumped, {"data.train_batch_size": 1, "other": 2})["data.train_batch_size"] == 64


@pytest.mark.parametrize("text", ["", "{" * 5000, "{'data': {" * 3000, "[" * 100_000, "\x00\x01"])
def test_what_is_no_setting_gives_none(tmp_path, text):
    assert settings_of_log(written(tmp_path, text)) == {}


def test_a_hostile_log_takes_no_longer_than_an_honest_one(tmp_path):
    path = written(tmp_path, "{'data': {'a': 1,\n" * 19_000)
    start = time.process_time()
    settings_of_log(path)
    assert time.process_time() - start < 2

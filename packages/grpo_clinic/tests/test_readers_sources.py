"""Logs of further trainers and containers: read right, or refused; every example follows the trainer's own source."""

import json
import pprint

import numpy as np
import pytest
from grpo_clinic.readers import read
from grpo_clinic.readers.columns import at_most
from grpo_clinic.report import report
from grpo_clinic.rules import Case

REWARDS = [0.1, 0.2, 0.4, 0.3, 0.5, 0.6]
STEPS = np.arange(1, 7)


def one(path, **options):
    (curve,) = read(path, **options)
    return curve


def check(curve, steps=STEPS, rewards=REWARDS):
    np.testing.assert_allclose(curve.step, steps)
    np.testing.assert_allclose(curve.reward, rewards)


def written(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_prime_rl_lines_with_a_validation_reward(tmp_path):
    """orchestrator.py: step_message. The validation reward stands behind the reward, and is no reward."""
    lines = ["12:00:00 SUCCESS Starting orchestrator"]
    for step, reward in zip(STEPS, REWARDS, strict=True):
        validated = f" Val. Reward: {reward - 0.05:.4f} |" if step % 2 else ""
        lines.append(
            f"12:00:{step:02d} SUCCESS Step {step} | Time: 35.13s | Reward: {reward:.4f} |{validated} Throughput: "
            f"1234.5 tokens/s | Seq. Length: {900 + step:.1f} tokens/sample | Async Level: 1 | Max. Off-Policy Level: 2"
        )
        lines.append(f"12:00:{step:02d} SUCCESS Step {step} | Time: 9.10s | Loss: 0.0100 | Entropy: 0.{step}000 | "
                     "Mismatch KL: 0.0010 | Grad. Norm: 0.2000 | LR: 1.00e-06 | Throughput: 0 tokens/s")  # fmt: skip
    curve = one(written(tmp_path / "orchestrator.log", lines))
    check(curve)
    assert curve.framework == "prime-rl"
    np.testing.assert_allclose(curve.eval.value, [0.05, 0.35, 0.45])
    np.testing.assert_array_equal(curve.eval.step, [1, 3, 5])
    np.testing.assert_allclose(curve.series["entropy"].value, 0.1 * STEPS)
    np.testing.assert_allclose(curve.series["length"].value, 900 + STEPS)


@pytest.mark.parametrize("console", [True, False])
def test_ms_swift_says_its_step(tmp_path, console):
    """ms-swift writes `global_step/max_steps`; the first row is logged at step 1, the others every five."""
    steps = [1, 5, 10, 15, 20, 25]
    rows = [
        {"loss": 0.0, "reward": reward, "reward_std": 0.1, "frac_reward_zero_std": 0.0, "learning_rate": 1e-6,
         "epoch": step / 100, "global_step/max_steps": f"{step}/100", "percentage": f"{step}.00%"}
        for step, reward in zip(steps, REWARDS, strict=True)
    ]  # fmt: skip
    text = [repr(row) if console else json.dumps(row) for row in rows]
    check(one(written(tmp_path / ("console.log" if console else "logging.jsonl"), text)), steps)


def test_a_console_stored_in_pieces_and_dictionaries_of_somebody_else(tmp_path):
    """A row with a reward and none of the trainer's keys is a library's."""
    rows = [f"{{'loss': 0.1, 'reward': 0.{n}, 'epoch': 0.1}}\n" for n in range(1, 7)]
    text = "".join([*rows[:3], "Failed to store {'agent_id': 'maker', 'reward': 2.6}\n", *rows[3:]])
    pieces = [{"stream_name": "stdout", "time": n, "data": text[n : n + 50]} for n in range(0, len(text), 50)]
    for name, whole in (("train.log", text), ("kaggle.log", json.dumps(pieces))):
        curve = one(written(tmp_path / name, [whole]))
        np.testing.assert_allclose(curve.reward, np.arange(1, 7) / 10)


def test_a_reward_of_two_words_is_read_beside_the_score_of_a_bar(tmp_path):
    rows = [
        f"Iter {n} | loss=0.1 | reward mean={value} std=0.2\nval: 9it [score=0.9]" for n, value in enumerate(REWARDS)
    ]
    curve = one(written(tmp_path / "train.log", rows))
    np.testing.assert_allclose(curve.reward, REWARDS)


def test_a_row_that_states_its_own_place_needs_no_step_of_another_line(tmp_path):
    lines = [f"Epoch 1 ({n}/90) Reward: 0.{n}\n[DEBUG] step=50" for n in range(1, 8)]
    np.testing.assert_array_equal(one(written(tmp_path / "run.log", lines)).step, np.arange(1, 8))


def test_rows_before_the_first_reward_and_columns_without_a_number_are_not_lost(tmp_path):
    """Without a step the rows before the first reward are 0, -1, ... A column of no numbers is not "not logged"."""
    rows = [{"entropy": 0.1 * n, "kl": None} | ({"reward": 0.02 * n} if n > 4 else {}) for n in range(20)]
    curve = one(written(tmp_path / "run.jsonl", map(json.dumps, rows)))
    np.testing.assert_array_equal(curve.series["entropy"].step, np.arange(-4, 16))
    said = report(Case(curve))
    assert "kl" in said.not_judged
    assert "kl" not in said.not_logged


def test_a_long_curve_ends_where_its_last_whole_block_does(tmp_path):
    curve = one(written(tmp_path / "run.csv", ["step,reward", *(f"{n},{n * n / 200}" for n in range(11))]))
    short = at_most(curve, 4)
    np.testing.assert_allclose(short.step, [1, 4, 7])
    np.testing.assert_allclose(short.reward * 200, [5 / 3, 50 / 3, 149 / 3])


def test_slime_says_the_rollout_and_its_raw_reward(tmp_path):
    """slime: `rollout {id}: {dict}`. `rollout/rewards` is normalised in its group; training steps follow."""
    lines = []
    for step, reward in zip(STEPS, REWARDS, strict=True):
        row = {"rollout/response_len/mean": 500.0, "rollout/rewards": 1e-9, "rollout/raw_reward": reward}
        lines.append(f"[2026-01-01 12:00:00] data.py:88 - rollout {step}: {row}")
        lines += [f"model.py - step {2 * step + k}: {{'train/loss': 0.1, 'train/grad_norm': 0.3}}" for k in (0, 1)]
        if step % 3 == 0:
            lines.append(f"data.py - eval {step}: {{'eval/aime': {reward / 2}, 'eval/aime-truncated_ratio': 0.1}}")
    curve = one(written(tmp_path / "slime.log", lines))
    check(curve)
    assert curve.reward_series.key == "rollout/raw_reward"
    np.testing.assert_allclose(curve.series["grad_norm"].value, 0.3)
    assert curve.framework == "slime"


def test_areal_grids(tmp_path):
    """AReaL: StatsLogger.commit announces the step, tabulate_stats draws the grid below it."""
    lines = []
    for step, reward in zip(STEPS, REWARDS, strict=True):
        lines += [
            f"20260101-12:00:00 StatsLogger INFO: Epoch 1/2 Step {step}/58 Train step {step}/116 done.",
            "Stats (1/1):",
            "╒═════════════════════════════╤════════════╤══════════════════════════╤════════════╕",
            f"│ ppo_actor/task_reward/avg   │ {reward:.4e} │ ppo_actor/update/lr      │ 1.0000e-06 │",
            f"│ ppo_actor/update/grad_norm  │ 2.0000e-01 │ rollout/reward           │ {reward + 1:.4e} │",
            "╘═════════════════════════════╧════════════╧══════════════════════════╧════════════╛",
        ]
    curve = one(written(tmp_path / "trainer.log", lines))
    check(curve)
    assert curve.framework == "AReaL"
    np.testing.assert_allclose(curve.series["grad_norm"].value, 0.2)


def test_skyrl_history(tmp_path):
    """SkyRL: the mean of positive rewards only, and pass@n, stand beside the raw reward."""
    rows = [
        {"_step": int(step), "trainer/global_step": int(step), "reward/avg_pass_at_4": 0.9,
         "reward/mean_positive_reward": 0.8, "reward/avg_raw_reward": reward, "policy/policy_entropy": 0.4,
         "policy/policy_lr": 1e-6, "policy/raw_grad_norm": 0.5, "eval/all/avg_score": reward / 2}
        for step, reward in zip(STEPS, REWARDS, strict=True)
    ]  # fmt: skip
    curve = one(written(tmp_path / "history.jsonl", map(json.dumps, rows)))
    check(curve)
    assert curve.framework == "SkyRL"
    np.testing.assert_allclose(curve.eval.value, np.array(REWARDS) / 2)
    assert set(curve.series) >= {"entropy", "lr", "grad_norm"}


@pytest.mark.parametrize("ray", ["", "(skyrl_entrypoint pid=7) "])
def test_skyrl_console_steps(tmp_path, ray):
    """SkyRL, tracking.py: `Step n: ` and a dictionary over lines, decimals as texts. The trainer's line with the reward
    stands before it; counted to the step seen last it would be one step early."""
    lines = []
    for step, reward in zip(STEPS, REWARDS, strict=True):
        row = {"generate/mean": "x}", "policy/policy_entropy": f"{0.4:.4f}", "policy/policy_loss": f"{-0.01:.4f}",
               "reward/avg_pass_at_4": f"{0.9:.4f}", "reward/avg_raw_reward": f"{reward:.4f}",
               "trainer/epoch": 0}  # fmt: skip
        line = f"2026-01-01 12:00:00.1 | INFO | trainer - reward/avg_pass_at_4: 0.9, reward/avg_raw_reward: {reward}"
        text = f"2026-01-01 12:00:00.2 | INFO | tracking:log:94 - Step {step}: \n{pprint.pformat(row)}"
        lines += [ray + one for one in (line, *text.split("\n"))]
    curve = one(written(tmp_path / "train.out", lines))
    check(curve)
    assert (curve.format, curve.framework) == ("SkyRL console", "SkyRL")
    np.testing.assert_allclose(curve.series["entropy"].value, 0.4)
    cut = one(written(tmp_path / "cut.out", lines[:-2]))  # inside the last dictionary
    np.testing.assert_array_equal(cut.step, curve.step[:-1])
    np.testing.assert_array_equal(cut.reward, curve.reward[:-1])


def trl_rows():
    return [{"step": int(s), "reward": r, "loss": 0.1, "epoch": 0.1} for s, r in zip(STEPS, REWARDS, strict=True)]


def test_a_notebook_gives_its_table_or_its_text(tmp_path):
    """transformers' NotebookProgressCallback below a cell, as Unsloth's notebooks hold it."""
    head = "".join(f"<th>{name}</th>" for name in ("Step", "Training Loss", "reward", "rewards / check / mean"))
    body = "".join(
        f"<tr><td>{step}</td><td>0.000100</td><td>{reward}</td><td>{reward}</td></tr>"
        for step, reward in zip(STEPS, REWARDS, strict=True)
    )
    page = f"<div><progress></progress></div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    shown = {"output_type": "display_data", "data": {"text/html": [page]}}
    book = {"cells": [{"cell_type": "markdown"}, {"cell_type": "code", "outputs": [shown]}], "nbformat": 4}
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps(book))
    curve = one(path)
    check(curve)
    assert "rewards/check/mean" in curve.parts
    shorter = {"output_type": "display_data", "data": {"text/html": [page.replace(body, body[: len(body) // 2])]}}
    for outputs in ([shown, shorter], [shorter, shown]):  # the longer table is the run
        path.write_text(json.dumps({"cells": [{"cell_type": "code", "outputs": outputs}]}))
        check(one(path))
    printed = {"output_type": "stream", "text": [f"{row}\n" for row in trl_rows()]}
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "outputs": [printed]}]}))
    check(one(path))
    path.write_text(json.dumps({"cells": []}))
    with pytest.raises(ValueError, match="reward lines"):
        read(path)


def test_evaluation_columns_that_were_not_understood_are_named(tmp_path):
    rows = [row | {"eval_my_own_thing": 0.1, "eval_reward": 0.2} for row in trl_rows()]
    curve = one(written(tmp_path / "run.jsonl", map(json.dumps, rows)))
    assert curve.eval.key == "eval_reward"
    assert any("eval_my_own_thing" in note for note in curve.notes)
    chosen = one(tmp_path / "run.jsonl", eval_key="eval_my_own_thing")
    assert chosen.eval.key == "eval_my_own_thing"


@pytest.mark.parametrize(("levels", "there"), [(6, True), (7, False)])
def test_a_history_is_looked_for_at_seven_levels(tmp_path, levels, there):
    document = trl_rows()
    for _ in range(levels + 1):
        document = {"inner": document}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    if there:
        check(one(path))
    else:
        with pytest.raises(ValueError, match="expected"):
            read(path)

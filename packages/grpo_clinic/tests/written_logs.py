"""The same small run written in every format that the readers know, by the tests themselves."""

import csv
import io
import json
from pathlib import Path

import numpy as np

N = 24
STEP = np.arange(1, N + 1)
REWARD = np.round(0.2 + 0.6 * (1 - np.exp(-STEP / 6.0)) + 0.02 * np.cos(5 * STEP), 6)
ENTROPY = np.round(1.0 - 0.02 * STEP, 6)
KL = np.round(0.001 * STEP, 6)


def trl_rows(step: bool = True) -> list[dict]:
    """TRL log events of mid 2025, with an evaluation row after every eighth."""
    rows = []
    for i in range(N):
        row = {"loss": 0.01, "grad_norm": 0.5, "learning_rate": 1e-6 * (1 - i / N)}
        row |= {"rewards/accuracy/mean": float(REWARD[i]) - 0.1, "rewards/accuracy/std": 0.4}
        row |= {"reward": float(REWARD[i]), "reward_std": 0.3, "frac_reward_zero_std": 0.25}
        row |= {"kl": float(KL[i]), "entropy": float(ENTROPY[i]), "clip_ratio/region_mean": 0.0}
        row |= {"completions/mean_length": 100.0 + i, "epoch": round((i + 1) / 100, 4)}
        rows.append(row | ({"step": int(STEP[i])} if step else {}))
        if i % 8 == 7:
            held_out = {"eval_loss": 0.0, "eval_reward": float(REWARD[i]) - 0.05, "epoch": row["epoch"]}
            rows.append(held_out | ({"step": int(STEP[i])} if step else {}))
    return rows


def trainer_state(path: Path) -> None:
    rows = [*trl_rows(), {"step": N, "train_runtime": 10.0, "train_loss": 0.01}]
    path.write_text(json.dumps({"global_step": N, "log_history": rows, "logging_steps": 1}))


def log_history(path: Path) -> None:
    path.write_text(json.dumps(trl_rows(), indent=1))


def trl_console(path: Path, strings: bool = False, bars: bool = True) -> None:
    lines = ["Some banner {'model': 'tiny', 'use_kl_in_reward': False}\n"]
    for number, row in enumerate(trl_rows(step=False)):
        shown = {key: str(value) for key, value in row.items()} if strings else row
        done = min(number + 1, N)
        bar = f"\r  4%|▍         | {done}/{N} [00:10<02:00,  5.0s/it]" if bars else ""
        lines.append(f"{bar}\x1b[A{bar}{shown}\n")
    lines.append("{'train_runtime': 12.0, 'train_loss': 0.0, 'epoch': 1.0}\n")
    path.write_text("".join(lines))


def trl_console_strings(path: Path) -> None:
    trl_console(path, strings=True)


def verl_console(path: Path, wrapped: bool = True) -> None:
    lines = ["\x1b[36m(TaskRunner pid=7)\x1b[0m {'actor': {'use_kl_loss': False}}\n"]
    lines.append("\x1b[36m(TaskRunner pid=7)\x1b[0m step:0 - val-core/gsm8k/acc/mean@1:0.15\n")
    for i in range(N):
        reward = f"np.float64({REWARD[i]})" if wrapped else f"{REWARD[i]}"
        text = f"step:{STEP[i]} - actor/entropy:{ENTROPY[i]} - actor/kl_loss:np.float64({KL[i]}) - actor/lr:1e-06"
        text += f" - critic/score/mean:{reward} - critic/rewards/mean:{reward} - response_length/mean:{100.0 + i}"
        if i % 8 == 7:
            text += f" - val-core/gsm8k/acc/mean@1:{REWARD[i] - 0.05}"
        lines.append(f"\x1b[36m(TaskRunner pid=7)\x1b[0m {text}\n")
    path.write_text("".join(lines))


def verl_file(path: Path) -> None:
    with path.open("w") as file:
        for i in range(N):
            data = {"critic/rewards/mean": REWARD[i], "actor/entropy": ENTROPY[i], "actor/kl_loss": KL[i]}
            print(json.dumps({"step": int(STEP[i]), "data": data}), file=file)


def typed_jsonl(path: Path) -> None:
    """Rollout rows, several training rows per cycle, evaluation rows; nulls among them."""
    with path.open("w") as file:
        print(json.dumps({"type": "eval", "grpo_step": 0, "reward": 0.1}), file=file)
        for i in range(N):
            cycle = {"grpo_step": int(STEP[i])}
            print(json.dumps({"type": "rollout", **cycle, "mean_reward": REWARD[i], "group_size": 8}), file=file)
            for k in range(2):
                row = {"type": "train", **cycle, "optimizer_step": 2 * i + k, "token_entropy": ENTROPY[i] + 0.1 * k}
                print(json.dumps({**row, "train_reward": 9.0, "reference_kl": None}), file=file)
            if i % 8 == 7:
                print(json.dumps({"type": "eval", **cycle, "reward": REWARD[i] - 0.05}), file=file)


def columns_json(path: Path) -> None:
    path.write_text(json.dumps({"step": STEP.tolist(), "reward": REWARD.tolist(), "entropy": ENTROPY.tolist()}))


def nested_json(path: Path) -> None:
    deep = ({"log": {"train": {"all": {"reward": float(r)}}}} for r in REWARD)
    rows = [{"step": int(s)} | one for s, one in zip(STEP, deep, strict=True)]
    path.write_text(json.dumps({"my_run": {"reward_key": "critic/score/mean", "n": N, "merged": rows}}))


def wide_csv(path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "reward", "entropy", "note"])
        writer.writerows([s, r, e, "a, quoted text"] for s, r, e in zip(STEP, REWARD, ENTROPY, strict=True))


def long_csv(path: Path, runs: tuple[str, ...] = ("only",)) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["run_name", "metric", "step", "value"])
        for shift, run in enumerate(runs):
            for name, values in (("train/reward", REWARD + shift), ("train/entropy", ENTROPY)):
                writer.writerows([run, name, s, v] for s, v in zip(STEP, values, strict=True))


def wandb_csv(path: Path, runs: tuple[str, ...] = ("only",)) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        metrics = ["train/reward", "train/reward__MIN", "train/reward__MAX"]
        writer.writerow(["Step", *(f"{run} - {metric}" for run in runs for metric in metrics)])
        for s, r in zip(STEP, REWARD, strict=True):
            writer.writerow([s, *(v for shift in range(len(runs)) for v in (r + shift, r - 1, r + 1))])


def tensorboard_csv(path: Path) -> None:
    rows = [f"{1.7e9 + s},{s},{r}" for s, r in zip(STEP, REWARD, strict=True)]
    path.write_text("\n".join(["Wall time,Step,Value", *rows]))


def json_in_text(path: Path) -> None:
    rows = [{"step": int(s), "reward": float(r), "loss": 0.1} for s, r in zip(STEP, REWARD, strict=True)]
    path.write_text("".join(f"2025-06-01 10:00:00 INFO trainer: {json.dumps(row)} done\n" for row in rows))


def free_text(path: Path) -> None:
    path.write_text("".join(f"[step {s}] loss: 0.1, reward: {r} | 3.2s\n" for s, r in zip(STEP, REWARD, strict=True)))


def utf16_csv(path: Path) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter="\t").writerows([["step", "reward"], *zip(STEP, REWARD, strict=True)])
    path.write_bytes(text.getvalue().encode("utf-16"))


def skyrl_console(path: Path) -> None:
    """SkyRL: the trainer's own line, then the step with a dictionary over lines, decimals as texts."""
    lines = []
    for i in range(N):
        lines.append(
            f"2026-01-01 12:00:00.1 | INFO | trainer - reward/avg_pass_at_4: 0.9, reward/avg_raw_reward: {REWARD[i]}"
        )
        lines.append(f"2026-01-01 12:00:00.2 | INFO | tracking:log:94 - Step {STEP[i]}: ")
        lines.append(f"{{'policy/policy_entropy': '{ENTROPY[i]:.6f}',\n 'policy/policy_kl': '{KL[i]:.6f}',")
        lines.append(f" 'reward/avg_raw_reward': '{REWARD[i]:.6f}'}}")
    path.write_text("\n".join(lines) + "\n")


WRITERS = {
    "trainer_state.json": trainer_state,
    "history.json": log_history,
    "trl.log": trl_console,
    "trl_strings.log": trl_console_strings,
    "verl.log": verl_console,
    "verl.jsonl": verl_file,
    "typed.jsonl": typed_jsonl,
    "columns.json": columns_json,
    "nested.json": nested_json,
    "wide.csv": wide_csv,
    "long.csv": long_csv,
    "wandb.csv": wandb_csv,
    "tensorboard.csv": tensorboard_csv,
    "objects.log": json_in_text,
    "free.txt": free_text,
    "skyrl.log": skyrl_console,
    "utf16.csv": utf16_csv,
}

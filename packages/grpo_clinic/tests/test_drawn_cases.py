"""Rules and readers put to drawn runs: every column in any shape, few rows or many, on steps of its own; every form of
a file, with gaps, odd cells and columns that end early. Their numbers stay: see `pinned`."""

import json
import random
import re

import numpy as np
import pytest
from grpo_clinic import compare
from grpo_clinic.readers import Curve, RewardScale, Series, read
from grpo_clinic.report import report, text
from grpo_clinic.rules import Case
from pinned import check
from test_clinic_numbers import of_curve

USUAL = {  # no rule asks for the last
    "entropy": 1.0, "kl": 0.02, "grad_norm": 0.5, "clip_frac": 0.1, "zero_std_frac": 0.3, "truncation": 0.1,
    "length": 300.0, "lr": 1e-6, "reward_std": 0.3, "reward_min": 0.1, "reward_max": 0.9, "engine_kl": 0.02,
    "engine_k1": 0.02, "engine_abs": 0.05, "importance_ratio": 1.0, "ess": 0.9, "age": 2.0, "age_max": 4.0,
    "perplexity": 8.0,
}  # fmt: skip
SHAPES = {
    "level": lambda x: 0 * x,
    "rises": lambda x: x,
    "quickly": lambda x: 1 - np.exp(-20 * x),
    "late": lambda x: 1.0 * (x > 0.8),
    "once": lambda x: 1.0 * (np.abs(x - 0.7) < 0.03),
    "and back": lambda x: np.interp(x, [0, 0.4, 0.6, 1], [0, 1, 1, 0.2]),
    "swings": lambda x: np.sin(25 * x),
}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def drawn_series(key, usual, length, draw, rng):
    """A tenth of them zero, a few below zero, on all steps or on some."""
    x = np.arange(length) / max(length - 1, 1)
    size = draw.choice([-1, -0.5, -0.2, 0.3, 1, 4, 20, 400])
    value = usual * (
        1 + size * SHAPES[draw.choice([*SHAPES])](x) + draw.choice([0, 0.02, 0.2]) * rng.normal(size=length)
    )
    value = draw.choice([0 * value, -value, *[value] * 12])
    kept = np.flatnonzero(rng.random(length) < draw.choice([0.3, 0.8, 1, 1, 1]))
    return Series(1.0 + kept, value[kept], key)


def drawn_case(seed):
    """A run, what its recipe says, and perhaps no reward."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    length, control = draw.choice([4, 9, 16, 30, 60, 120]), draw.random() < 0.2
    names = draw.sample([*USUAL], draw.choice([2, 5, 9, 19]))
    series = {name: drawn_series(f"my/{name}", USUAL[name], length, draw, rng) for name in names}
    keys = draw.sample(["accuracy", "format_reward", "style"], draw.choice([0, 0, 1, 2, 3]))
    parts = {key: drawn_series(key, draw.choice([0.2, 0.6]), length, draw, rng) for key in keys}
    held = drawn_series("eval_reward", 0.4, length, draw, rng) if draw.random() < 0.4 else None
    own = drawn_series("reward", draw.choice([0.1, 0.3, 0.3, 2.0]), length, draw, rng)
    if control:
        level = np.arange(1.0, 1 + (length := draw.choice([12, 30])))
        own = Series(level, 0.4 + 0.02 * rng.normal(size=length), "reward")
        series["lr"] = Series(level, 0 * level, "lr")
    given = draw.choice([None, None, (0.0, 1.0), (-1.0, 3.0)])
    scale = RewardScale(*given, True) if given else RewardScale.estimated(own.value if own.value.size else np.ones(1))
    there = {name: one for name, one in series.items() if one.value.size}
    if draw.random() < 0.05 and there:
        own, held = Series(np.zeros(0), np.zeros(0), ""), None
    lost = [float(length - one) for one in range(draw.choice([0, 0, 0, 2, 4]))]
    curve = Curve(
        "run", "file", "test", draw.choice(["TRL", "verl"]), own, scale, draw.choice(["optimiser step", "unknown"]),
        there, {key: one for key, one in parts.items() if one.value.size}, held if held and held.value.size else None,
        {key: value for key, value in (("group_size", 4.0), ("refresh_interval", 2.0)) if draw.random() < 0.3},
        nonfinite_steps=np.array(lost) if draw.random() < 0.5 else np.zeros(0),
        gradient_lost=np.sort(lost) if draw.random() < 0.5 else np.zeros(0),
    )  # fmt: skip
    sizes = (draw.choice([None, 2, 8, 32]), draw.choice([None, 1.0, 4.0]), draw.choice([None, 1.0, 3.0]))
    return Case(curve, *sizes, "max_staleness", draw.choice([0.2, 0.2, 0.5])), there or own.value.size


def numbers(case, before):
    """Of the report, of both screens, and of the comparison with the case before: a large one does not hide others."""
    said = report(case)
    facts = sorted((one.verdict, one.value, one.limit, one.score, one.rows, *one.window) for one in said.facts)
    pages = [text(said, case.curve, whole) for whole in (False, True)]
    pages += [compare.text(("a", before), ("b", case.curve), whole) for whole in (False, True)] if before else []
    lists = [[one for fact in facts for one in fact[1:]], *(NUMBER.findall(page) for page in pages)]
    return {"verdict": said.verdict, "noted": sorted(said.notes), "what": said.outcome.what, "next": said.next[:20],
            "numbers": [np.arcsinh(np.array(one, float)) for one in lists]}  # fmt: skip


@pytest.mark.parametrize("first", range(0, 400, 20))
def test_judgements_of_drawn_cases(first):
    answers, before = [], None
    for case, there in map(drawn_case, range(first, first + 20)):
        if there:
            answers.append(numbers(case, before))
            before = case.curve
    check("drawn_clinic", f"cases {first}", answers)


ODD = [None, "", "nan", "inf", "1e3", "x", True, "-0.5"]
KEYS = [
    *("reward", "loss", "kl", "entropy", "critic/score/mean", "rewards/accuracy/mean", "eval_reward", "val/acc"),
    *("completions/mean_length", "grad_norm", "num_generations", "my_own", "objective/kl", "actor/pg_clipfrac"),
]
STEPS = ["step", "global_step", "epoch", "training/global_step", None]


def table(draw, rng):
    """Rows [n] of cells; of steps that begin again, come twice or leave some out."""
    keys, length = draw.sample(KEYS, draw.choice([2, 4, 8])), draw.choice([6, 12, 30])
    steps = np.arange(length) * draw.choice([1, 1, 5])
    if draw.random() < 0.3:
        steps[draw.randrange(length) :] -= draw.choice([1, 3, 4])
    odd, name = draw.choice([0, 0, 0.05]), draw.choice(STEPS)
    ends = {key: length if draw.random() < 0.8 else draw.randrange(1, length) for key in keys}
    values = {key: np.round(draw.choice([0.3, 0.5, 20]) + 0.1 * rng.normal(size=length).cumsum(), 4) for key in keys}
    for at in range(length):
        row = {
            key: draw.choice(ODD) if draw.random() < odd else float(values[key][at]) for key in keys if at < ends[key]
        }
        yield ({name: int(steps[at])} if name else {}) | row


def as_csv(rows):
    keys = list(dict.fromkeys(key for row in rows for key in row))
    cells = (",".join("" if row.get(key) is None else str(row[key]) for key in keys) for row in rows)
    return "\n".join([",".join(keys), *cells])


def as_columns(rows):
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return json.dumps({key: [row[key] for row in rows if key in row] for key in keys})


FORMS = {
    "x.jsonl": lambda rows: "\n".join(map(json.dumps, rows)),
    "x.json": json.dumps,
    "columns.json": as_columns,
    "nested.json": lambda rows: json.dumps({"a": {"log_history": rows}, "b": {"history": rows[: len(rows) // 2]}}),
    "steps.json": lambda rows: json.dumps({str(3 * at): row for at, row in enumerate(rows)}),
    "x.csv": as_csv,
    "x.tsv": lambda rows: as_csv(rows).replace(",", "\t"),
    "trl.log": lambda rows: "\n".join(f"  1%|# | {at}/99 [00:10<02:00]\r{row}" for at, row in enumerate(rows)),
    "verl.log": lambda rows: "\n".join(
        f"(TaskRunner pid=7) step:{at} - " + " - ".join(f"{key}:{value}" for key, value in row.items())
        for at, row in enumerate(rows)
    ),
    "free.txt": lambda rows: "\n".join(
        f"[step {at}] " + ", ".join(f"{key}: {value}" for key, value in row.items()) + " | 3.2s"
        for at, row in enumerate(rows)
    ),
    "objects.log": lambda rows: "\n".join(f"12:00 INFO {json.dumps(row)} done" for row in rows),
    "x.ipynb": lambda rows: json.dumps(
        {"cells": [{"outputs": [{"text": [f"{row}\n" for row in part]}]} for part in (rows[:9], rows[9:])]}
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_readings_of_drawn_tables(form, tmp_path):
    """Of every fifth one column is asked for by name."""
    answers = []
    for seed in range(30):
        draw, rng = random.Random(f"{form} {seed}"), np.random.default_rng(seed)
        rows = list(table(draw, rng))
        (tmp_path / form).write_text(FORMS[form](rows))
        key = draw.choice([*rows[0]])
        asked = {draw.choice(["reward_key", "eval_key", "step_key"]): key} if seed % 5 == 0 else {}
        try:
            answers.append([of_curve(one) for one in read(tmp_path / form, **asked)])
        except ValueError as error:
            answers.append(str(error).replace(str(tmp_path), "")[:40])
    check("drawn_clinic", f"drawn {form}", answers)

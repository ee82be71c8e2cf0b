"""Public logs, where a folder of them with its index is at hand (environment variable BANDIT_LAB_LOGS)."""

import csv
import os
import re
from pathlib import Path

import numpy as np
import pytest
from grpo_clinic.readers import read

FOLDER = Path(os.environ.get("BANDIT_LAB_LOGS", ""))
INDEX = FOLDER / "index.csv"
ROWS = (
    list(csv.DictReader(INDEX.read_text().splitlines()))
    if os.environ.get("BANDIT_LAB_LOGS") and INDEX.is_file()
    else []
)

pytestmark = pytest.mark.skipif(not ROWS, reason="BANDIT_LAB_LOGS does not name a folder with index.csv and its logs")

KEY_TEXTS = (
    (r"rows type=(\w+): (\S+)", lambda m: {"where": f"type={m[1]}", "reward_key": m[2]}),
    (r"metric=(\S+)", lambda m: {"reward_key": m[1]}),
    (r"merged\[\]\.(\w+) .*", lambda m: {"reward_key": m[1]}),
    (r"(\S+) \(average rows that share step\)", lambda m: {"reward_key": m[1]}),
    (r'"(.+)"', lambda m: {"reward_key": m[1]}),
    (r"(\S+)", lambda m: {"reward_key": m[1]}),
)
"""How the index words a reward key -> the options it stands for."""


def options(row):
    """Reward key, row filter and run selector of one row of the index, and nothing else."""
    named = next(make(m) for text, make in KEY_TEXTS if (m := re.fullmatch(text, row["reward_key"])))
    if row["selector"].startswith("run_name="):
        named["run"] = row["selector"].removeprefix("run_name=")
    return named


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["run_id"])
def test_every_run_of_the_index_loads(row):
    """As many points, and the same ends and extremes, as the index states (it rounds a tenth of the points down)."""
    if "tfevents" in row["file"]:
        pytest.importorskip("tensorboard", reason="the optional tensorboard package is not installed")
    (curve,) = read(FOLDER / row["file"], **options(row))
    staircase = "staircase" in row["log_every"]
    points = int(row["n_points"])
    assert curve.reward.size == (points // 10 if staircase else points)
    tenth = max(1, curve.reward.size // 10)
    tolerance = 5e-3 if staircase else 1e-4
    assert curve.reward[:tenth].mean() == pytest.approx(float(row["start10"]), rel=1e-4, abs=tolerance)
    assert curve.reward[-tenth:].mean() == pytest.approx(float(row["end10"]), rel=1e-4, abs=tolerance)
    assert curve.reward.max() == pytest.approx(float(row["max"]), rel=1e-3)
    assert np.all(np.diff(curve.step) > 0)
    every = re.match(r"\d+", row["log_every"])
    if every:
        assert curve.log_every == int(every[0])


@pytest.mark.parametrize("row", [r for r in ROWS if not r["reward_key"].startswith('"')], ids=lambda row: row["run_id"])
def test_the_reward_is_found_without_its_key(row):
    if "tfevents" in row["file"]:
        pytest.importorskip("tensorboard", reason="the optional tensorboard package is not installed")
    named = options(row)
    (by_key,) = read(FOLDER / row["file"], **named)
    (guessed,) = read(FOLDER / row["file"], **{key: value for key, value in named.items() if key == "run"})
    np.testing.assert_array_equal(guessed.reward, by_key.reward)


@pytest.mark.parametrize("row", [r for r in ROWS if ".json" in r["eval_curve"]], ids=lambda row: row["run_id"])
def test_files_beside_a_run_add_its_evaluation_or_columns(row):
    other = re.search(r"(\S+\.json)", row["eval_curve"])[1]
    path = FOLDER / other if (FOLDER / other).is_file() else FOLDER / (row["file"].removesuffix(".json") + other)
    (curve,) = read(FOLDER / row["file"], **options(row), beside=[path])
    assert curve.eval is not None

"""The programs of docs/trainer.md run as they stand there."""

import re
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
import torch

pytestmark = client.MARKS
PAGE = Path(__file__).resolve().parents[3] / "docs/trainer.md"


def program(beginning):
    """The one program of the page with this first line."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [one for one in blocks if one.startswith(beginning)]
    return block


def test_the_plain_loop_learns_and_says_its_margin(capsys):
    names = {}
    exec(program("import torch\n"), names)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"batch {place}" for place in range(10, 51, 10)]
    assert all(re.search(r"K = \S+ \+- \S+ .* K eta N = ", line) or "no threshold is near" in line for line in lines)
    best, policy = names["rewards"].max(1).values, torch.softmax(names["policy"](names["prompts"]), -1)
    reached = (policy * names["rewards"]).sum(1).mean()
    assert reached > (best.mean() + names["rewards"].mean()) / 2  # more than half of what there is to learn

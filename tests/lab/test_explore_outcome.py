"""The words beside the page's picture: a swing is named only where the mean update passes its fixed point."""

import shutil
import subprocess
from pathlib import Path

import pytest

MODULE = Path(__file__).parents[2] / "bandit_lab/lab/explore/page/outcome.js"
SIDES = {
    "0.1 * Math.exp(-t / 80)": "creeps",
    "0.1 * Math.exp(t / 80)": "creeps",
    "0.1 * Math.exp(-t / 60) * Math.cos(t / 3)": "shrinks",
    "0.1 * Math.exp(t / 80) * Math.cos(t / 3)": "grows",
    "0.1 * Math.exp(-t / 5)": "back",
}


@pytest.mark.parametrize("side", SIDES)
def test_a_swing_is_told_by_the_changes_of_sign(side, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node on this machine")
    script = tmp_path / "kind.mjs"
    script.write_text(
        f"""import {{ kindOf }} from {str(MODULE)!r};
const each = (f) => Float64Array.from({{ length: 101 }}, (_, t) => f(t)), side = (t) => {side};
const level = each(() => 0.5), distance = each((t) => Math.abs(side(t)));
const path = {{ reward: level, largest: level, side: each(side), distance }};
console.log(kindOf(path));
"""
    )
    done = subprocess.run([node, script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == SIDES[side]

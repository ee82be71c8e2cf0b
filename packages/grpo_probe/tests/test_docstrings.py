"""The examples in the docstrings of what sits in a trainer, run as they stand."""

import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
from test_examples import ran

pytestmark = client.MARKS
NAMES = [
    ("grpo_probe.callback", "StabilityCallback"),
    ("grpo_probe.probe", "StiffnessProbe"),
    ("grpo_probe.probe_trl", "TrlProbe"),
]


@pytest.mark.parametrize(("home", "name"), NAMES, ids=[name for _, name in NAMES])
def test_an_example_runs(home, name, tmp_path):
    results = ran(home, name, trainer=client.trainer(tmp_path))
    assert results.attempted > 0
    assert results.failed == 0

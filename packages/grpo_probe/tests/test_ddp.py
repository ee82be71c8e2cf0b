"""Two processes of DDP on the CPU (gloo): the K of one process with the same groups, and training to the last bit.

Tolerance, stated before: K, its parts and its error within 0.1 % of those of one process. The forward passes of groups
are the same; what differs is the order in which 16 float32 gradients are added up. Planted: each process with its own
groups alone, whose K must be off by more than 1 %.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
import ddp_run
import torch
from grpo_probe.probe_trl import TrlProbe, groups_of

pytestmark = [*client.MARKS, pytest.mark.nightly]

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("value", "standard_error", "fresh", "stale", "in_sample", "crossed")


def launched(folder, *given, processes=2):
    """What each process found."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "integrations")))
    program = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), ddp_run.__file__]
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    ended = subprocess.run(
        [sys.executable, *program, str(folder), *given], env=environment, capture_output=True, text=True, timeout=500
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    ranks = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(processes)]
    assert {one["processes"] for one in ranks} == {processes}
    return ranks


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return launched(tmp_path_factory.mktemp("plain"), "plain")


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """method -> (folder, what each process found), each launched once."""
    runs = {}

    def of(method):
        if method not in runs:
            folder = tmp_path_factory.mktemp(method)
            runs[method] = folder, launched(folder, method)
        return runs[method]

    return of


METHODS = ("forward", "auto")


@pytest.mark.parametrize("method", METHODS)
def test_training_is_as_it_was_to_the_last_bit(plain, probed, method):
    for one, other in zip(plain, probed(method)[1], strict=True):
        assert {key: other[key] for key in ("bits", "random", "log")} == {
            key: one[key] for key in ("bits", "random", "log")
        }
    assert plain[0]["random"] != plain[1]["random"]  # processes draw answers of their own


@pytest.mark.parametrize("method", METHODS)
def test_all_processes_have_the_same_k(probed, method):
    first, second = probed(method)[1]
    assert first["all"] == second["all"]
    assert first["all"]["groups"] == 8
    assert first["own"]["value"] != second["own"]["value"]


@pytest.mark.parametrize("method", METHODS)
def test_k_is_that_of_one_process_with_the_groups_of_both(probed, tmp_path, method):
    folder, (first, second) = probed(method)
    batches, prompts = zip(*(torch.load(folder / f"batch{rank}.pt") for rank in range(2)), strict=True)
    trainer = ddp_run.start(tmp_path, groups=4)
    with torch.no_grad():
        for one, stored in zip(trainer.model.parameters(), first["bits"], strict=False):  # moments stand behind
            one.copy_(torch.frombuffer(bytearray.fromhex(stored), dtype=one.dtype).view_as(one))
    whole = {key: _joined([one[key] for one in batches]) for key in batches[0]}
    trainer.model.train()
    probe = TrlProbe(trainer, method=method)
    stiffness = probe.stiffness(groups_of(trainer, whole, 4, [*prompts[0], *prompts[1]]), products=40)
    for part in PARTS:
        assert first["all"][part] == pytest.approx(
            getattr(stiffness, part), rel=1e-3, abs=1e-3 * abs(stiffness.value)
        ), part
        if part == "value":
            for own in (first["own"], second["own"]):
                assert own[part] != pytest.approx(stiffness.value, rel=1e-2)
    assert first["all"]["critical"] == (stiffness.critical and pytest.approx(stiffness.critical, rel=1e-3))
    assert first["all"]["method"] == stiffness.method


def _joined(parts):
    if isinstance(parts[0], torch.Tensor):
        return torch.cat(parts) if parts[0].dim() else parts[0]
    return [one for part in parts for one in part]


def test_a_fault_on_every_process_leaves_training_as_it_was(plain, tmp_path):
    ranks = launched(tmp_path, "forward", "reward")
    assert [one["bits"] for one in ranks] == [one["bits"] for one in plain]
    assert "reward server down" in ranks[0]["told"][0]

"""The programs of docs/trainer.md run as they stand there."""

import re
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
import torch
from grpo_probe.probe_trl import NEEDED

pytestmark = client.MARKS
PAGE = Path(__file__).resolve().parents[3] / "docs/trainer.md"


def program(beginning):
    """The one program of the page with this first line."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [one for one in blocks if one.startswith(beginning)]
    return found


def test_the_plain_loop_learns_and_says_its_margin(capsys):
    names = {}
    exec(program("import torch\n"), names)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"batch {place}" for place in range(10, 51, 10)]
    assert all(re.search(r"K = \S+ \+- \S+ .* K eta N = ", line) or "no threshold is near" in line for line in lines)
    best, policy = names["rewards"].max(1).values, torch.softmax(names["policy"](names["prompts"]), -1)
    reached = (policy * names["rewards"]).sum(1).mean()
    assert reached > (best.mean() + names["rewards"].mean()) / 2  # more than half of what there is to learn


def test_the_lightning_callback_measures_a_module(capsys):
    """Of the plain loop's policy; the same weights as without the callback."""
    lightning = pytest.importorskip("lightning", reason="needs lightning")
    callback, ends = {}, []
    exec(program("import lightning\n"), callback)
    for asked in (False, True):
        names = {}
        exec(program("import torch\n").partition("\nfor batch in")[0], names)

        class Module(lightning.LightningModule):
            updates = 4
            automatic_optimization = False

            def __init__(self, names):
                super().__init__()
                self.names, self.policy = names, names["policy"]

            def configure_optimizers(self):
                return self.names["optimizer"]

            def training_step(self, batch, place):
                asked, answers, advantages = self.names["sample"]()
                old = self.names["log_probs"](asked, answers).detach()
                for _ in range(self.updates):
                    self.optimizers().zero_grad()
                    loss = self.names["loss_of"](advantages)(self.names["log_probs"](asked, answers), old)
                    self.manual_backward(loss)
                    self.optimizers().step()

            def groups(self):
                kept, probe = [], self.names["probe"]
                probe.measure = lambda groups: kept.append(groups) or sound(groups)
                sound = type(probe).measure.__get__(probe)
                self.names["measure"]()
                return kept[0]

        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
        callbacks = [callback["EdgeCallback"](every=2)] if asked else []
        trainer = lightning.Trainer(max_epochs=1, callbacks=callbacks, enable_model_summary=False, **quiet)
        trainer.fit(Module(names), torch.utils.data.DataLoader(range(4)))
        ends.append(names["policy"].weight.detach().clone())
    assert torch.equal(*ends)
    told = [line for line in capsys.readouterr().out.splitlines() if "K = " in line]
    assert [line.split(":")[0] for line in told] == ["batch 2", "batch 4"]
    assert float(trainer.callback_metrics["probe/stability_used"]) > 0


def test_the_asynchronous_trainer_is_refused_and_its_ages_are_those_of_the_page():
    """It lacks what the probe calls; its defaults, and the names in its log, stand in its source."""
    import inspect

    from trl.experimental import async_grpo

    assert [name for name in NEEDED if name.startswith("_generate") or name.startswith("_get")]
    assert not hasattr(async_grpo.AsyncGRPOTrainer, "_generate_and_score_completions")
    fields = async_grpo.AsyncGRPOConfig.__dataclass_fields__
    assert (fields["max_staleness"].default, fields["weight_sync_steps"].default) == (4, 1)
    source = inspect.getsource(inspect.getmodule(async_grpo.AsyncGRPOTrainer))
    assert "staleness > self.max_staleness" in source
    assert "sample/staleness_mean" in source
    assert "sample/staleness_max" in source

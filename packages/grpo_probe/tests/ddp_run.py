"""What `test_ddp` runs in every process: a training with DDP, and K of one batch; started by torchrun.

torchrun --nproc-per-node 2 tests/integrations/ddp_run.py FOLDER {plain|auto|forward} [FAULT]
"""

import json
import sys
from pathlib import Path

import client
import torch
from grpo_probe.probe_trl import TrlProbe
from transformers import TrainerCallback

TIMED = ("step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second")
SETTINGS = {"max_steps": 4, "num_iterations": 2, "group_size": 4, "beta": 0.1, "optim_args": "momentum=0.5"}


def start(folder, groups=2, **more):
    """Two groups of an update for each of two processes, four where there is one."""
    rewards = more.pop("rewards", client.reward)
    return client.trainer(folder, groups=groups, policy=client.model(seed=3, width=8), rewards=rewards, **SETTINGS)


def ends(trainer):
    """Bits of weights, moments, random state and log."""
    moments = [one["momentum_buffer"] for one in trainer.optimizer.state.values()]
    log = [{key: one for key, one in row.items() if key not in TIMED and "probe/" not in key}
           for row in trainer.state.log_history]  # fmt: skip
    bits = [one.detach().numpy().tobytes().hex() for one in (*trainer.model.parameters(), *moments)]
    return {"bits": bits, "random": torch.get_rng_state().tolist(), "log": log}


def main(folder, method, fault=""):
    """`spread`: besides training, measure K of a batch with the groups of all processes, and with this one's alone."""
    lines, measuring = [], []

    def reward(completion_ids, row, **rest):
        if fault and measuring:
            raise RuntimeError("reward server down")
        return client.reward(completion_ids, row)

    trainer = start(folder, rewards=reward)
    if method != "plain":
        probe = TrlProbe(trainer, prompts=4, groups=2, products=6, every=2, show=lines.append, method=method)
        sound = probe.measure

        def measure():
            measuring.append(True)
            try:
                return sound()
            finally:
                measuring.clear()

        probe.measure = measure
        trainer.add_callback(probe)

    class Wrapped(TrainerCallback):
        def on_train_begin(self, args, state, control, **rest):
            assert type(trainer.model_wrapped).__name__ == "DistributedDataParallel"

    trainer.add_callback(Wrapped())
    trainer.train()
    results = ends(trainer) | {"told": lines, "processes": trainer.accelerator.num_processes}
    if method != "plain" and not fault:
        results |= measured(trainer, probe, Path(folder))
    Path(folder, f"rank{trainer.accelerator.process_index}.json").write_text(json.dumps(results))


def measured(trainer, probe, folder):
    """K of a sampled batch, of all processes and of this one's groups alone; the batch is kept."""
    from dataclasses import asdict, replace

    from grpo_probe.probe_trl import undisturbed

    bits, sound = [], trainer._generate_and_score_completions

    def spied(rows):
        bits.append(sound(rows))
        return bits[0]

    trainer._generate_and_score_completions = spied
    with undisturbed(trainer):
        groups = probe.sample()
    torch.save((bits[0], list(groups.prompts)), folder / f"batch{trainer.accelerator.process_index}.pt")
    own = probe.stiffness(replace(groups, distributed=False), products=40)
    return {"all": asdict(probe.stiffness(groups, products=40)), "own": asdict(own)}


if __name__ == "__main__":
    main(*sys.argv[1:])

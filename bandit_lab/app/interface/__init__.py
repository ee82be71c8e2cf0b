"""The Python interface: every command as a function of keywords that returns its labelled result.

    import bandit_lab as bl

    found = bl.predict(refresh_interval=8, bandit={"name": "k_arm", "rewards": [0.9, 0.5, 0.1]})
    found.thresholds.learning_rate.exact

Keywords are the settings of the command line, with its defaults: a nested setting is a dictionary
(`sweep={"learning_rate": [0.1, 0.2]}`), a variant its name, a dictionary with `name` and its options, or an object. A
list may be an array of NumPy, JAX, pandas or xarray. Mistakes are ValueErrors with the line that the command prints.
Nothing is printed. Nothing is written unless `run_dir` is given: then the folder is that of the command; without it
measurements are not kept, but where `cache` says so.
"""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab._names import did_you_mean
from bandit_lab.app.document import Document
from bandit_lab.app.interface.keywords import call, composed, finished, plain, working
from bandit_lab.app.interface.signatures import with_settings
from bandit_lab.app.settings.config import TRACED, SimulationSettings
from bandit_lab.app.settings.schema import CompilingSettings

if TYPE_CHECKING:
    import xarray

    from bandit_lab.lab.explore.command import Map

__all__ = [
    "branch",
    "check",
    "explore",
    "load",
    "predict",
    "reproduce",
    "simulate",
    "sweep",
]


@with_settings("predict")
def predict(**settings: Any) -> Document:
    """Closed-form and exact predictions for one setting: `python -m bandit_lab predict`.

    Args:
      settings: `refresh_interval` [steps], `learning_rate` [logits per unit gradient], `momentum`, `kl_weight` [reward
        per nat], `bandit`, ...: `help(bandit_lab.predict)` lists them with units and defaults. `learning_rate` and
        `kl_weight` may be schedules of optax, `{"schedule": "linear", "init_value": 0.3, "end_value": 0.0}`: then
        `margin` says at which step the smallest ratio of threshold and learning rate is, and all else is of that step.

    Returns:
      A document: `verdict`, `thresholds`, `stiffness`, ...; `to_dict()` is the content of `summary.json`.

    Raises:
      ValueError: a setting that is unknown or out of range: which, what was expected, what was given.
    """
    return call("predict", settings)


@with_settings("predict", but={"plot"})
def branch(**settings: Any) -> Document:
    """The fixed point and its cycles against the learning rate, with bifurcations: `predict` with `plot=branch`.

        found = bandit_lab.branch(refresh_interval=8, momentum=0, dynamics="mean_field")
        found.branch.criticality
        found.plot()

    Args:
      settings: those of `predict`.

    Returns:
      That of `predict`, with `branch`; `data` holds each branch: rewards, log-odds, largest multipliers. Where nothing
      can be followed `branch` says why.

    Raises:
      ValueError: as `predict`.
    """
    return call("predict", {"plot": "branch", **settings})


@with_settings("sweep")
def sweep(**settings: Any) -> Document:
    """A grid of training runs with the theory beside it: `python -m bandit_lab sweep`.

    Args:
      settings: those of `predict`, and `sweep={"refresh_interval": [1, 2, 4]}`, `seeds`, `steps`, ...

    Returns:
      A document; `data` is the grid, with dimensions such as `momentum` and `refresh_interval` and units in `attrs`,
      `threshold` a list of rows, `plot()` the diagram.

    Raises:
      ValueError: as `predict`.
    """
    return call("sweep", settings)


@with_settings("reproduce")
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


@with_settings("check")
def check(**settings: Any) -> Document:
    """The conformance suite for a variant: `python -m bandit_lab check`.

    Args:
      settings: what is checked, by name or as an object: `bandit`, `advantage`, ...; `plugins`. Without any, every
        variant, which takes minutes.

    Returns:
      A document; `checks` has a row per question (kind, variant, check, status, detail), `failed` their number.

    Raises:
      ValueError: as `predict`.
    """
    return call("check", settings)


@with_settings("explore")
def explore(*paths: str | Path, **settings: Any) -> "Map":
    """The stability map as one interactive page: `python -m bandit_lab explore`. A notebook shows it.

    Args:
      paths: a sweep's folder, laid into the map.
      settings: where the page begins (`refresh_interval` [steps], `learning_rate` [logits per unit gradient],
        `staleness`, ...); `run_dir`, the folder to write `map.html` into; `open`, whether a browser
        opens that file (here: false).

    Returns:
      The page, `html`, and in `words` what is laid into it. Nothing is written unless `run_dir` is given.

    Raises:
      ValueError: as `predict`; what the page cannot compute.
    """
    from bandit_lab.app import runner
    from bandit_lab.lab.explore import command

    with working("explore", settings, paths) as given:
        config, explicit = composed("explore", given)
        config.open = bool(settings.get("open")) and settings.get("run_dir") is not None
        _, plan = runner.check("explore", config, explicit, Path())
        found = command.made(plan)
        if settings.get("run_dir") is not None:
            command.write(plan, found)
        return found


def load(folder: str | Path) -> Document:
    """The result of a finished run folder, to be read and drawn again.

        bandit_lab.load("outputs/sweep/my_run").plot().figure.savefig("diagram.pdf")

    Returns:
      A document of what `summary.json` and `results.zarr` hold. Of a sweep `plot()` draws the diagram as before; other
      results keep their pictures as files.

    Raises:
      ValueError: `folder` is not that of one finished run.
    """
    from bandit_lab.app.folder.store import manifest_of

    manifest = manifest_of(Path(folder))
    if manifest is None:
        raise ValueError(f"folder: expected that of one finished run, got {str(folder)!r}")
    return finished(str(manifest["command"]), Path(folder))


_OF_RUNS = [one.name for one in fields(SimulationSettings)]
_SIMULATED = {*_OF_RUNS} - {one.name for one in fields(CompilingSettings)} | {"plugins"}


@with_settings("sweep", only=_SIMULATED)
def simulate(*, curves: bool = False, off_policy: bool | None = None, **settings: Any) -> "xarray.Dataset":
    """Many seeds of one setting, on the fast path where it serves.

        runs = bandit_lab.simulate(refresh_interval=8, learning_rate=0.3, seeds=1000, steps=300)
        runs.reward_mean.plot(x="step")
        bandit_lab.simulate(learning_rate=[0.1, 0.3]).reward_mean.plot(hue="learning_rate")

    Args:
      curves: whether the reward of every seed is kept: 8 (T + 1) S bytes, and the runs are made twice.
      off_policy: whether it is measured at every update how far the law that draws is from the policy that learns, and
        how answers are weighed. For that, up to 128 runs are made anew on the reference path. Default: where `sampler`
        is not `exact`.
      settings: those of `sweep` for one setting, with its defaults: `bandit`, `advantage`, ..., `seeds`
        (S), `steps` (T), `seed`, `refresh_interval` [steps], `learning_rate` [logits per unit gradient], `momentum`,
        `kl_weight` [reward per nat], `group_size`, `dynamics`, `precision`, `path`. With dynamics="mean_field" or
        "finite_group" there is one run. Several values of `learning_rate`, `momentum`, `refresh_interval` or
        `kl_weight`, as a list or an array, are a dimension of that name. `learning_rate` and `kl_weight` may be
        schedules of optax, `{"schedule": "linear", "init_value": 0.3, "end_value": 0.0}`; then no run has an outcome.

    Returns:
      A data set with units in the variables' `attrs` and the settings in its own:
      reward (seed, step): [S, T + 1] expected reward of each run, with `curves`;
      reward_mean, reward_variance (step): [T + 1] expected reward, its mean and (population) variance over seeds;
      final_policy (seed, arm): [S, K] probabilities after the last step, (seed, context, arm) where there are contexts;
      tail_mean, tail_std, overshoot, final_max_probability, tail_silent (seed): [S] as in `simulation.Summary`;
      effective_sample_size (a share), masked, chi_square, sampler_kl (nats), gradient_cosine (update): [T] mean over
      those runs at every update, with `off_policy`; see `bandit_lab.simulation.off_policy`;
      outcome (seed): [S] what became of each run, by the rules of `sweep`; where no run can be judged it is not there
      and the attribute `no_outcome` says why.

    Raises:
      ValueError: a setting that is unknown or out of range: which, what was expected, what was given.
    """
    from omegaconf import OmegaConf

    from bandit_lab.lab.sweep.simulate import simulated_grid

    for key in (key.partition(".")[0] for key in settings):
        if key not in _SIMULATED:
            near = did_you_mean(key, sorted(_SIMULATED))
            raise ValueError(f"{key}: expected a setting of simulate{near}, got an unknown key")
    axes = {name: plain(name, value) for name, value in settings.items() if name in TRACED and np.ndim(value)}
    with working("sweep", {name: value for name, value in settings.items() if name not in axes}) as given:
        whole: Any = OmegaConf.to_object(composed("sweep", given)[0])
        chosen = SimulationSettings(**{name: getattr(whole, name) for name in _OF_RUNS})
        return simulated_grid(chosen, axes, curves=curves, off_policy=off_policy)

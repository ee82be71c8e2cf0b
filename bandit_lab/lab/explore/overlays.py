"""What is laid into the map: a real run as `advise` reads it, and the measured cells of a sweep."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.folder import export, written
from bandit_lab.app.folder.status import runs_in
from bandit_lab.lab.explore.settings import ExploreSettings
from bandit_lab.lab.explore.start import LARGEST, SHARED, start
from bandit_lab.runs.advise import command as advise, evidence
from bandit_lab.runs.advise.work import Advice, work
from bandit_lab.runs.logs.settings import AdviseSettings
from bandit_lab.theory.conventions import OF_OPTIMIZER, as_convention

MOST_CELLS = 20_000


def read_run(settings: ExploreSettings) -> advise.AdvisePlan:
    """The log and configuration, read and checked by `advise`. Raises ValueError as that does."""
    asked = AdviseSettings(
        paths=settings.paths,
        stiffness=settings.stiffness,
        delay=settings.delay,
        reward_key=settings.reward_key,
        run=settings.run,
        quiet=settings.quiet,
    )
    return advise.prepare(asked, frozenset())


def run_mark(plan: advise.AdvisePlan) -> dict[str, Any]:
    """A real run's place: staleness, momentum and kappa = eta K with its interval, or why that is not known."""
    found = work(plan.setup, evidence.look(plan.log, plan.setup), plan.settings)
    loop, gain = found.loop, found.gain
    _checks.require(
        loop.interval <= LARGEST["refresh_interval"], "paths", "a run with a refresh interval up to 128", loop.interval
    )
    kappa = None
    if gain is not None:
        kappa = {"value": gain.kappa, "low": gain.lower, "high": gain.upper}
    return {
        "interval": loop.interval,
        "model": loop.model,
        "momentum": loop.momentum,
        "convention": loop.convention,
        "kappa": kappa,
        "words": _run_words(plan, found),
    }


def _run_words(plan: advise.AdvisePlan, found: Advice) -> str:
    loop, gain = found.loop, found.gain
    name = "Your run" if plan.log is None else f"Your run {plan.log.name}"
    place = f"{name}: N = {loop.interval}, momentum {loop.momentum:g}"
    if gain is None or found.margin is None:
        return f"{place}. Its stiffness is not known ({found.strength_reason}), so that it is a line, not a point."
    ends = f"[{gain.lower:.2g}, {gain.upper:.2g}]"
    times = f"{float(f'{found.margin.exact:.2g}'):g}"  # 200, not 2e+02
    text = f"{place}, eta K = {gain.kappa:.2g} {ends} ({gain.source}); {times} times below the"
    text += " exact threshold. " if found.margin.exact >= 1 else " exact threshold, that is above it. "
    return text + "It stands where this bandit has the same eta K."


def settings_of(plan: advise.AdvisePlan, settings: ExploreSettings, explicit: frozenset[str]) -> ExploreSettings:
    """The settings, with the run's own loop for everything that was not given."""
    loop = plan.setup.loop
    optimizer = {convention: name for name, convention in OF_OPTIMIZER.items()}[as_convention(plan.setup.convention)]
    own: dict[str, Any] = {
        "staleness": {"name": loop.model},
        "refresh_interval": max(loop.interval, 1),
        "momentum": min(plan.setup.momentum, LARGEST["momentum"]),
        "optimizer": {"name": optimizer},
    }
    return replace(settings, **{key: value for key, value in own.items() if key not in explicit})


def sweep_folder(path: str) -> tuple[Path, dict[str, Any]]:
    """(folder of a finished sweep that is whole, its settings). Raises ValueError for another folder."""
    folder, jobs = runs_in(path)
    names = ", ".join(job.name for job in jobs[:4])
    _checks.require(not jobs, "paths", "one run of a sweep", f"{folder}, which holds several ({names})")
    manifest = written.inspect_folder(folder).manifest
    command = None if manifest is None else manifest.get("command")
    _checks.require(manifest is not None, "paths", "a finished sweep (`status` tells what is left)", str(folder))
    _checks.require(command == "sweep", "paths", "the folder of a sweep", f"{folder}, a run of {command}")
    export._check_store(folder)
    return folder, written.settings_in(folder) or {}


def settings_of_sweep(
    own: dict[str, Any], settings: ExploreSettings, explicit: frozenset[str], folder: Path
) -> ExploreSettings:
    """The settings, with the sweep's own for everything that was not given. Raises ValueError beyond the page."""
    asked = {key: own[key] for key in SHARED if key in own and key not in explicit}
    asked["refresh_interval"] = min(int(own.get("refresh_interval") or 1), LARGEST["refresh_interval"]) or 1
    found = replace(settings, **{key: value for key, value in asked.items() if key not in explicit})
    try:
        start(found)
    except ValueError as error:
        raise ValueError(f"paths: the page cannot show this sweep, {str(folder)!r}: {error}") from error
    return found


def sweep_cells(folder: Path) -> dict[str, Any]:
    """The measured cells: refresh interval, learning rate, momentum and outcome of each.

    Raises:
      ValueError: more cells than a page can show.
    """
    import xarray

    with xarray.open_zarr(folder / written.RESULTS, chunks=None) as data:
        outcome = data["outcome"].isel(kl_weight=0).load()
        weight = float(data["kl_weight"].values[0])
    _checks.require(outcome.size <= MOST_CELLS, "paths", f"a sweep of at most {MOST_CELLS} cells", outcome.size)
    words = dict(zip(np.atleast_1d(outcome.attrs["flag_values"]), outcome.attrs["flag_meanings"].split(), strict=True))
    order = ("momentum", "refresh_interval", "learning_rate")
    codes = outcome.transpose(*order).values
    axes = [outcome[name].values for name in order]
    cells = [
        {"momentum": float(axes[0][i]), "interval": int(axes[1][j]), "rate": float(axes[2][k]), "outcome": words[code]}
        for (i, j, k), code in np.ndenumerate(codes)
        if code in words
    ]
    text = f"{len(cells)} cells measured by the sweep {folder.name} at KL weight {weight:g}: what the mean update did."
    return {"cells": cells, "momenta": axes[0].tolist(), "weight": weight, "words": text}

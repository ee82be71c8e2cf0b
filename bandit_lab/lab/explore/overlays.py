"""What is laid into the map: the measured cells of a sweep."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.folder import store
from bandit_lab.app.folder.results import opened
from bandit_lab.lab.explore.settings import ExploreSettings
from bandit_lab.lab.explore.start import LARGEST, SHARED, start

MOST_CELLS = 20_000


def sweep_folder(path: str) -> tuple[Path, dict[str, Any]]:
    """(folder of a finished sweep that is whole, its settings). Raises ValueError for another folder."""
    folder = Path(path)
    manifest = store.manifest_of(folder)
    command = None if manifest is None else manifest.get("command")
    _checks.require(manifest is not None, "paths", "a finished sweep", str(folder))
    _checks.require(command == "sweep", "paths", "the folder of a sweep", f"{folder}, a run of {command}")
    whole = (folder / store.RESULTS).is_dir()
    _checks.require(whole, "paths", f"a sweep with {store.RESULTS}", str(folder))
    return folder, store.settings_in(folder) or {}


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
    with opened(folder / store.RESULTS) as data:
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

"""Which path does a run at the edge of stability take: the gradient flow held at the edge, whatever its staleness?

Prediction (written before the runs). At the edge a run swings, and the mean square of its swings pushes the path
towards flatter places, just as much as keeps K at the edge (bandit_lab/theory/central_flow.py; arXiv 2410.24206 for
supervised learning). Nothing else of the staleness model, of N or of the momentum enters. So runs whose edges are the
same follow one path, which leaves the gradient flow where that crosses the edge. What is neglected: how long an
instability takes to grow, so that runs overshoot first; swings beyond their second order; a second direction at the
edge.
Setting: conf/experiment/central_flow.yaml. Measured: means of the parameters along runs of the laboratory's update, in
some random directions, and the stiffness there. Drawn: paths in the plane of both flows; stiffness against time.
"""

from functools import partial
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import theory
from bandit_lab.bandits import BANDITS, Bandit
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Hyper, Learner
from bandit_lab.measure.averaged_path import averaged_path, stiffness_of_paths
from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Claim, Lab, Results, Setting

TITLE = "The path at the edge of stability"

# What prediction and measurement are both told.

STIFFNESS, PLACE = {"units": "reward per squared parameter"}, {"units": "parameters"}
RATIO, TIME = {"units": "1"}, {"units": "steps of unit learning rate"}
LATE = 1 / 2
"""Share of a run after which paths are compared."""


def bandit_of(setting: Setting, seed: int) -> Bandit:
    """The network with the weights of one seed."""
    found: Bandit = BANDITS.build("neural", setting.bandit.as_dict() | {"seed": seed})
    return found


def directions(setting: Setting, size: int) -> np.ndarray:
    """Random directions [D, P] that keep lengths of D parameters in the mean."""
    return np.random.default_rng(0).standard_normal((size, setting.directions)) / np.sqrt(setting.directions)


def updates(setting: Setting, run: dict[str, Any]) -> int:
    """Updates between two checks; each takes rate/(1 - mu)/law of the flow's time."""
    return round(setting.duration * (1 - run["momentum"]) / (run["rate"] * setting.checks))


def coordinates(setting: Setting) -> dict[str, Any]:
    """Axes of the datasets. share: of the run, in the middle between two checks."""
    return {
        "run": ("run", [run["name"] for run in setting.runs], {"units": ""}),
        "seed": ("seed", np.arange(setting.seeds), RATIO),
        "share": ("share", (np.arange(setting.checks) + 0.5) / setting.checks, RATIO),
        "direction": ("direction", np.arange(setting.directions), RATIO),
    }


# Prediction: theory alone.

STEP = 0.1  # of the flows' integration, times law
SAME = 1e-4  # relative: edges that one flow serves


def predict(setting: Setting) -> xarray.Dataset:
    """Gradient flow and central flow: places in the random directions, and stiffness."""
    seeds = [_of_seed(setting, seed) for seed in range(setting.seeds)]
    return xarray.concat(seeds, "seed").assign_coords(coordinates(setting))


def _of_seed(setting: Setting, seed: int) -> xarray.Dataset:
    law, climb = setting.law[seed], theory.climb_of(bandit_of(setting, seed), setting.kl_weight)
    edges = [theory.edge(r["model"], r["interval"], r["momentum"], r["rate"] / law) for r in setting.runs]
    assert max(edges) <= (1 + SAME) * min(edges), f"runs with one edge, got {edges}"
    times, size = coordinates(setting)["share"][1] * setting.duration / law, STEP / law
    paths = {
        "flow": theory.follow(climb, "grpo", times, size),
        "central": theory.central_flow(climb, "grpo", edges[0], times, size),
    }
    columns: dict[str, Any] = {"edge": ((), edges[0], STIFFNESS), "time": ("share", times, TIME)}
    for name, path in paths.items():
        columns[name] = (("share", "direction"), path @ directions(setting, path.shape[1]), PLACE)
        columns[f"{name}_stiffness"] = ("share", theory.sharpness(climb, "grpo", path), STIFFNESS)
    return xarray.Dataset(columns)


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Averaged path of every run: places in the random directions, and stiffness."""
    kept = lab.keep_each({run["name"]: partial(_run, setting, run) for run in setting.runs})
    found = xarray.concat([kept[run["name"]] for run in setting.runs], "run")
    return found.assign_coords(coordinates(setting))


def _run(setting: Setting, run: dict[str, Any]) -> xarray.Dataset:
    bandits = [bandit_of(setting, k) for k in range(setting.seeds)]
    parts = ADVANTAGES["grpo"](), ESTIMATORS["frozen"](), STALENESS[run["model"]]()
    learner = Learner(bandits[0], *parts, horizon=16)
    rates = run["rate"] / np.array(setting.law[: setting.seeds])
    hyper = Hyper(rates, run["momentum"], run["interval"], setting.kl_weight)
    about = setting.checks, updates(setting, run)
    path = averaged_path(learner, "mean_field", bandits, hyper, *about, noise=setting.stir).mean
    stiffness = stiffness_of_paths(Learner(bandits[0]), "mean_field", bandits, hyper.kl_weight, path)
    columns = {
        "place": (("seed", "share", "direction"), path @ directions(setting, path.shape[2]), PLACE),
        "stiffness": (("seed", "share"), stiffness, STIFFNESS),
    }
    return xarray.Dataset(columns)


# Numbers that the claims compare.


def _late(found: Results, values: xarray.DataArray) -> xarray.DataArray:
    return values.isel(share=slice(int(LATE * found.setting.checks), None)).median("share")


def along(found: Results) -> xarray.DataArray:
    """How far runs have gone from the gradient flow towards the central flow [R, S]: 0 and 1 are the two."""
    way = found.predicted.central - found.predicted.flow
    gone = ((found.measured.place - found.predicted.flow) * way).sum("direction") / (way**2).sum("direction")
    return _late(found, gone)


def nearer(found: Results) -> xarray.DataArray:
    """1 - the distance of runs from the central flow over that of the gradient flow from it [R, S]."""
    way = found.predicted.central - found.predicted.flow
    off = ((found.measured.place - found.predicted.central) ** 2).sum("direction") / (way**2).sum("direction")
    return _late(found, 1 - np.sqrt(off))


def stiffness_ratio(found: Results) -> xarray.DataArray:
    """Stiffness of runs over that of the central flow [R, S]."""
    return _late(found, found.measured.stiffness / found.predicted.central_stiffness)


# Picture.

LOOKS = ((s.BLUE, "o"), (s.GREEN, "s"), (s.VERMILION, "^"), (s.PURPLE, "v"), (s.ORANGE, "D"))


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        sheet.writers(setting.bandit, setting.bandit.architecture),
        "GRPO with std; heavy ball",
        kl_weight=setting.kl_weight,
    )


def draw(figure: Figure, found: Results, wide: bool) -> None:
    """Paths in the plane of both flows; stiffness against time."""
    sheet.fill(figure, found, wide, (_draw_paths, _draw_stiffness), heights=(3.2, 6.0))


def _draw_paths(panel: Axes, found: Results) -> None:
    told, seen = found.predicted.isel(seed=0), found.measured.isel(seed=0)
    begin = told.flow.isel(share=0)
    first = told.flow.isel(share=-1) - begin
    first = first / np.sqrt((first**2).sum())
    second = (told.central - told.flow).isel(share=-1)
    second = second - first * (first * second).sum()
    second = second / np.sqrt((second**2).sum())

    def plane(path: xarray.DataArray) -> list[xarray.DataArray]:
        return [((path - begin) * axis).sum("direction") for axis in (first, second)]

    panel.plot(*plane(told.flow), color=s.GREY, linewidth=1.2, label="gradient flow")
    panel.plot(*plane(told.central), color=s.BLACK, linewidth=1.6, label="central flow")
    for run, (colour, marker) in zip(found.setting.runs, LOOKS, strict=False):
        look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 3}
        panel.plot(*plane(seen.place.sel(run=run["name"])), **look, label=run["name"])
    panel.legend(loc="best", fontsize=6.5)
    panel.set(xlabel="along the gradient flow (parameters)", ylabel="across it (parameters)")
    panel.set_title("Paths of one network: lines predicted")


def _draw_stiffness(panel: Axes, found: Results) -> None:
    told, seen = found.predicted.isel(seed=0), found.measured.isel(seed=0)
    panel.plot(told.time, told.flow_stiffness, color=s.GREY, linewidth=1.2)
    panel.plot(told.time, told.central_stiffness, color=s.BLACK, linewidth=1.6)
    for run, (colour, marker) in zip(found.setting.runs, LOOKS, strict=False):
        look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 3}
        panel.plot(told.time, seen.stiffness.sel(run=run["name"]), **look)
    sheet.name_level(panel, float(told.flow_stiffness[-1]), "gradient flow", color=s.GREY)
    sheet.name_level(panel, 0.97 * float(told.edge), "central flow", va="top")
    panel.set(xlabel="time (steps of unit learning rate)", ylabel=f"stiffness K ({STIFFNESS['units']})", ylim=(0, None))
    panel.set_title("Its stiffness")


# Claims.

SOURCE = "bandit_lab/theory/central_flow.py; arXiv 2410.24206 for supervised learning"
CLAIMS = (
    Claim(
        "central_flow.along",
        "Share of the way from the gradient flow to the central flow that averaged runs have gone in their second "
        "half, median over runs",
        SOURCE,
        predicted=lambda f: 1.0,
        measured=lambda f: float(along(f).median()),
        tolerance=0.2,
        fails_if="what holds a run at the edge pushed it elsewhere than down the slope of the stiffness",
    ),
    Claim(
        "central_flow.nearer",
        "1 - the distance of averaged runs from the central flow over that of the gradient flow from it, median over "
        "runs in their second half",
        SOURCE,
        predicted=lambda f: 1.0,
        measured=lambda f: float(nearer(f).median()),
        tolerance=0.3,
        fails_if="runs of one edge took different paths, or another one than the central flow",
    ),
    Claim(
        "central_flow.stiffness",
        "Stiffness of averaged runs over that of the central flow in the second half, median over runs",
        SOURCE,
        predicted=lambda f: 1.0,
        measured=lambda f: float(stiffness_ratio(f).median()),
        tolerance=0.05,
        fails_if="runs stopped at another stiffness than the central flow",
    ),
)

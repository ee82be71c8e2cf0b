"""Measurement of experiments/stiffness.py."""

from dataclasses import replace
from functools import partial

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import ADVANTAGES, STALENESS, Hyper, Learner
from bandit_lab.study.figures.stiffness.problem import RATE, STIFFNESS, coordinates, problems_of
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Hessian and threshold of every bandit."""
    parts = []
    for place in range(len(setting.classes)):
        name = f"class {place}"
        parts.append(lab.keep(name, partial(_one_class, setting, place)))
        lab.progress(len(parts), len(setting.classes))
    return xarray.concat(parts, "bandit").assign_coords(coordinates(setting))


def _one_class(setting: Setting, place: int) -> xarray.Dataset:
    _, advantage, model = setting.classes[place]
    problems = problems_of(setting, place)
    bandits = [k_arm(p.rewards, p.reference) for p in problems]
    still = Learner(bandits[0], ADVANTAGES[advantage]())
    moving = replace(still, staleness=STALENESS[model](), horizon=max(setting.refresh_interval))
    theta, along, stiffness = [], [], []
    for p, bandit in zip(problems, bandits, strict=True):
        here = replace(still, bandit=bandit)
        point = detectors.find_fixed_point(here, "mean_field", p.kl_weight)
        report = detectors.measure_stiffness(here, "mean_field", p.kl_weight, point)
        theta.append(point.rest)
        along.append(detectors.stiffest_mode(report.relaxation_matrix, point.basis)[0])
        stiffness.append(np.asarray(report.hessian)[0])
    rest = (np.array([getattr(p, name) for p in problems]) for name in Hyper._fields[1:])
    cells = Hyper(np.ones(len(problems)), *rest)
    unit = (1 - cells.momentum) / (cells.refresh_interval * np.array(stiffness))
    rates = unit[:, None] * np.geomspace(setting.scan.start, setting.scan.stop, setting.scan.num)
    many = detectors.stack_bandits(bandits)
    found = detectors.learning_rate_boundary(
        moving, "mean_field", cells, np.stack(theta), np.stack(along), rates, bandits=many
    )
    return xarray.Dataset({"stiffness": ("bandit", stiffness, STIFFNESS), "threshold": ("bandit", found.value, RATE)})

"""Measurement of experiments/diagnostics.py."""

import numpy as np
import xarray

from bandit_lab.curves.diagnose import FAILURES, DiagnoseSettings, diagnose, oscillation_test
from bandit_lab.study.benchmark.logs import as_curve
from bandit_lab.study.benchmark.plant import plant_one
from bandit_lab.study.benchmark.reward_only import among, features
from bandit_lab.study.benchmark.simulate import simulate_all
from bandit_lab.study.reproduce.experiment import Lab, Setting

KINDS = ("healthy", *FAILURES)
RECIPE = dict(zip(KINDS, ("healthy", "exploit", "split_prompts", "early_certainty", "cycles"), strict=True))


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Simulated logs of all kinds, judged with everything and by the reward curve alone."""
    ranges = setting.as_dict()
    planted = [plant_one(ranges, RECIPE[kind], setting.seed, i) for kind in KINDS for i in range(setting.runs)]
    curves = [as_curve(run) for run in simulate_all(planted)]
    kind = np.repeat(np.arange(len(KINDS)), setting.runs)
    limits, verdict, seen = DiagnoseSettings(), [], []
    for done, curve in enumerate(curves, start=1):
        found = diagnose(curve, limits)
        verdict.append([name in found.verdict for name in KINDS])
        seen.append(features(curve, found))
        lab.progress(done, len(curves))
    judged = np.arange(len(curves)) % 2 == 1
    by_curve = among(np.array(seen)[~judged], kind[~judged], len(KINDS))(np.array(seen)[judged])
    alone = by_curve[:, None] == np.arange(len(KINDS))
    cycles = [curves[i] for i in np.flatnonzero(judged & (kind == KINDS.index("dynamical_instability")))]
    periods = [oscillation_test(c.step, c.reward, 19).period for c in cycles]
    shown = [curves[k * setting.runs + setting.show] for k in range(len(KINDS))]
    counts, several = {"units": "runs"}, {"long_name": "runs with this in the verdict, which may name several failures"}
    verdicts = {
        "by_diagnostics": (("kind", "verdict"), _counts(kind[judged], np.array(verdict)[judged]), counts | several),
        "by_curve": (("kind", "verdict"), _counts(kind[judged], alone), counts),
        "period": ((), float(np.median(periods)), {"units": "steps", "long_name": "median over the unstable runs"}),
    }
    step, held = shown[0].step, shown[0].eval.step
    coords = {"kind": list(KINDS), "verdict": list(KINDS), "step": step, "evaluation": held}
    return xarray.Dataset(verdicts | _examples(shown), coords)


def _counts(truth: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Runs of each kind with each verdict [5, 5], from the kind [N] and the verdicts [N, 5]."""
    return np.stack([found[truth == k].sum(axis=0) for k in range(len(KINDS))])


def _examples(shown: list) -> dict:
    """One log of each kind: reward, held-out result, silent groups, entropy."""
    over = ("kind", "step")
    return {
        "reward": (over, np.stack([c.reward for c in shown]), {"units": "reward"}),
        "held_out": (("kind", "evaluation"), np.stack([c.eval.value for c in shown]), {"units": "reward"}),
        "silent": (over, np.stack([c.series["zero_std_frac"].value for c in shown]), {"units": "share of groups"}),
        "entropy": (over, np.stack([c.series["entropy"].value for c in shown]), {"units": "nats"}),
    }

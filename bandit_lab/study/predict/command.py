"""`predict`: fixed point, stiffness, oscillator, thresholds and noise of one setting, from formulas alone."""

import bisect
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bandit_lab import _checks, theory
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.simulate import drift_name
from bandit_lab.study import build
from bandit_lab.study.folder.clock import CompileClock
from bandit_lab.study.folder.manifest import manifest
from bandit_lab.study.folder.store import RunFolder, with_reasons
from bandit_lab.study.predict import statements
from bandit_lab.study.predict.statement import NO_NOISE, Setting
from bandit_lab.study.predict.verdict import facts_of, verdict
from bandit_lab.study.quantities import HORIZON
from bandit_lab.study.settings.config import PredictSettings
from bandit_lab.study.settings.grid import value_of
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.progress import Progress
from bandit_lab.study.wiring import Linear, linearise, noise_covariance, signal_of, special, weighs
from bandit_lab.theory.stability import repels

SEARCHED = {"refresh": 1024, "pipeline": 1024, "lag": 128}
"""Largest refresh interval that the search for unstable ones looks at, whatever the setting's own interval is."""
SEARCHED_CLOSED = 1024
"""The same for `lag` where the whole stiffness is stale and the threshold of each lag is a root, not a scan."""
LARGEST = {"lag": 512}
LARGEST_BLOCK = 65_536
"""Largest refresh interval of the setting itself: a lag makes a matrix of that size, a block that many products."""


@dataclass(frozen=True)
class Plan:
    """A checked setting."""

    settings: PredictSettings
    learner: Learner
    hyper: Hyper


def prepare(settings: PredictSettings, explicit: frozenset[str]) -> Plan:
    """Check every setting. Raises ValueError."""
    build.check_scalars(settings)
    interval = value_of(
        "refresh_interval", "refresh_interval", settings.refresh_interval, build.interval_rule(settings)
    )
    largest = LARGEST.get(settings.staleness["name"], LARGEST_BLOCK)
    expected = f"at most {largest} with staleness={settings.staleness['name']}"
    _checks.require(interval <= largest, "refresh_interval", expected, settings.refresh_interval)
    learner = build.build_learner(settings, float(interval))
    if reason := build.check_drift(learner, settings.dynamics):
        raise ValueError(f"{reason}; or predict with dynamics=mean_field")
    hyper = Hyper(settings.learning_rate, settings.momentum, interval, settings.kl_weight)
    return Plan(settings, learner, hyper)


def execute(plan: Plan, folder: RunFolder, progress: Progress) -> None:
    """Predict, print a table, write the run folder."""
    start = time.perf_counter()
    settings = asdict(plan.settings)
    folder.open(report.as_yaml(settings))
    with CompileClock() as clock:
        with progress.stage("fixed point and stiffness"):
            linear = linearise(plan.learner, plan.settings, plan.settings.dynamics, plan.hyper.kl_weight)
        with progress.stage("thresholds"):
            summary = with_verdict(plan, summarise(plan, linear))
    folder.write_summary(summary)
    folder.write_manifest(manifest("predict", settings, {}, clock.split(time.perf_counter() - start)))
    report.print_prediction(plan, summary)


def summarise(plan: Plan, linear: Linear) -> dict[str, Any]:
    """Content of `summary.json`."""
    drift = drift_name(plan.learner, plan.settings.dynamics)
    if linear.policy is None:
        return _without_fixed_point(linear, drift)
    rate, momentum, interval, _ = plan.hyper
    reason, setting = linear.why_not() or "", _statement_setting(plan, linear)
    rates = {"leading_order": linear.law(interval, momentum), "exact": linear.threshold(interval, momentum)}
    rates["oscillation_onset"] = linear.onset(interval, momentum)
    radius = None if reason else theory.spectral_radius(linear.loop(momentum), rate, interval)
    at_rest = None if radius is None else regime(linear.loop(momentum), radius, rate, rates["oscillation_onset"].value)
    steps = None if reason else linear.loop(momentum).steps_per_map(interval)
    return {
        "drift": drift,
        "fixed_point": {
            "policy": linear.policy,
            "policies": linear.policies,
            "expected_reward": linear.expected_reward,
            **({} if linear.note is None else {"note": linear.note}),
        },
        "stiffness": linear.largest,
        "stiffness_source": "closed form" if linear.closed_form else "automatic differentiation of the drift",
        "stiffness_spectrum": report.spectrum(linear.spectrum),
        "stiffness_fresh": _matrix_spectrum(linear.fresh),
        "stiffness_stale": _matrix_spectrum(linear.stale),
        "oscillator": _oscillator(linear, plan.hyper),
        "thresholds": {
            "convention": linear.convention,
            "learning_rate": with_reasons(
                {key: value.value for key, value in rates.items()},
                {key: value.reason or "" for key, value in rates.items()},
            ),
            "refresh_interval": _interval_thresholds(linear, plan.hyper, reason),
        },
        **with_reasons({"spectral_radius": radius}, {"spectral_radius": reason}),
        **({} if steps is None else {"spectral_radius_steps": steps}),
        **with_reasons({"regime": at_rest}, {"regime": reason}),
        **with_reasons(
            {"bifurcation": rates["exact"].bifurcation}, {"bifurcation": rates["exact"].reason or "no threshold"}
        ),
        "stationary_std": _stationary(setting),
        "statements": statements.evaluate(setting),
        "notes": statements.notes(setting, rates["exact"].value),
    }


def with_verdict(plan: Plan, summary: dict[str, Any]) -> dict[str, Any]:
    """The summary with its verdict in words before it."""
    hyper, optimizer = plan.hyper, plan.learner.optimizer.name
    setting = (hyper.learning_rate, hyper.refresh_interval, hyper.kl_weight)
    return {"verdict": verdict(facts_of(summary, setting, optimizer, HORIZON))} | summary


def _statement_setting(plan: Plan, linear: Linear) -> Setting:
    """What the table of statements is evaluated on."""
    settings, learner = plan.settings, plan.learner
    infinite_group = settings.dynamics == "mean_field"
    noise, reason = (None, None) if infinite_group else noise_covariance(learner, settings, np.asarray(linear.policy))
    return Setting(
        linear,
        plan.hyper,
        None if infinite_group else learner.group_size,
        np.exp(np.asarray(learner.bandit.reference_log_policy)[0]),
        np.exp(np.asarray(learner.bandit.log_policy(learner.bandit.initial_parameters))[0]),
        np.asarray(learner.bandit.law.means)[0],
        np.asarray(learner.bandit.true_means)[0],
        signal_of(learner, settings, settings.dynamics),
        noise,
        reason,
        settings.batch_reuse,
        learner.prompts,
        weighs(learner),
        special(learner),
    )


def regime(loop: theory.LinearLoop, radius: float, learning_rate: float, onset: float | None) -> str:
    """`overdamped`, `oscillatory` or `unstable`, by the largest multiplier's modulus and the onset's learning rate."""
    if repels(loop) or radius >= 1:
        return "unstable"
    return "oscillatory" if onset is not None and learning_rate > onset else "overdamped"


def _oscillator(linear: Linear, hyper: Hyper) -> dict[str, Any]:
    if linear.convention not in theory.CONVENTIONS:
        return {"mass": None, "damping": None, "stiffness": linear.largest, "convention": linear.convention,
                "mass_reason": linear.why_not(), "damping_reason": linear.why_not()}  # fmt: skip
    lag, convention = hyper.refresh_interval, theory.as_convention(linear.convention)
    osc = theory.oscillator(hyper.learning_rate, hyper.momentum, linear.largest, lag, convention)
    return {
        "mass": float(osc.mass),
        "damping": float(osc.damping),
        "stiffness": float(osc.stiffness),
        "convention": linear.convention,
        "lag": lag,
    }


def _interval_thresholds(linear: Linear, hyper: Hyper, reason: str) -> dict[str, Any]:
    """Refresh intervals at which stability is lost at this learning rate, in steps."""
    if reason:
        keys = ("leading_order", "exact", "islands")
        return with_reasons(dict.fromkeys(keys), dict.fromkeys(keys, reason))
    if linear.model not in SEARCHED:
        why = dict.fromkeys(("exact", "islands"), f"not searched for staleness={linear.model}")
        law = linear.law(1, hyper.momentum).value
        return {"leading_order": None if law is None else law / hyper.learning_rate} | with_reasons(
            dict.fromkeys(why), why
        )
    if linear.model == "lag" and linear.wholly_stale:
        maximum, runs = SEARCHED_CLOSED, unstable_lags(linear, hyper, SEARCHED_CLOSED)
    else:
        maximum = SEARCHED[linear.model]
        runs = theory.islands(linear.loop(hyper.momentum), hyper.learning_rate, maximum)
    at_one = linear.law(1, hyper.momentum).value
    values = {
        "leading_order": None if at_one is None else at_one / hyper.learning_rate,
        "exact": runs[0][0] if runs else None,
        "islands": [list(run) for run in runs],
    }
    reasons = {"exact": f"stable at every refresh interval up to {maximum}", "leading_order": "the fixed point repels"}
    return with_reasons(values, reasons) | {"searched_up_to": maximum}


def unstable_lags(linear: Linear, hyper: Hyper, maximum: int) -> list[tuple[int, int]]:
    """The unstable lags 0..maximum as at most one range, by bisection; for a stiffness that is wholly stale.

    Derived here: on the unit circle kappa rises with the angle, and a longer lag reaches the phase of a crossing at a
    smaller one, so that the threshold falls with the lag. Roots only leave the circle as kappa grows, and the stiffest
    mode leaves first: a lag is unstable where its threshold lies at or below eta times the largest stiffness.
    """
    kappa, convention = hyper.learning_rate * linear.largest, theory.as_convention(linear.convention)

    def unstable(lag: int) -> bool:
        return theory.exact("lag", lag, hyper.momentum, convention).kappa <= kappa

    first = bisect.bisect_left(range(maximum + 1), True, key=unstable)
    return [(first, maximum)] if first <= maximum else []


def _stationary(setting: Setting) -> dict[str, Any]:
    """Standard deviations over a stationary run at this group size."""
    if setting.group_size is None:
        return {"expected_reward": 0.0, "logit": 0.0, "note": NO_NOISE}
    reward, logit, other = setting.stationary
    why = setting.noise_reason or other or ""
    return with_reasons({"expected_reward": reward, "logit": logit}, {"expected_reward": why, "logit": why})


def _without_fixed_point(linear: Linear, drift: str) -> dict[str, Any]:
    """The summary where the policy runs to a vertex: nulls with the reason, and the KL weight that would do."""
    reason = linear.reason or "no interior fixed point"
    if linear.critical_kl_weight is not None:
        reason += f"; one exists from kl_weight = {linear.critical_kl_weight:.6g}"
    elif linear.kl_weight == 0:
        reason += "; any kl_weight > 0 may have one"
    scalar = ["stiffness", "stiffness_spectrum", "stiffness_fresh", "stiffness_stale", "spectral_radius", "regime"]
    nothing = lambda *keys: with_reasons(dict.fromkeys(keys), dict.fromkeys(keys, reason))  # noqa: E731
    return {
        "drift": drift,
        "fixed_point": nothing("policy", "policies", "expected_reward"),
        "critical_kl_weight": linear.critical_kl_weight,
        **nothing(*scalar, "bifurcation"),
        "oscillator": nothing("mass", "damping", "stiffness") | {"convention": linear.convention},
        "thresholds": {
            "convention": linear.convention,
            "learning_rate": nothing("leading_order", "exact", "oscillation_onset"),
            "refresh_interval": nothing("leading_order", "exact", "islands"),
        },
        "stationary_std": nothing("expected_reward", "logit"),
    }


def _matrix_spectrum(matrix: np.ndarray | None) -> list[Any]:
    values = np.linalg.eigvals(np.asarray(matrix))
    return report.spectrum(values[np.argsort(-values.real)])

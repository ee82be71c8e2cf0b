"""Both paths of the engine against every run that can be drawn, summed by hand; each option, dropped, is seen."""

from dataclasses import dataclass, field, fields, replace

import by_hand
import numpy as np
import pytest
from by_hand_settings import BANDITS, REGISTRIES, VARIED, learner, setting
from settings import cells, own

from bandit_lab.grpo import Learner
from bandit_lab.simulation import run, trajectories
from bandit_lab.simulation.fast import unsupported_reason

SEEDS, STANDARD_ERRORS = 2**16, 5
pytestmark = pytest.mark.usefixtures("compiled_quickly")
nightly = pytest.mark.nightly


@dataclass(frozen=True)
class Case:
    """Rules of a `by_hand.Setting` on one of the BANDITS, few large steps in blocks, or with ages, of `interval`."""

    bandit: str
    rules: dict
    steps: int = 3
    interval: float = 2
    eta: float = 0.8
    mu: float = 0.5
    kl_weight: float = 0.3
    options: dict = field(default_factory=dict)

    @property
    def all_rules(self):
        return {**self.rules, "options": self.options}

    @property
    def hyper(self):
        return {"eta": self.eta, "mu": self.mu, "interval": self.interval, "kl_weight": self.kl_weight}

    def without(self):
        """(what is dropped, rules) with every option, and every rule that has a default, left out in turn."""
        for kind, chosen in self.options.items():
            for option in chosen:
                left = {key: value for key, value in chosen.items() if key != option}
                yield f"{kind} {self.rules[kind]} {option}", {**self.all_rules, "options": {**self.options, kind: left}}
        for rule in sorted(set(self.rules) - set(self.options) - {"horizon"}):
            yield rule, {key: value for key, value in self.all_rules.items() if key != rule}


def chosen(kind, name, **changed):
    return {kind: {**VARIED[kind][name], **changed}}


CASES = {
    "grpo, clip_higher, k3, adamw": Case(
        "arms",
        {"advantage": "grpo", "estimator": "clip_higher", "kl_estimator": "k3", "optimizer": "adamw",
         "entropy_weight": 0.4},
        options=chosen("advantage", "grpo") | chosen("optimizer", "adamw", b2=0.3)
        | chosen("estimator", "clip_higher", epsilon_low=0.6, epsilon_high=0.8),
    ),
    "sign, cispo, k3, ema, lag": Case(
        "graded",
        {"advantage": "sign", "estimator": "cispo", "kl_estimator": "k3", "optimizer": "sgd_ema", "staleness": "lag"},
        steps=2,
        interval=1,
        options=chosen("advantage", "sign") | chosen("estimator", "cispo"),
    ),
    "dapo, clipped, k3, two contexts, Nesterov, pipeline": Case(
        "prompts",
        {"advantage": "dapo", "estimator": "clipped", "kl_estimator": "k3", "optimizer": "nesterov",
         "staleness": "pipeline", "entropy_weight": 0.4},
        steps=2,
        interval=1,
        eta=0.4,
        options=chosen("advantage", "dapo") | chosen("estimator", "clipped"),
    ),
    "batch_std, two prompts, batch reuse, adam": Case(
        "arms",
        {"advantage": "batch_std", "estimator": "ratio", "optimizer": "adam", "prompts": 2, "batch_reuse": True},
        steps=2,
        options=chosen("advantage", "batch_std") | chosen("optimizer", "adam", b2=0.3),
    ),
    "gspo, tokens": Case("tokens", {"estimator": "gspo"}, steps=2, options=chosen("estimator", "gspo")),
    "tempered, tpo": Case(
        "arms",
        {"advantage": "tempered", "estimator": "tpo", "staleness": "lag", "horizon": 1},
        interval=1,
        options=chosen("advantage", "tempered") | chosen("estimator", "tpo"),
    ),
    "rloo, three, uncorrected": Case(
        "arms", {"advantage": "rloo", "estimator": "uncorrected", "group_size": 3}, steps=2
    ),
}  # fmt: skip
CASES["ages that are drawn"] = Case(
    "arms", {"staleness": "ages", "horizon": 2, "estimator": "uncorrected"}, interval=1, eta=1.6,
    options={"staleness": {**VARIED["staleness"]["ages"], "draws": 1}},
)  # fmt: skip
CASES |= {
    "temperature, tis": Case(
        "graded", {"sampler": "temperature", "correction": "tis"}, steps=2, interval=1, eta=1.6, kl_weight=1.0,
        options=chosen("sampler", "temperature") | chosen("correction", "tis"),
    ),
    "nucleus": Case("graded", {"sampler": "top_p"}, steps=2, interval=1, eta=3.0,
                    options=chosen("sampler", "top_p")),
    "likeliest": Case("graded", {"sampler": "top_k"}, steps=2, interval=1, eta=3.0, options=chosen("sampler", "top_k")),
    "noise, icepop": Case(
        "graded", {"sampler": "logit_noise", "correction": "icepop", "kl_estimator": "k3"}, steps=2,
        options={"sampler": {"noise": [0.6, -0.2, 0.3]}} | chosen("correction", "icepop"),
    ),
    "drawn noise, importance": Case(
        "arms", {"sampler": "logit_noise", "correction": "importance", "estimator": "ratio"}, steps=2,
        options={"sampler": {"std": 1.1, "seed": 1}},
    ),
}  # fmt: skip
KEPT = {"grpo, clip_higher, k3, adamw", "dapo, clipped, k3, two contexts, Nesterov, pipeline"}
"""Cases of which the reference path is compared in every run of the tests, beside the fast one."""


def paths(case, dynamics):
    """The paths that serve a case."""
    served = unsupported_reason(learner(case.bandit, **case.all_rules), dynamics) is None
    return ("fast", "reference") if served else ("reference",)


SERVED = {name for name, case in CASES.items() if "fast" in paths(case, "sampled")}


def start_of(case):
    return np.asarray(BANDITS[case.bandit].initial_parameters)


def distance(sample, rewards, chances):
    """Largest gap between three moments about the exact mean and the exact ones, in standard errors; 1e-6 is granted
    for single precision."""
    mean, worst = chances @ rewards, 0.0
    for power in (1, 2, 3):
        exact = chances @ (rewards - mean) ** power
        variance = chances @ (rewards - mean) ** (2 * power) - exact**2
        gap = abs(np.mean((sample - mean) ** power) - exact)
        worst = max(worst, max(gap - 1e-6, 0) / np.sqrt(variance / len(sample)))
    return worst


@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param(name, path, marks=nightly if path == "reference" and name in SERVED - KEPT else ())
        for name in CASES
        for path in paths(CASES[name], "sampled")
    ],
)
def test_sampled_runs_have_the_law_of_every_run_that_can_be_drawn(name, path):
    """Expected reward at the end, 2^16 seeds, seed 1: three moments within 5 standard errors (false alarm 2e-6).

    Planted: each option of the case left out by hand is farther off than that.
    """
    case = CASES[name]
    trained = learner(case.bandit, **case.all_rules)
    grid = cells(case.eta, case.mu, case.interval, case.kl_weight)
    runs = trajectories(trained, "sampled", grid, steps=case.steps, seeds=SEEDS, seed=1, path=path)[0, :, -1]

    def off(rules):
        return distance(
            runs, *by_hand.every_run(setting(case.bandit, **rules), start_of(case), case.steps, **case.hyper)
        )

    assert off(case.all_rules) <= STANDARD_ERRORS
    for what, rules in case.without():
        if not what.endswith("draws"):  # every run by hand draws
            assert off(rules) > STANDARD_ERRORS, what


MEAN_CASES = {
    "grpo, clip_higher, k3, adamw": CASES["grpo, clip_higher, k3, adamw"],
    "contexts": replace(
        CASES["dapo, clipped, k3, two contexts, Nesterov, pipeline"], eta=0.05,
        options=chosen("advantage", "dapo") | chosen("estimator", "clipped", epsilon=0.02),
    ),
    "tokens": CASES["gspo, tokens"],
    "adamw as it is": Case("arms", {"optimizer": "adamw", "estimator": "ratio"}),
    "rounding": Case(  # too near for a comparison of sampled runs
        "graded", {"sampler": "rounding", "estimator": "ratio"}, options=chosen("sampler", "rounding")
    ),
    "all ages": Case(
        "arms", {"staleness": "ages", "horizon": 4, "optimizer": "adam", "estimator": "ratio"},
        options=chosen("staleness", "ages") | chosen("optimizer", "adam", b2=0.3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MEAN_CASES)
def test_mean_runs_are_those_by_hand(name):
    """Infinite groups along both paths, in float64, six steps: rewards to 1e-12. Planted: options left out."""
    case, steps = MEAN_CASES[name], 6

    def rewards(rules):
        chosen = setting(case.bandit, **rules)
        return by_hand.expected_reward(chosen, by_hand.mean_run(chosen, start_of(case), steps, **case.hyper))

    expected, grid = rewards(case.all_rules), cells(case.eta, case.mu, case.interval, case.kl_weight)
    trained = learner(case.bandit, **case.all_rules)
    for path in paths(case, "mean_field"):
        curve = run(trained, "mean_field", grid, steps=steps, dtype=np.float64, path=path).reward_mean[0]
        np.testing.assert_allclose(curve, expected, rtol=0, atol=1e-12, err_msg=path)
    for what, rules in case.without():
        if not what.endswith("ddof") and what != "advantage" and what != "staleness":  # an infinite group has none
            assert np.max(np.abs(rewards(rules) - expected)) > 1e-6, what


def uncovered(cases=CASES, learners=Learner):
    """Options that no case varies, in words."""
    tried = (*cases.values(), MEAN_CASES["rounding"])
    seen = {(kind, case.rules[kind], option) for case in tried for kind in case.options for option in
            case.options[kind]}  # fmt: skip
    every = {(kind, name, option) for kind, of in VARIED.items() for name, each in of.items() for option in each}
    missing = [f"{kind} {name}, option {option}" for kind, name, option in sorted(every - seen)]
    varied = {rule for case in cases.values() for rule in case.rules}
    varied |= {"bandit", "schedule"}  # schedules are summed by hand in test_schedules
    missing += [f"learner, option {one.name}" for one in fields(learners) if one.name not in varied]
    for kind, registry in REGISTRIES.items():
        varied = {case.rules.get(kind) for case in {**cases, **MEAN_CASES}.values()}
        if kind in ("staleness", "optimizer", "kl_estimator"):
            missing += [f"{kind} {name}" for name in sorted(set(own(registry)) - varied - {"exact", "refresh", "sgd"})]
    return [f"{one}: no run is summed by hand with it; put it into a case of {__name__}.CASES" for one in missing]


def test_every_option_is_in_a_case():
    """Of the advantages, estimators and optimisers, and of the learner. The defaults are in the cases that name no
    other."""
    assert not uncovered(), "\n".join(uncovered())

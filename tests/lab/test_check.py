"""The conformance suite on every registered variant, on planted defects, and on the bandit of the README."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import nightly_but

from bandit_lab.app.cli import main
from bandit_lab.app.plugins import registries
from bandit_lab.bandits import BANDITS, TabularBandit, k_arm
from bandit_lab.bandits.gaussian import GaussianBandit, gaussian
from bandit_lab.grpo import ADVANTAGES, DrGRPO, Lag, Refresh, TokenMean
from bandit_lab.grpo.advantage.none import NoBaseline
from bandit_lab.grpo.correction import NoCorrection
from bandit_lab.grpo.kl import Exact
from bandit_lab.grpo.sampler import OwnLaw, TopK
from bandit_lab.lab.check import CHECKS, run_check, sampling, subject_of
from bandit_lab.lab.check.result import close, not_zero
from bandit_lab.lab.check.stability import growth_of

ALL = [(kind, name) for kind, registry in registries().items() for name in registry]
PROGRAMS, GROWTH = "one compilation; jit, vmap and single precision", "multipliers against simulated growth"
SHORT = [name for name in CHECKS if name not in (PROGRAMS, GROWTH)]


def judge(subject, names):
    failed = [result for result in (run_check(name, subject) for name in names) if result.status == "FAIL"]
    assert failed == []


REPRESENTATIVES = [
    ("advantage", "dapo"),  # drops silent groups
    ("bandit", "contextual"),  # several contexts
    ("estimator", "clip_higher"),  # depends on the ratio and on the advantage's sign
    ("staleness", "pipeline"),  # remembers
]
"""Checked in `make test`; the others nightly."""


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(("kind", "name"), nightly_but(REPRESENTATIVES, ALL), ids=lambda value: value)
def test_every_variant_keeps_the_rules(kind, name):
    """Sampling: n = 20,000, |z| <= 5, seed 0: false alarm below 6e-7 per number, 1e-3 for all of them."""
    judge(subject_of(kind, name), SHORT)


WITH_A_MEMORY = [(kind, name) for kind, name in ALL if kind in ("staleness", "optimizer")]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), nightly_but([("staleness", "pipeline")], WITH_A_MEMORY))
def test_rules_with_a_memory_grow_as_their_multipliers(kind, name):
    judge(subject_of(kind, name), [GROWTH])


def test_growth_is_read_off_one_mode_and_off_a_pair_at_any_angle():
    """200 angles and growths (seed 0), 1e-8 large, with rounding; the largest of a window misses it by up to 1e-4."""
    random = np.random.default_rng(0)
    for angle, growth in zip(random.uniform(0.01, np.pi, 200), random.uniform(-2e-3, 2e-3, 200), strict=True):
        step, size = np.arange(200)[:, None], 1e-8 * random.normal(size=(1, 3))
        rounding = 1e-17 * random.normal(size=(200, 3))
        pair = size * np.exp(growth * step) * np.cos(angle * step + random.uniform(0, 6, (1, 3))) + rounding
        assert abs(growth_of(pair) - growth) < 1e-6, (angle, growth)
        flip = size * np.exp(growth * step) * (-1.0) ** step + rounding
        assert abs(growth_of(flip) - growth) < 1e-6, growth


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Misdrawn(TabularBandit):
    """Draws the reward of the next arm."""

    def sample_rewards(self, key, context, arms):
        return super().sample_rewards(key, context, (arms + 1) % 3)


def misdrawn(rewards=(0.8, 0.5, 0.2)):
    right = k_arm(rewards)
    return Misdrawn(right.law, right.initial_parameters, right.reference_log_policy)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NotNormal(GaussianBandit):
    """Says that its rewards are normal; only their mean and variance are."""

    def sample_rewards(self, key, context, arms):
        noise = jax.random.laplace(key, arms.shape, self.means.dtype) / jnp.sqrt(2)
        return self.means[arms] + self.stds[arms] * noise


def not_normal(rewards=(0.8, 0.5, 0.2)):
    return NotNormal(**vars(gaussian(rewards)))


@dataclass(frozen=True)
class WrongLimit(NoBaseline):
    """Has another factor in the limit only."""

    def advantages(self, values, shares, size):
        return values * (1.1 if size is None else 1.0)


@dataclass(frozen=True)
class WrongScale(DrGRPO):
    """Has another factor on the fast path."""

    def advantages(self, values, shares, size):
        return 1.4 * super().advantages(values, shares, size)


@dataclass(frozen=True)
class WrongCounts(NoBaseline):
    """Forgets that several rewards may have one value: another advantage on the fast path."""

    def advantages(self, values, shares, size):
        return values - jnp.mean(values, axis=0)


@dataclass(frozen=True)
class NotCentred(NoBaseline):
    """Claims to be centred and is not."""

    centred = True


@dataclass(frozen=True)
class LiesAboutRatio(TokenMean):
    """Says that it ignores the ratio."""

    at_snapshot = False
    ignores_ratio = True

    def weight(self, ratio, advantage):
        return ratio


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Misderived(TabularBandit):
    """Hides half of the policy from differentiation."""

    def log_policy(self, theta):
        return super().log_policy(0.5 * theta + 0.5 * jax.lax.stop_gradient(theta))


def misderived(rewards=(0.8, 0.5, 0.2)):
    right = k_arm(rewards)
    return Misderived(right.law, right.initial_parameters, right.reference_log_policy)


@dataclass(frozen=True)
class Invents(Lag):
    """Hands out parameters that never were."""

    def behaviour(self, state, theta, step, interval, key=None):
        acting, state = super().behaviour(state, theta, step, interval, key)
        return acting + 0.5, state


@dataclass(frozen=True)
class Counts(Refresh):
    """Says that it is asked at block starts only, and changes its memory at every step."""

    def init(self, theta, horizon):
        return theta, theta

    def behaviour(self, state, theta, step, interval, key=None):
        snapshot = jnp.where(step % interval == 0, state[1], state[0])
        return snapshot, (snapshot, theta)


@dataclass(frozen=True)
class OddPeriod(Refresh):
    """Says that it repeats itself one step late."""

    def period(self, interval):
        return interval + 1


@dataclass(frozen=True)
class Mixes(Refresh):
    """Takes one arm's logit for another's where many runs stand side by side."""

    def behaviour(self, state, theta, step, interval, key=None):
        acting, state = super().behaviour(state, theta, step, interval, key)
        return acting if acting.ndim == 1 else jnp.roll(acting, 1, axis=0), state


class WrongDivergence(Exact):
    """Its gradient is that of another divergence."""

    def divergence(self, log_policy, log_reference):
        return 1.5 * super().divergence(log_policy, log_reference)


@dataclass(frozen=True)
class Silent:
    """Takes nonsense without a word."""

    def __init__(self, scale=None):
        object.__setattr__(self, "scale", scale)

    at_snapshot = False

    def weight(self, ratio, advantage):
        return jnp.where(jnp.isfinite(ratio), 1.0, jnp.nan)


@dataclass(frozen=True)
class Unnormalised(OwnLaw):
    """Its law has another sum than 1."""

    def log_law(self, log_policy):
        return 1.1 * log_policy


@dataclass(frozen=True)
class NeverDraws(TopK):
    """Says that it can draw every answer."""

    draws_all = True
    k: int = 2


@dataclass(frozen=True)
class NotOneAtOne(NoCorrection):
    """Weighs an answer whose two probabilities agree."""

    def weight(self, mismatch):
        return mismatch + 0.1


@dataclass(frozen=True)
class BelowZero(NoCorrection):
    """Turns the gradient of rare answers round."""

    def weight(self, mismatch):
        return 1 + jnp.log(mismatch)


DEFECTS = [
    ("sampler", Unnormalised, "declared law"),
    ("sampler", NeverDraws, "declared law"),
    ("correction", NotOneAtOne, "weights of the mismatch"),
    ("correction", BelowZero, "weights of the mismatch"),
    ("bandit", misdrawn, "rewards drawn follow the law"),
    ("bandit", not_normal, "rewards drawn follow the law"),
    ("bandit", misdrawn, "exact mean of a group against sampling"),
    ("advantage", WrongLimit, "infinite groups are the limit of large ones"),
    ("advantage", NotCentred, "declared properties"),
    ("advantage", WrongScale, "declared properties"),
    ("advantage", WrongCounts, "exact mean of a group against sampling"),
    ("estimator", LiesAboutRatio, "weights"),
    ("estimator", Silent, "bad settings are named"),
    ("bandit", misderived, "gradient of the policy against finite differences"),
    ("bandit", misderived, "derivatives of the drift against finite differences"),
    ("staleness", Invents, "remembers parameters"),
    ("staleness", Counts, "remembers parameters"),
    pytest.param("staleness", OddPeriod, GROWTH, marks=pytest.mark.nightly),
    ("staleness", Mixes, "fast path against the reference path"),
    ("kl_estimator", WrongDivergence, "stiffness by three routes"),
]


@pytest.mark.parametrize(("kind", "builder", "check"), DEFECTS, ids=lambda value: getattr(value, "__name__", value))
def test_planted_defects_are_caught(kind, builder, check, monkeypatch):
    registry = registries()[kind]
    monkeypatch.setattr(registry, "_builders", {**registry._builders, "defect": builder})
    assert run_check(check, subject_of(kind, "defect")).status == "FAIL"


@pytest.mark.parametrize(("kind", "name"), [one for one in ALL if one[0] in ("sampler", "correction")])
def test_laws_and_weights_that_are_shipped_are_as_declared(kind, name):
    checks = [one for one in ("declared law", "weights of the mismatch") if kind in CHECKS[one].kinds]
    assert [run_check(one, subject_of(kind, name)).status for one in checks] == ["pass"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Deaf(TabularBandit):
    """Keeps its policy whatever its parameters are."""

    tabular = False

    def log_policy(self, theta):
        return super().log_policy(0 * theta)


@pytest.mark.usefixtures("compiled_quickly")
def test_no_check_passes_on_a_comparison_of_nothing(monkeypatch):
    """A policy without any gradient: every derivative, mean, growth and stiffness is 0 on both sides."""
    right = k_arm((0.8, 0.5, 0.2))
    monkeypatch.setattr(BANDITS, "_builders", dict(BANDITS._builders))
    BANDITS.register("deaf")(lambda: Deaf(right.law, right.initial_parameters, right.reference_log_policy))
    subject = subject_of("bandit", "deaf", {})
    asked = (
        *("gradient of the policy against finite differences", "derivatives of the drift against finite differences"),
        *("exact mean of a group against sampling", "infinite groups are the limit of large ones"),
        *("stiffness by three routes", PROGRAMS, GROWTH),
    )
    results = {name: run_check(name, subject) for name in asked}
    assert [name for name, result in results.items() if result.status == "pass"] == []
    assert "nothing to compare" in results["gradient of the policy against finite differences"].detail
    assert "nothing to compare" in results["exact mean of a group against sampling"].detail
    assert "does not change with its parameters" in results[GROWTH].detail
    for nothing in ([], [0.0, 0.0], [1e-7]):
        with pytest.raises(AssertionError, match="nothing to compare"):
            not_zero("growth", nothing, least=1e-6)
    with pytest.raises(AssertionError, match="nothing to compare"):
        close("numbers", [], [], 1, 1)


@pytest.mark.parametrize("z", [[1.0, -9.0], [9.0, -1.0]])
def test_a_deviation_counts_on_both_sides(z):
    with pytest.raises(AssertionError, match=r"9\.00 on 2 numbers"):
        sampling.judge(np.array(z), 10, 0)


def test_a_failed_check_exits_1_and_says_how_often(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "wrong_limit.py").write_text(
        "from dataclasses import dataclass\n"
        "from bandit_lab.grpo import ADVANTAGES, register_advantage\n"
        "@register_advantage('wrong_limit')\n"
        "@dataclass(frozen=True)\n"
        "class WrongLimit(ADVANTAGES['median']):\n"
        "    def advantages(self, values, shares, size):\n"
        "        return super().advantages(values, shares, size) * (2 if size is None else 1)\n"
    )
    builders = dict(ADVANTAGES._builders)
    monkeypatch.setattr("bandit_lab.lab.check.result.CHECKS", {n: c for n, c in CHECKS.items() if "limit" in n})
    try:
        assert main(["check", "plugins=[wrong_limit]", "quiet=true"]) == 1
    finally:
        ADVANTAGES._builders = builders
    assert "1 of 1 checks failed" in capsys.readouterr().err

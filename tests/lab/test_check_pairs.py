"""The conformance suite over pairs of variants: what each keeps beside ordinary others, it has to keep beside all."""

from itertools import product

import pytest
from settings import nightly_but

from bandit_lab.bandits import BANDITS
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Learner
from bandit_lab.lab.check import run_check, subject_of
from bandit_lab.lab.check.subject import settings_for
from bandit_lab.lab.predict.build import variant

DRAWN = ("exact mean of a group against sampling", "infinite groups are the limit of large ones")
REMEMBERED = ("fast path against the reference path", "multipliers against simulated growth")


def ask(kind, name, checks, **others):
    """Answers to some checks of a variant beside other variants, each with its own settings."""
    made = {other: variant(other, {"name": one, **settings_for(other, one)}) for other, one in others.items()}
    start = subject_of(kind, name).learner
    parts = {key: getattr(start, key) for key in ("bandit", "advantage", "estimator", "group_size")} | made
    subject = subject_of(kind, name, None, Learner(**parts))
    answers = [run_check(check, subject) for check in checks]
    assert [answer for answer in answers if answer.status == "FAIL"] == []


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(
    ("bandit", "advantage"), nightly_but([("gaussian", "sign")], product(BANDITS, ADVANTAGES)), ids=str
)
def test_every_bandit_with_every_advantage(bandit, advantage):
    """n = 20,000 (2,000 at G = 512), |z| <= 5, seed 0: false alarm below 6e-7 a number, 1e-3 for all pairs together."""
    ask("advantage", advantage, DRAWN, bandit=bandit)


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(
    ("bandit", "estimator"), nightly_but([("contextual", "ratio")], product(BANDITS, ESTIMATORS)), ids=str
)
def test_every_bandit_with_every_estimator(bandit, estimator):
    ask("estimator", estimator, DRAWN[:1], bandit=bandit)


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(("bandit", "staleness"), nightly_but([("modes", "lag")], product(BANDITS, STALENESS)), ids=str)
def test_every_bandit_with_every_staleness_model(bandit, staleness):
    """Both paths within |z| <= 5 at n = 4,096."""
    ask("staleness", staleness, REMEMBERED[:1], bandit=bandit)


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(
    ("estimator", "advantage"), nightly_but([("tpo", "dapo")], product(ESTIMATORS, ADVANTAGES)), ids=str
)
def test_every_estimator_with_every_advantage(estimator, advantage):
    ask("estimator", estimator, DRAWN[:1], advantage=advantage)


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(
    ("staleness", "estimator"), nightly_but([("lag", "ratio")], product(STALENESS, ESTIMATORS)), ids=str
)
def test_every_staleness_model_with_every_estimator(staleness, estimator):
    """Both paths within |z| <= 5 at n = 4,096; growth within 1 % or 1e-6 a step (pipeline beside frozen among them)."""
    ask("estimator", estimator, REMEMBERED, staleness=staleness)

"""An operating point with numbers of one's own, as `predict` puts it into words: no learner has to have them."""

from types import SimpleNamespace

from bandit_lab.grpo import Hyper
from bandit_lab.lab.predict.verdict import verdict

STATEMENTS = ("period", "held_moment", "collapsed", "mean_age_law", "guarantee")


def absent_or(value, reason="", **more):
    return SimpleNamespace(value=value, reason=reason, **more)


def spoken(
    learning_rate, refresh_interval=1, kl_weight=1.0, law=None, law_reason="", exact=None, exact_reason="", radius=None,
    unsupported_reason="", regime=None, bifurcation=None, stiffness=1.0, islands=(), searched=None, no_fixed_point=None,
    critical_weight=None, **statements,
):  # fmt: skip
    """The verdict on such a point."""
    linear = SimpleNamespace(
        policy=None if no_fixed_point else [0.5, 0.5],
        reason=no_fixed_point,
        critical_kl_weight=critical_weight,
        spectrum=[stiffness],
    )
    point = SimpleNamespace(
        hyper=Hyper(learning_rate, 0.9, refresh_interval, kl_weight),
        linear=linear,
        law=absent_or(law, law_reason),
        exact=absent_or(exact, exact_reason, bifurcation=bifurcation),
        radius=absent_or(radius, unsupported_reason),
        regime=regime,
        intervals=SimpleNamespace(islands=islands, searched=searched),
        sampler=None,
    )
    assert set(statements) <= set(STATEMENTS)
    return verdict(point, {key: absent_or(statements.get(key)) for key in STATEMENTS})

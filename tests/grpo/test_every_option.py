"""Every option of every variant is varied against formulas that share no code with the package (`by_hand`).

The registries say which options there are. An option that no comparison varies fails here, with what to write.
"""

import inspect

import by_hand
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand_settings import PLACES, REGISTRIES, VARIED, learner, setting
from settings import own

from bandit_lab.grpo import KL_ESTIMATORS, OPTIMIZERS
from bandit_lab.grpo.optimizer import _momentum_of, _parameters
from bandit_lab.simulation import drift_of

FORMULAS = {
    "advantage": by_hand.ADVANTAGES,
    "estimator": by_hand.ESTIMATORS,
    "kl_estimator": by_hand.KL_ESTIMATORS,
    "sampler": by_hand.SAMPLERS,
    "correction": by_hand.CORRECTIONS,
    "staleness": by_hand.STALENESS,
    "optimizer": by_hand.OPTIMIZERS,
}
HANDED_ON = {"eps_root", "mu_dtype", "mask", "nesterov"}
"""Options of optax's Adam and AdamW that reach optax as they are: the fast path does not serve them."""


SHARES = {("staleness", "ages"): {"law", "mean", "maximum", "counts", "draws"}}
"""Other ways to say `weights` (tests/theory/test_ages.py); by hand every run draws, and a mean averages."""


SAMPLED = {"sampler": "temperature"}
SAMPLED_OPTIONS = {"sampler": {"tau": 0.5}}
"""What a correction corrects."""


def rows():
    return [(kind, name, option) for kind, of in VARIED.items() for name, each in of.items() for option in each]


def optimizer_options(name):
    """Options of an optimiser with defaults, less learning rate and momentum."""
    if name in OPTIMIZERS:
        return OPTIMIZERS.defaults(name)
    handed_on = ("learning_rate", _momentum_of(name))
    return {key: p.default for key, p in _parameters(name).items() if key not in handed_on}


def options_of(kind, name):
    if kind == "optimizer" and name not in OPTIMIZERS:
        return set(optimizer_options(name)) - HANDED_ON | {"b1"}
    return set(REGISTRIES[kind].defaults(name)) - SHARES.get((kind, name), set())


def uncovered(registries=REGISTRIES, varied=VARIED, formulas=FORMULAS):
    """What nothing independent checks, in words."""
    missing = []
    for kind, registry in registries.items():
        for name in sorted({*own(registry), *varied.get(kind, {})}):
            if name not in formulas[kind]:
                missing.append(f"{kind} {name}: no formula; write it in tests/by_hand.py, from its source")
            for option in sorted(options_of(kind, name) - set(varied.get(kind, {}).get(name, {}))):
                missing.append(
                    f"{kind} {name}, option {option}: no independent comparison varies it; give it a value in VARIED "
                    f"of tests/by_hand_settings.py and an argument of its formula in tests/by_hand.py"
                )
    return missing


def test_every_variant_has_a_formula_and_every_option_a_value():
    assert not uncovered(), "\n".join(uncovered())


def test_defaults_are_those_of_the_formulas():
    """Of every option that an update shows; b1 of Adam is the momentum."""
    for kind, name, option in rows():
        formula = inspect.signature(FORMULAS[kind][name]).parameters[option].default
        defaults = optimizer_options(name) if kind == "optimizer" else REGISTRIES[kind].defaults(name)
        assert (kind == "optimizer" and option == "b1") or defaults[option] == formula, (kind, name, option)


def test_the_witness_shares_no_code():
    """It imports NumPy and the standard library alone."""
    imports = [line for line in inspect.getsource(by_hand).splitlines() if line.startswith(("import", "from"))]
    assert {line.split()[1].partition(".")[0] for line in imports} == {
        "dataclasses",
        "functools",
        "itertools",
        "numpy",
    }


def assert_means_agree(bandit, kl_weight=0.6, infinite=(False, True), **rules):
    """Exact means of the package and by hand at one place, to 1e-12. Returns those by hand."""
    place, updates = PLACES[bandit], []
    for limit in infinite:
        expected = by_hand.mean_update(setting(bandit, **rules), *place, kl_weight, limit)
        drift = jax.jit(drift_of(learner(bandit, **rules), "mean_field" if limit else "finite_group"))
        np.testing.assert_allclose(drift(*map(jnp.asarray, place), jnp.asarray(kl_weight)), expected, atol=1e-12)
        updates.append(expected)
    return np.concatenate(updates)


TOKENS = {
    "cold, clipped, tis": ({"estimator": "clipped", "correction": "tis"}, "temperature", {"tis": {"largest": 1.1}}),
    "cold, whole": ({"estimator": "ratio", "correction": "icepop"}, "temperature", {"icepop": {"low": 0.95}}),
    "noise of every beginning": ({"estimator": "cispo", "correction": "importance"}, "logit_noise", {}),
    "nucleus of every token": ({"estimator": "uncorrected"}, "top_p", {}),
}


@pytest.mark.parametrize("name", TOKENS)
def test_sequences_are_drawn_and_corrected_token_by_token(name):
    """Two tokens out of two: exact means to 1e-12, of groups of two and of infinite ones. Planted: the sampler and the
    correction left out are other updates."""
    rules, sampler, corrections = TOKENS[name]
    of_sampler = {"temperature": {"tau": 0.5}, "logit_noise": {"std": 1.1}, "top_p": {"p": 0.55}}[sampler]
    options = {"sampler": of_sampler}
    if rules.get("correction") in corrections:
        options["correction"] = corrections[rules["correction"]]
    updates = assert_means_agree("tokens", **rules, sampler=sampler, options=options)
    for left in ({"sampler": "exact"}, {"correction": "none"}):
        other = {**rules, "sampler": sampler, **left}
        remaining = {kind: of for kind, of in options.items() if kind not in left}
        without = [
            by_hand.mean_update(setting("tokens", **other, options=remaining), *PLACES["tokens"], 0.6, limit)
            for limit in (False, True)
        ]
        same = "correction" in left and "correction" not in rules
        assert (np.max(np.abs(np.concatenate(without) - updates)) > 1e-3) != same, left


def assert_matters(bandit, kind, updates, **rules):
    """By hand, the default of an option is another update."""
    defaults = {**rules, "options": {other: of for other, of in rules["options"].items() if other != kind}}
    other = [by_hand.mean_update(setting(bandit, **defaults), *PLACES[bandit], 0.6, limit) for limit in (False, True)]
    assert np.max(np.abs(np.concatenate(other) - updates)) > 1e-3, f"{kind}: the value in VARIED changes nothing"


pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.mark.parametrize(
    ("kind", "name", "option"), [row for row in rows() if row[0] not in ("optimizer", "staleness")]
)
def test_an_option_changes_the_mean_update_as_its_formula_says(kind, name, option):
    """Finite groups by enumeration, and infinite ones. Planted: an option that is dropped is its default, and seen."""
    value = VARIED[kind][name][option]
    bandit = "tokens" if kind == "estimator" and name != "tpo" else "graded"
    rules = {kind: name, "options": {kind: {option: value}}, "group_size": 2 if bandit == "tokens" else 3}
    if name == "batch_std":
        rules |= {"group_size": 2, "prompts": 2}
        bandit = "arms"
    if kind == "advantage":
        rules |= {"estimator": "ratio"}
    if kind == "correction":
        rules |= {"estimator": "ratio", **SAMPLED}
        rules["options"] |= SAMPLED_OPTIONS
    updates = assert_means_agree(bandit, **rules)
    assert_matters(bandit, kind, updates, **rules)


CONTEXT_RULES = {"estimator": "ratio", "kl_estimator": "k3", "entropy_weight": 0.4}
WITH_CONTEXTS = [
    (kind, name)
    for kind in ("advantage", "estimator", "kl_estimator", "sampler", "correction")
    for name in sorted(own(REGISTRIES[kind]))
]


@pytest.mark.parametrize(("kind", "name"), WITH_CONTEXTS)
def test_a_variant_with_several_contexts_and_an_entropy_bonus(kind, name):
    """Off policy, with the sampled KL loss: contexts alike in the KL term and the entropy, silent groups drawn anew."""
    rules = {**CONTEXT_RULES, kind: name} | ({"prompts": 2} if name == "batch_std" else {})
    if kind == "sampler":
        rules |= {"estimator": "uncorrected"}
    if kind == "correction":
        rules |= {**SAMPLED, "options": SAMPLED_OPTIONS}
    updates = assert_means_agree("prompts", **rules)
    without = by_hand.mean_update(setting("prompts", **{**rules, "entropy_weight": 0.0}), *PLACES["prompts"], 0.6)
    assert np.max(np.abs(updates[: len(without)] - without)) > 1e-3


@pytest.mark.parametrize("name", sorted(KL_ESTIMATORS))
def test_a_kl_term_beside_silent_groups_that_are_drawn_anew(name):
    """dapo with two contexts: a sampled KL term sees the actions of the groups that are kept, an exact one all."""
    assert_means_agree("prompts", advantage="dapo", kl_estimator=name, estimator="clipped", infinite=(False,))


def test_where_actions_depend_on_each_other():
    """A std over three prompts, whose batches have orders; silent groups dropped where whole groups are weighed."""
    assert_means_agree("arms", advantage="batch_std", prompts=3, infinite=(False,))
    assert_means_agree("prompts", advantage="dapo", estimator="tpo", infinite=(False,))

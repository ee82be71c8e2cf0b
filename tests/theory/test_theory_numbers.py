"""The theory's numbers stay as they are, one setting after another: see `pinned`."""

from functools import partial

import numpy as np
import pytest
from pinned import check

from bandit_lab import theory
from bandit_lab.theory import BinarySignal, GroupLaw, LinearLoop, MomentSignal, random_ages, stability, thresholds
from bandit_lab.theory.sampler import ActingLaw, SampledTwoArms, one_good_arm

LAW, SMALL = GroupLaw("grpo"), GroupLaw("grpo", 6, eps=0.1, ddof=1)
RULES = [GroupLaw(rule, size) for rule in ("dr_grpo", "rloo", "dapo", "median", "sign", "none") for size in (4, None)]
SUCCESS, POLICY, REFERENCE = (0.9, 0.6, 0.15), np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
MEANS, SHARES = np.array(SUCCESS), (0.4, 0.1, 0.3, 0.2)
SIGNALS = [BinarySignal(LAW, SUCCESS), BinarySignal(SMALL, SUCCESS), BinarySignal(GroupLaw("dapo", 6), SUCCESS),
           BinarySignal(GroupLaw("median", 5), SUCCESS), MomentSignal((1.3, 0.2, -0.4), (0.1, 0.4, 0.0))]  # fmt: skip
FORMS = ("heavy_ball", "ema", "nesterov")
FRESH, STALE = np.array([[0.1, 0.02], [0.02, 0.05]]), np.array([[0.5, -0.1], [-0.1, 0.3]])
TURNED = np.array([[0.4, -0.2], [0.2, 0.4]])
NOISE = np.array([[1.0, 0.3], [0.3, 0.5]])
LOOPS = [LinearLoop(FRESH, STALE, 0.6, model, form, SHARES if model == "ages" else (1.0,))
         for model in ("refresh", "lag", "pipeline", "ages", "random") for form in FORMS]  # fmt: skip
TURNING = LinearLoop(0 * FRESH, TURNED, 0.3, "lag", "heavy_ball")
HOT, WEIGHED = ActingLaw(1.4), ActingLaw(0.7, 0.2, "tis", 0.0, 1.5)
OUTCOMES = [[(1.0, 0.7), (0.2, 0.3)], [(0.5, 1.0)], [(0.0, 0.5), (-0.4, 0.5)]]
CHAIN = theory.TwoArmChain((0.9, 0.2), GroupLaw("grpo", 4), 0.05, 0.8, 2, low=-6.0, high=8.0, spacing=0.2)
OSCILLATORS = [
    *(theory.oscillator(0.1, mu, 2.0, lag, form) for mu in (0.3, 0.9) for lag in (0, 2.5) for form in FORMS),
    theory.oscillator(0.1, 0.5, 0.0),
    theory.oscillator(0.1, 0.5, 0.01),
]


def at(function, *values, **options):
    """(values) -> what the function gives there."""
    return partial(function, *values, **options)


def groups(law):
    """All that a law of groups says of these chances; the number of successes where the group is finite."""
    finite = law.group_size and (law.group_factor(MEANS), law.success_weights(0.3))
    return law.factor(MEANS), law.slope(MEANS), law.mean_advantage(MEANS), law.centred, law.unbounded, finite


THEORY = {
    "leading": [at(thresholds.leading_order, n, mu, form) for n in (1, 6) for mu in (0.0, 0.8) for form in FORMS],
    "law": [at(theory.mean_age_law, m, 5, 0.8, form) for m in ("refresh", "lag", "pipeline") for form in FORMS],
    "exact": [at(thresholds.exact, m, n, mu, form) for m in ("refresh", "lag", "pipeline") for n in (1, 2, 7)
              for mu in (0.0, 0.8) for form in FORMS],
    "turned": [at(thresholds.exact, m, 3, 0.5, angle=0.4) for m in ("refresh", "lag")],
    "onset": [at(theory.oscillation_onset, m, n, 0.8, form) for m in ("refresh", "lag", "pipeline") for n in (1, 7)
              for form in FORMS],
    "ages": [at(theory.averaged_ages_threshold, SHARES, mu, form) for mu in (0.0, 0.7) for form in FORMS],
    "safe": [at(theory.safe_by_mean_age, SHARES, 0.7), at(theory.safe_by_largest_age, 9, 0.7, "nesterov"),
             at(theory.in_turn, 5, 0.7, "ema")],
    "drawn": [at(theory.drawn_ages_threshold, SHARES, mu, draws, form) for mu, draws, form in
              ((0.0, 1, "heavy_ball"), (0.7, 1, "nesterov"), (0.7, 3, "ema"))],
    "random": [at(theory.averaged_threshold, 2.5, mu, form) for mu in (0.0, 0.7) for form in FORMS]
              + [at(theory.mean_square_threshold, 2.5, mu, form) for mu in (0.0, 0.7) for form in FORMS]
              + [at(random_ages.mean_square_map, 0.3, 2.5, 0.6, form) for form in FORMS]
              + [at(theory.geometric_weights, 2.5, 9, tail) for tail in ("redraw", "clip")],
    "sums": [at(theory.block_sums, 5, 0.7, form) for form in FORMS],
    "oscillators": [at(lambda one: (one, one.regime, one.damping_ratio, one.rates), one) for one in OSCILLATORS],
    "responses": [at(theory.response, one, np.linspace(0, 40, 9), 0.2, 0.9, 0.1) for one in OSCILLATORS],
    "displacements": [at(theory.displacement, one, np.linspace(0, 40, 9), 0.5, -0.2) for one in OSCILLATORS],
    "poles": [at(theory.poles, kappa, 0.6, form) for kappa in (0.01, 1.3) for form in FORMS],
    "groups": [at(groups, law) for law in (LAW, SMALL, GroupLaw("grpo", eps=0.1), *RULES)],
    "silent": [at(theory.silent_rate, 5, MEANS), at(theory.factor_expansion, 8, MEANS)],
    "shift": [at(theory.group_shift, SUCCESS, REFERENCE, 0.8, GroupLaw(rule, 16)) for rule in ("grpo", "rloo")],
    "signals": [at(lambda one: (one.means, one.factor(POLICY), one.gradient(POLICY), one.mean_advantage(POLICY),
                                one.factors(np.stack([POLICY, REFERENCE]))), one) for one in SIGNALS],
    "points": [at(theory.fixed_points, one, REFERENCE, beta, kl) for one in SIGNALS for beta in (0.4, 1.5)
               for kl in ("exact", "k3")],
    "attracting": [at(theory.attracting_fixed_point, one, REFERENCE, 0.7, POLICY) for one in SIGNALS],
    "critical": [at(theory.critical_kl_weight, one, REFERENCE) for one in SIGNALS],
    "drift": [at(theory.mean_drift, one, REFERENCE, 0.7, np.array([0.3, -0.2, 0.1]), kl) for one in SIGNALS
              for kl in ("exact", "k3")],
    "split": [at(theory.stiffness_split, one, POLICY, 0.7, estimator, kl) for one in SIGNALS
              for estimator in ("frozen", "uncorrected", "ratio") for kl in ("exact", "k3")],
    "hessians": [at(theory.fisher, POLICY), at(theory.reward_hessian, POLICY, MEANS)],
    "noise": [at(theory.binary_covariance, law, MEANS, POLICY, penalty) for law in (SMALL, RULES[0], RULES[4])
              for penalty in (None, np.array([0.1, -0.2, 0.3]))],
    "graded": [at(lambda rule: theory.leading_covariance(rule, theory.reward_atoms(POLICY, OUTCOMES), 0.05), rule)
               for rule in ("grpo", "dr_grpo", "rloo")]
              + [at(lambda: theory.centred_covariance("dr_grpo", theory.reward_atoms(POLICY, OUTCOMES), 5))],
    "spreads": [at(theory.reward_std, POLICY, MEANS, np.diag([0.1, 0.2, 0.3])),
                at(theory.logit_std, POLICY, MEANS, np.diag([0.1, 0.2, 0.3]))],
    "multipliers": [at(lambda loop: np.sort_complex(theory.multipliers(loop, 0.2, 3)), loop) for loop in LOOPS],
    "thresholds": [at(theory.first_unstable_learning_rate, loop, 3) for loop in (*LOOPS, TURNING)],
    "onsets": [at(theory.first_oscillating_learning_rate, loop, 3) for loop in LOOPS],
    "periods": [at(stability.period, loop, 0.3, 3) for loop in (*LOOPS, TURNING)],
    "intervals": [at(theory.first_unstable_refresh_interval, loop, 0.5, 64) for loop in LOOPS[:9]]
                 + [at(theory.islands, loop, 0.9, 40) for loop in LOOPS[:9]],
    "stationary": [at(theory.stationary_covariance, loop, 0.05, 3, NOISE) for loop in LOOPS]
                  + [at(theory.stationary_covariance, loop, 0.05, 3, NOISE, True) for loop in LOOPS[:3]],
    "correlation": [at(theory.correlation, loop, 0.05, 3, NOISE, np.array([1.0, -0.5]), 6)
                    for loop in LOOPS]
                   + [at(theory.spectrum, loop, 0.05, 3, NOISE, np.array([1.0, -0.5]),
                         np.array([0.05, 0.2, 0.4])) for loop in LOOPS]
                   + [at(theory.early_warning, LOOPS[0], 0.9, 3, NOISE, np.array([0.3, 0.9]))],
    "collapse": [at(theory.critical_collapse, np.array([1.0, 0.5, 0.2]), REFERENCE, 1.4),
                 at(theory.extinctions, np.array([1.0, 0.5, 0.2]), REFERENCE, 1.4),
                 at(theory.extinctions, np.array([0.1, 0.4, 0.6, 0.9]), np.array([0.2, 0.2, 0.3, 0.3]), 1.5),
                 at(theory.collapse_asymptote, np.array([1.0, 0.5, 0.2]), REFERENCE, 1.4),
                 at(theory.sequence_choices, 2, 2)],
    "sampler": [at(lambda law, beta: (one := SampledTwoArms(BinarySignal(LAW, (0.9, 0.2)), law),
                                      one.rest(beta), one.drift(np.array([0.3, 2.0]), beta), one.stiffness(0.8, beta),
                                      one.critical_kl_weight())[1:], law, beta)
                for law in (HOT, WEIGHED, ActingLaw()) for beta in (0.3, 1.0)]
               + [at(lambda: one_good_arm(GroupLaw("dr_grpo"), 9, HOT).critical_kl_weight())],
    "chain": [at(CHAIN.step_law, 0.7), at(CHAIN.mean_probability, 30, 5), at(CHAIN.collapsed, 4.0, 20),
              at(lambda: CHAIN.escape(np.abs(CHAIN.grid) < 4)),
              at(lambda: CHAIN.absorbed(np.abs(CHAIN.grid) < 4, 12, 0.5))],
}  # fmt: skip
"""Closed forms and theory of one setting after another."""


def answer(call):
    """What a function gives, or that it refuses."""
    try:
        return call()
    except ValueError:
        return "refused"


@pytest.mark.parametrize("table", THEORY)
def test_theory(table):
    check("theory", table, {place: answer(call) for place, call in enumerate(THEORY[table])})

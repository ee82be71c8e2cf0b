"""Predictions from numbers alone: arm means, reference probabilities, matrices, learning rate, momentum, N, G.

    conventions      heavy ball, EMA, Nesterov; the sums of one block; mean age of the policy used
    oscillator       mass, damping, stiffness, regime, response as one smooth formula
    discrete         the two poles on policy
    thresholds       leading order, exact threshold and oscillation onset for refresh, lag, pipeline (one stiffness)
    block_map        the linear map of one block for any fresh/stale matrices
    stability        multipliers, first unstable learning rate or interval, islands, onset; steps per cycle of a mode
    group_law        h(J), c_G(p): what a group of G does to the mean gradient
    signal           the same as a function of the policy, binary or general rewards
    fixed_points     interior fixed points, which one attracts, critical KL weight
    stiffness        closed-form H_fresh and H_stale, spectrum
    gradient_noise   covariance of the group estimator
    stationary       stationary fluctuation (discrete Lyapunov), logit and reward standard deviations
    fluctuation      autocorrelation, spectrum, early warning
    random_ages      geometric ages: averaged, mean-square and Lyapunov thresholds
    two_arm_chain    exact transition operator of the two-arm chain on a grid
    ages             any distribution of ages: averaged, drawn, bounded
    sampler          two arms whose answers another law draws, and corrections of that
    collapse         critical KL weights of many unequal arms and of sequences under a hot sampler
    group_size       where group-size invariance of the mean fails

Nothing here imports the simulation: a prediction and a measurement are independent witnesses. What `__init__.pyi`
lists is imported when it is first used: most of it needs no JAX, which commands on logs should not wait for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# functions of the same name as their module, which would otherwise stand there once something imports the module
from bandit_lab.theory.oscillator import oscillator as oscillator  # noqa: E402

"""When is the reward curve a single exponential, and what do its three numbers then mean?

Prediction (written before the run). Near the fixed point heavy ball is m x'' + gamma x' + K x = 0 with damping
ratio zeta = gamma/(2 sqrt(m K)) (arXiv 2606.30789; bandit_lab/theory/oscillator.py, step by step in discrete.py).
From rest the closed form stays within e = 1/(4 zeta^2) of exp(-t/tau), tau = gamma/K = (1 - mu)/(eta K), as
zeta grows: their difference is e [(1 - s) exp(-s) - exp(-s/e)] + O(e^2), s = t/tau (derived here). A fit of the single
exponential returns the fixed point as plateau, over-damped also the inverse stiffness as time scale, and over a family
with stiffness ~ size^-a the size exponent a (shared/theory/size_family.py). Far from the fixed point softmax bends
the curve: the time scale is then that of the bent curve, by the same factor at every size.
Setting: experiments/overdamped_limit.yaml. Measured: runs of the mean update, with noise added the fits of
grpo_clinic.readers. Drawn: curves, their distance to the exponential, fitted time scales against damping and size.
"""

import jax
import numpy as np
import xarray
from grpo_clinic.fitting import fit_curve
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import measure as detectors, theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import DrGRPO, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import farthest_from_one
from experiments.shared import sheet
from experiments.shared.mean_curves import mean_curves
from experiments.shared.readings import read_at
from experiments.shared.theory import size_family
from experiments.shared.theory.release import discrete_response
from experiments.shared.theory.size_family import beyond_exponential, nearest_exponential
from experiments.shared.theory.slow_start import inertial_curve

TITLE = "The single exponential as the over-damped limit"
FINDING = "An over-damped run near the fixed point is one exponential, with the predicted plateau and time"

# What prediction and measurement are both told.

ONE, STEPS, REWARD = {"units": "1"}, {"units": "steps"}, {"units": "reward"}
SHARE = ONE | {"long_name": "(R - R_0)/(R_inf - R_0)"}
FINE = 2401
"""Points in time at which the distance to the exponential is looked for."""


def learning_rates(setting: Setting) -> np.ndarray:
    span = setting.damping.learning_rate
    return np.geomspace(span.start, span.stop, span.num)


def logged_times(setting: Setting) -> np.ndarray:
    """Logged times in units of tau."""
    return np.linspace(0.0, setting.damping.duration, setting.damping.points)


def distance(curves: np.ndarray, gone: np.ndarray) -> np.ndarray:
    return np.max(np.abs(curves + np.expm1(-gone)), axis=1)


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Closed form, step-by-step form and limit near the fixed point; the bent curve of the family away from it."""
    damping, sizes = setting.damping, setting.sizes
    rates, gone = learning_rates(setting), logged_times(setting)
    stiffness = size_family.member(1.0, 0.0, 1.0, setting.kl_weight).stiffness
    tau = np.array([size_family.time_constant(stiffness, rate, damping.momentum) for rate in rates])
    osc = [theory.oscillator(rate, damping.momentum, stiffness, mass="symmetric") for rate in rates]
    zeta = np.array([one.damping_ratio for one in osc])
    length = int(np.ceil(damping.duration * tau.max()))
    walk = jax.vmap(lambda kappa: discrete_response(length, kappa, damping.momentum))
    walked = 1 - np.asarray(walk(rates * stiffness))

    def closed_form(at: np.ndarray) -> np.ndarray:
        return np.stack([theory.response(one, at * time, 0.0, 1.0) for one, time in zip(osc, tau, strict=True)])

    exact = read_at(walked, np.outer(tau, gone))
    fine = np.linspace(0.0, damping.duration, FINE)
    fit = np.array([nearest_exponential(gone, curve) for curve in exact])
    noise = damping.noise**2
    size = np.array(sizes.size)
    slowest = [size_family.member(one, sizes.exponent, 1.0, setting.kl_weight).stiffness for one in size]
    times = np.array([size_family.time_constant(one, sizes.learning_rate, sizes.momentum) for one in slowest])
    drift = theory.BinarySignal(theory.GroupLaw("dr_grpo"), (1.0, 0.0))
    logged = np.linspace(0.0, sizes.duration * times[0], sizes.points)

    def force(gap: float) -> float:
        return float(theory.gap_drift(np.array(gap), drift, 0.0, setting.kl_weight))

    gap = inertial_curve(force, 0.0, logged, sizes.learning_rate, sizes.momentum)
    bent = nearest_exponential(logged / times[0], 1 / (1 + np.exp(-gap)))
    along, family = ("learning_rate",), ("size",)
    return xarray.Dataset(
        {
            "closed_form": (("learning_rate", "gone"), closed_form(gone), SHARE),
            "step_by_step": (("learning_rate", "gone"), exact, ONE),
            "exponential": (("gone",), -np.expm1(-gone), ONE),
            "damping_ratio": (along, zeta, ONE),
            "distance": (along, distance(read_at(walked, np.outer(tau, fine)), fine), ONE),
            "distance_closed_form": (along, distance(closed_form(fine), fine), ONE),
            "distance_leading": (along, np.max(beyond_exponential(zeta, fine), axis=1), ONE),
            "plateau": ((), 1.0, ONE),
            "time": ((), 1.0, ONE | {"long_name": "time scale over (1 - mu)/(eta K)"}),
            "fitted_plateau": (along, fit[:, 0], ONE),
            "fitted_time": (along, fit[:, 1], ONE),
            "r_squared": (along, 1 - (fit[:, 2] + noise) / (exact.var(axis=1) + noise), ONE),
            "inverse_stiffness": (family, times, STEPS),
            "apparent_time": (family, bent[1] * times, STEPS),
            "bending": ((), bent[1], ONE | {"long_name": "fitted over inverse stiffness, from the uniform policy"}),
            "fixed_point": ((), size_family.member(1.0, 0.0, 1.0, setting.kl_weight).probability, REWARD),
            "exponent": ((), sizes.exponent, ONE),
        },
        {"learning_rate": rates, "gone": gone, "size": size},
    )


# Measurement: simulation alone.

LAW = "single_exponential"


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The same from runs of the mean update and fits of noisy points on them."""
    near = lab.keep("near", lambda: _near_the_fixed_point(setting))
    return near.merge(lab.keep("family", lambda: _family(setting)))


def _near_the_fixed_point(setting: Setting) -> xarray.Dataset:
    damping, gone, rates = setting.damping, logged_times(setting), learning_rates(setting)
    learner = Learner(two_arm((1.0, 0.0)), advantage=DrGRPO())
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    stiffness = detectors.measure_stiffness(learner, "mean_field", setting.kl_weight, point).largest
    tau = (1 - damping.momentum) / (rates * stiffness)
    start = point.rest + damping.displacement * np.array([0.5, -0.5])
    steps = int(np.ceil(damping.duration * tau.max()))
    reward = mean_curves(learner, Hyper(rates, damping.momentum, 1, setting.kl_weight), steps=steps, initial=start)
    relative = (reward - reward[:, :1]) / (point.expected_reward - reward[:, :1])
    fine = np.linspace(0.0, damping.duration, FINE)
    curves = read_at(relative, np.outer(tau, gone))
    noise = np.random.default_rng(damping.seed).normal(0, damping.noise, (len(rates), damping.repeats, len(gone)))
    fits = [_fits(gone, curve + noisy) for curve, noisy in zip(curves, noise, strict=True)]
    plateau, time = (np.stack([one[i] for one in fits]) for i in (0, 1))
    along = ("learning_rate",)
    values = {
        "curve": (("learning_rate", "gone"), curves, ONE),
        "distance": (along, distance(read_at(relative, np.outer(tau, fine)), fine), ONE),
        "fitted_plateau": (along, np.median(plateau, axis=1), ONE),
        "fitted_time": (along, np.median(time, axis=1), ONE),
        "fitted_time_low": (along, np.quantile(time, 0.05, axis=1), ONE),
        "fitted_time_high": (along, np.quantile(time, 0.95, axis=1), ONE),
        "r_squared": (along, np.array([np.median(one[2]) for one in fits]), ONE),
    }
    return xarray.Dataset(values, {"learning_rate": rates, "gone": gone})


def _family(setting: Setting) -> xarray.Dataset:
    """Logged rewards of every size: means of `answers` draws from the policy of the mean update, and their fits."""
    sizes, fits = setting.sizes, []
    rng = np.random.default_rng(sizes.seed)
    for size in sizes.size:
        scale = size**-sizes.exponent
        learner = Learner(two_arm((scale, 0.0), kind="fixed"), advantage=DrGRPO())
        point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight * scale)
        stiffness = detectors.measure_stiffness(learner, "mean_field", setting.kl_weight * scale, point).largest
        tau = (1 - sizes.momentum) / (sizes.learning_rate * stiffness)
        steps = int(np.ceil(sizes.duration * tau))
        hyper = Hyper(sizes.learning_rate, sizes.momentum, 1, setting.kl_weight * scale)
        reward = mean_curves(learner, hyper, steps=steps)
        logged = np.unique(np.linspace(0, steps, sizes.points).round().astype(int))
        success = reward[0, logged] / scale
        noisy = rng.binomial(sizes.answers, success, (sizes.repeats, logged.size)) / sizes.answers
        plateau, time, _ = _fits(logged.astype(float), noisy)
        fits.append([np.median(time), *np.quantile(time, (0.05, 0.95)), np.median(plateau)])
    names = ("time", "time_low", "time_high", "plateau")
    units = (STEPS, STEPS, STEPS, REWARD | {"long_name": "fitted plateau over the family's scale of rewards"})
    values = {
        f"family_{name}": (("size",), column, unit)
        for name, column, unit in zip(names, np.transpose(fits), units, strict=True)
    }
    slope = np.polyfit(np.log(sizes.size), np.log(np.transpose(fits)[0]), 1)[0]
    return xarray.Dataset(values | {"exponent": ((), slope, ONE)}, {"size": sizes.size})


def _fits(time: np.ndarray, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(plateau, time scale, R^2) of every noisy curve [C, T]."""
    laws = [fit_curve(time, one, (LAW,)).laws[LAW] for one in rewards]
    plateau, delay = (np.array([law.parameters[name].value for law in laws]) for name in ("plateau", "delay"))
    return plateau, delay, np.array([law.r_squared for law in laws])


# Numbers that the claims compare.


def over_damped(f: Results, name: str) -> float:
    """A fitted number in its own unit, farthest from 1 over the damping ratios from 2 up."""
    return farthest_from_one(f.measured[name].where(f.predicted.damping_ratio >= 2, drop=True), 1.0)


def family_error(f: Results) -> np.ndarray:
    """Relative standard error of the median time, from the 5 % and 95 % quantiles of nearly normal values."""
    m = f.measured
    spread = (m.family_time_high - m.family_time_low) / 3.29 / m.family_time
    return 1.2533 * spread.values / np.sqrt(f.setting.sizes.repeats)


def exponent_error(f: Results) -> float:
    """Standard error of the size exponent."""
    x = np.log(np.array(f.setting.sizes.size))
    return float(np.max(family_error(f)) / np.sqrt(np.sum((x - x.mean()) ** 2)))


# Picture.

SMALL = s.MEASURED | {"markersize": 3.2, "linewidth": 0.8}
SHADES = (s.VERMILION, s.ORANGE, s.GREEN, s.BLUE)


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        sheet.two_arms((1, 0)), "mean-only advantages; heavy ball, on-policy", kl_weight=setting.kl_weight
    )


def draw(figure: Figure, results: Results) -> None:
    """Four panels, two by two."""
    parts = (_draw_curves, _draw_distance, _draw_times, _draw_family)
    sheet.fill(figure, results, parts, height=4.2, across=2)


def _draw_curves(panel: Axes, results: Results) -> None:
    zeta, gone = results.predicted.damping_ratio.values, results.predicted.gone
    for place, (wanted, shade) in enumerate(zip(results.setting.damping.shown, SHADES, strict=True)):
        i = int(np.argmin(np.abs(np.log(zeta / wanted))))
        panel.plot(gone, results.predicted.closed_form[i], color=shade, linewidth=1.2)
        points = results.measured.curve[i][::3].where(gone[::3] <= 5)
        panel.plot(gone[::3], points, **s.MEASURED | {"color": shade, "markersize": 2.2})
        panel.text(5, 0.44 - 0.1 * place, rf"$\zeta$ = {zeta[i]:.2g}", color=shade, fontsize=6.5, ha="right")
    panel.plot(gone, results.predicted.exponential, **s.LAW)
    panel.text(5, 0.04, "- - exponential", fontsize=6.5, ha="right")
    panel.text(0.1, 1.48, "lines: predicted\ncircles: measured", fontsize=6.5, va="top")
    panel.set(xlabel=r"time / $\tau$", ylabel="share of the gain", xlim=(0, 5), ylim=(0, 1.5))


def _draw_distance(panel: Axes, results: Results) -> None:
    zeta = results.predicted.damping_ratio
    panel.plot(zeta[zeta > 1.3], results.predicted.distance_leading[zeta > 1.3], **s.LAW)
    panel.plot(zeta, results.predicted.distance_closed_form, **s.EXACT)
    panel.plot(zeta, results.measured.distance, **SMALL)
    panel.set(yscale="log", ylabel="distance to exponential / gain", ylim=(None, 1))
    panel.text(1.5, 0.13, "closed form", fontsize=6.5, color=s.BLUE)
    sheet.small_note(panel, 0.05, 0.08, "- - leading order")
    _damping_axis(panel)


def _draw_times(panel: Axes, results: Results) -> None:
    zeta, m = results.predicted.damping_ratio, results.measured
    error = [m.fitted_time - m.fitted_time_low, m.fitted_time_high - m.fitted_time]
    panel.axhline(1.0, **s.LAW)
    panel.plot(zeta, results.predicted.fitted_time, **s.EXACT)
    panel.errorbar(zeta, m.fitted_time, error, **(SMALL | {"clip_on": True}))
    panel.set(ylim=(0.6, 4), ylabel=r"fitted time / $\tau$")
    quality = f"R² = {float(m.r_squared.min()):.2f} or more\nat every $\\zeta$"
    sheet.small_note(panel, 0.98, 0.9, quality, ha="right", va="top")
    _damping_axis(panel)


def _draw_family(panel: Axes, results: Results) -> None:
    p, m = results.predicted, results.measured
    error = [m.family_time - m.family_time_low, m.family_time_high - m.family_time]
    panel.plot(p.size, p.inverse_stiffness, **s.LAW)
    panel.plot(p.size, p.apparent_time, **s.EXACT)
    panel.errorbar(p.size, m.family_time, error, **SMALL)
    panel.set(xscale="log", yscale="log", xlabel=r"relative size $M$", ylabel="fitted time (steps)", ylim=(100, 2000))
    panel.minorticks_off()
    sheet.ticks_at(panel.yaxis, (100, 200, 500, 1000, 2000))
    panel.text(2.2, 640, "inverse\nstiffness", fontsize=6.5, ha="center")
    panel.text(100, 220, "bent by\nsoftmax", fontsize=6.5, ha="right", color=s.BLUE)


def _damping_axis(panel: Axes) -> None:
    panel.set(xscale="log", xlabel=r"damping ratio $\zeta$")
    sheet.ticks_at(panel.xaxis, [one for one in (0.25, 0.5, 1, 2, 4, 8) if one <= 1.02 * panel.dataLim.x1])


# Claims.

SOURCE = "arXiv 2606.30789; derived in bandit_lab/theory/oscillator.py"
DRAFTED = "the tolerance was written after a first draft"
CLAIMS = (
    # nonlinearity: the displacement of 10^-5 over the smallest distance, 0.0035
    Claim.ratio(
        "overdamped_limit.distance_exact",
        "The curve of the mean update leaves the exponential by what the step-by-step form says, at any damping",
        "derived in bandit_lab/theory/oscillator.py",
        lambda d: d.distance,
        tolerance=1e-3,
        fails_if="the mean update near the fixed point were no heavy ball with this stiffness",
        post_hoc=DRAFTED,
    ),
    # relative error of order 1 - mu = 0.02 in the time of a step
    Claim.one(
        "overdamped_limit.distance_closed_form",
        "The closed form of the paper, continuous in time, gives the same distance",
        SOURCE,
        measured=lambda f: farthest_from_one(f.measured.distance, f.predicted.distance_closed_form),
        tolerance=0.03,
        fails_if="the error of continuous time were not of order 1 - mu",
        follows="overdamped_limit.distance_exact",
        post_hoc=DRAFTED,
    ),
    # 4 times the small quantity itself
    Claim(
        "overdamped_limit.leading_order",
        "At the largest damping ratio the distance is that of leading order, which tends to 1/(4 zeta^2) of the gain",
        "derived in experiments/overdamped_limit.py",
        predicted=lambda f: float(f.predicted.distance_leading[0]),
        measured=lambda f: float(f.measured.distance[0]),
        tolerance=lambda f: 1.0 / float(f.predicted.damping_ratio[0]) ** 2,
        relative=True,
        fails_if="1/(4 zeta^2) were not the leading order",
        follows="overdamped_limit.distance_exact",
        post_hoc=DRAFTED,
    ),
    # misfit 0.003, and 5 standard errors of a median of 100 plateaus known to 0.013
    Claim(
        "overdamped_limit.plateau",
        "Over-damped (zeta >= 2), near the fixed point: the fitted plateau is the fixed point",
        SOURCE,
        predicted=lambda f: float(f.predicted.plateau),
        measured=lambda f: over_damped(f, "fitted_plateau"),
        tolerance=0.012,
        unit="of the gain",
        fails_if="the fit of noisy points were biased by more than its stated misfit",
        post_hoc=DRAFTED,
        constant="the fixed point, in units of the gain",
    ),
    # misfit 0.03, and 5 standard errors of a median of 100 times known to 0.06
    Claim(
        "overdamped_limit.time_scale",
        "Over-damped (zeta >= 2), near the fixed point: the fitted time scale is (1 - mu)/(eta K)",
        SOURCE,
        predicted=lambda f: float(f.predicted.time),
        measured=lambda f: over_damped(f, "fitted_time"),
        tolerance=0.07,
        unit="(1 - mu)/(eta K)",
        fails_if="the fitted time were not the inverse stiffness",
        post_hoc=DRAFTED,
        constant="the inverse stiffness, its own unit",
    ),
    Claim(
        "overdamped_limit.bending",
        "From the uniform policy the fitted time scale is shorter than the inverse stiffness: softmax bends the curve",
        "shared/theory/two_arm.py, slow_start.py",
        predicted=lambda f: float(f.predicted.bending),
        measured=lambda f: float(np.median(f.measured.family_time / f.predicted.inverse_stiffness)),
        tolerance=lambda f: 5 * float(np.max(family_error(f))),
        relative=True,
        unit="(1 - mu)/(eta K)",
        fails_if="the fit read another time off the exact bent curve",
        post_hoc=DRAFTED,
    ),
    Claim.same(
        "overdamped_limit.size_exponent",
        "Fitted times over a family with stiffness ~ M^-0.3 grow with the curvature's exponent, bent curve or not",
        "arXiv 2606.30789; derived in shared/theory/size_family.py",
        lambda d: d.exponent,
        tolerance=lambda f: 5 * exponent_error(f),
        fails_if="bending or noise changed the times of some sizes more than of others",
        post_hoc=DRAFTED,
    ),
    # misfit 0.002; 5 standard errors of a median of 40 plateaus known to 0.008
    Claim(
        "overdamped_limit.family_plateau",
        "The fitted plateau of every size is the fixed point's reward, over the family's scale of rewards",
        SOURCE,
        predicted=lambda f: float(f.predicted.fixed_point),
        measured=lambda f: (
            float(f.predicted.fixed_point) * farthest_from_one(f.measured.family_plateau, f.predicted.fixed_point)
        ),
        tolerance=0.01,
        unit="reward",
        fails_if="the fit of bent curves missed the plateau of one size",
        post_hoc=DRAFTED,
    ),
    # spread of R^2 over curves 0.005; the fit weighs neighbours as correlated, not as white noise
    Claim.same(
        "overdamped_limit.r_squared_is_blind",
        "An oscillation of damping ratio 0.25, logged to 6 (1 - mu)/(eta K), is fitted by the exponential too",
        "derived in experiments/overdamped_limit.py",
        lambda d: d.r_squared[-1],
        tolerance=0.02,
        unit="R^2",
        fails_if="a fit of the exponential showed an oscillation in its R^2",
        post_hoc=DRAFTED,
    ),
)

"""A slow start: inertia or the geometry of softmax, and can a good fit tell?

Prediction (written before the run). Inertia delays heavy ball by d = mu/(1 - mu) steps under a constant gradient, by
d (1 + ln(F/F_0)) steps where the force grows from F_0 to F, at any learning rate; the geometric slow start is a
function of t eta/(1 - mu) alone: sinh(x/2) = sinh(x_0/2) + t eta/(2 (1 - mu)) (shared/theory/slow_start.py,
two_arm.py). A sweep of mu at fixed eta/(1 - mu) therefore separates them. A fit does not: the oscillator of arXiv
2606.30789 comes so near to a softmax curve without any inertia (mean squared misfit m by least squares) that with noise
of variance v over n points R^2 = 1 - (m + v (1 - 4/n))/(variance of the curve + v), and the true law wins by
n ln(1 + m/v) in AICc (derived here; both laws have as many parameters; an upper bound where m is not small, because the
fit may take misfit for correlated noise). Setting: experiments/slow_start.yaml. Measured: runs of the mean update;
the fits of grpo_clinic.readers on points that are means of B answers each. Drawn: the sweep; delays; R^2; AICc.
"""

import jax.numpy as jnp
import numpy as np
import xarray
from grpo_clinic.fitting import SHAPES, fit_curve
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import minimize

from bandit_lab import measure as detectors
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import DrGRPO, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import crossing, farthest_from_one
from experiments.shared import sheet
from experiments.shared.mean_curves import mean_curves
from experiments.shared.theory.release import discrete_response
from experiments.shared.theory.slow_start import half_success_delay, inertial_delay, reaching_delay, standardised_curve
from experiments.shared.theory.two_arm import softmax_law

TITLE = "Slow start: inertia against softmax geometry"
FINDING = "A slow start needs no inertia: softmax makes one, and a good fit of the oscillator does not show it"

# What prediction and measurement are both told.

ONE, STEPS, FLOW = {"units": "1"}, {"units": "steps"}, {"units": "logits^2 per reward"}
GOOD = 0.91
SHOWN = 121


def logged(steps: int, points: int) -> np.ndarray:
    return np.linspace(0, steps, points).round().astype(int)


def origins(curves: Setting) -> list[str]:
    """Softmax curves without inertia by their initial gap, and the one with inertia and without geometry."""
    return [*curves.start_gap, "inertia"]


def rival_law(origin: str) -> str:
    """The law that is wrong for a curve of this origin."""
    return "softmax_law" if origin == "inertia" else "oscillator"


def coordinates(setting: Setting) -> dict[str, list]:
    sweep, curves = setting.sweep, setting.curves
    names = origins(curves)
    return {"rate": sweep.rate, "momentum": sweep.momentum, "origin": names, "answers": curves.answers}


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Delays of the sweep, and how far either law is from the other's curve."""
    sweep, curves = setting.sweep, setting.curves
    half = 2 * np.sinh(-sweep.start_gap / 2)
    growth = np.cosh(sweep.start_gap / 2)
    gone = np.linspace(0.0, sweep.duration * half, SHOWN)
    start = sweep.start_gap
    drawn = [standardised_curve(start, gone / sweep.shown, sweep.shown, mu) for mu in sweep.momentum]
    delay = [[half_success_delay(start, rate, mu) for mu in sweep.momentum] for rate in sweep.rate]
    leading = np.array([reaching_delay(mu, growth) for mu in sweep.momentum])
    answers = np.array(curves.answers)
    time = np.linspace(0.0, 1.0, curves.points)
    exact = [_softmax_curve(curves, curves.start_gap[name], time) for name in curves.start_gap]
    exact.append(_inertia_curve(curves))
    nearest = [_nearest(rival_law(name), time, curve) for name, curve in zip(origins(curves), exact, strict=True)]
    damping = [read[1].get("damping_ratio", curves.damping_ratio) for read in nearest]
    misfit, variance = np.array([one[0] for one in nearest])[:, None], np.array([one.var() for one in exact])[:, None]
    noise = np.array([np.mean(one * (1 - one)) / answers for one in exact])
    r_squared = 1 - (misfit + noise * (1 - 4 / curves.points)) / (variance + noise)
    fitted = ("origin", "answers")
    return xarray.Dataset(
        {
            "success": (("momentum", "gone"), np.array(drawn), ONE),
            "geometric_time": ((), half, FLOW),
            "growth_of_force": ((), growth, ONE),
            "delay": (("rate", "momentum"), np.array(delay), STEPS),
            "delay_leading": (("momentum",), leading, STEPS),
            "delay_constant": (("momentum",), np.array([inertial_delay(mu) for mu in sweep.momentum]), STEPS),
            "delay_slope": ((), 1 + np.log(growth), ONE),
            "misfit": (("origin",), misfit[:, 0], ONE | {"long_name": "mean squared distance of the rival law"}),
            "rival_r_squared": (fitted, r_squared, ONE),
            "aicc_gain": (fitted, curves.points * np.log1p(misfit / noise), {"units": "nats, times 2"}),
            "share_good": (fitted, np.where(r_squared > GOOD, 1.0, 0.0), ONE),
            "read_damping_ratio": (("origin",), np.array(damping), ONE),
        },
        coordinates(setting) | {"gone": gone},
    )


def _softmax_curve(curves: Setting, gap: float, time: np.ndarray) -> np.ndarray:
    start = np.sinh(gap / 2)
    return np.asarray(softmax_law(jnp.asarray(time), 0.0, 1.0, start, curves.end - start))


def _inertia_curve(curves: Setting) -> np.ndarray:
    low, high = curves.span
    kappa = curves.learning_rate_times_stiffness
    length = int(curves.duration * (1 - curves.momentum) / kappa)
    left = np.asarray(discrete_response(length, kappa, curves.momentum))
    return high - (high - low) * left[logged(length, curves.points)]


def _nearest(law: str, time: np.ndarray, curve: np.ndarray) -> tuple[float, dict[str, float]]:
    """(mean squared distance, parameters) of the law's curve that is nearest to a noise-free one."""
    shape = SHAPES[law]
    low, high = shape.bounds(time)

    def distance(theta: np.ndarray) -> float:
        rising = shape.growth(time, np.clip(theta, low, high)[None, :])
        design = np.stack((np.ones_like(rising), rising), axis=-1)
        return float(np.mean((curve - design @ np.linalg.lstsq(design, curve, rcond=None)[0]) ** 2))

    start = min(shape.grid(time), key=distance)
    best = minimize(distance, start, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-12})
    theta = np.clip(best.x, low, high)
    return distance(theta), {name: float(value) for name, value in shape.meaning(theta).items()}


# Measurement: simulation alone.

LAWS = ("softmax_law", "oscillator")
CLEAR = 4.0


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The sweep of momentum, and both laws fitted to noisy curves of both origins."""
    sweep = lab.keep("sweep", lambda: _sweep(setting))
    return sweep.merge(lab.keep("fits", lambda: _fits(setting)))


def _sweep(setting: Setting) -> xarray.Dataset:
    sweep = setting.sweep
    half = -0.5 * sweep.start_gap
    learner = Learner(two_arm((1.0, 0.0), initial_logits=(-half, half)))
    times, shown = np.empty((len(sweep.rate), len(sweep.momentum))), None
    for row, rate in enumerate(sweep.rate):
        steps = int(np.ceil(sweep.duration * 2 * np.sinh(half) / rate))
        momentum = np.array(sweep.momentum)
        success = mean_curves(learner, Hyper(rate * (1 - momentum), momentum, 1, 0.0), steps=steps)
        times[row] = [crossing(np.arange(steps + 1), curve, 0.5) for curve in success]
        if rate == sweep.shown:
            shown = success[:, np.linspace(0, steps, SHOWN).round().astype(int)]
    gone = np.linspace(0.0, sweep.duration * 2 * np.sinh(half), SHOWN)
    values = {
        "half_time": (("rate", "momentum"), times, STEPS),
        "delay": (("rate", "momentum"), times - times[:, :1], STEPS),
        "success": (("momentum", "gone"), shown, ONE),
    }
    return xarray.Dataset(values, {"rate": sweep.rate, "momentum": sweep.momentum, "gone": gone})


def _fits(setting: Setting) -> xarray.Dataset:
    curves = setting.curves
    rng = np.random.default_rng(curves.seed)
    time = np.linspace(0.0, 1.0, curves.points)
    exact = [_run_without_inertia(curves, curves.start_gap[name]) for name in curves.start_gap]
    exact.append(_run_with_inertia(curves))
    rows = []
    for origin, curve in zip(origins(curves), exact, strict=True):
        rival = rival_law(origin)
        law = LAWS[1 - LAWS.index(rival)]
        for answers in curves.answers:
            noisy = rng.binomial(answers, curve, (curves.repeats, curves.points)) / answers
            fits = [fit_curve(time, one, LAWS).laws for one in noisy]
            squared = np.array([one[rival].r_squared for one in fits])
            gain = np.array([one[rival].aicc - one[law].aicc for one in fits])
            damping = np.median([one["oscillator"].parameters["damping_ratio"].value for one in fits])
            ends = [*np.quantile(squared, (0.5, 0.05, 0.95)), *np.quantile(gain, (0.5, 0.05, 0.95))]
            rows.append([*ends, np.mean(squared >= GOOD), np.mean(gain > CLEAR), np.mean(gain < -CLEAR), damping])
    names = ("rival_r_squared", "r_squared_low", "r_squared_high", "aicc_gain", "gain_low", "gain_high")
    shares = ("share_good", "clearly_right", "clearly_wrong", "read_damping_ratio")
    table = np.array(rows).reshape(len(exact), len(curves.answers), -1)
    values = {name: (("origin", "answers"), table[..., i], ONE) for i, name in enumerate((*names, *shares))}
    return xarray.Dataset(values, coordinates(setting))


def _run_without_inertia(curves: Setting, gap: float) -> np.ndarray:
    """Success at the logged points: standardised advantage, mu = 0, small learning rate."""
    rate, half = curves.rate, -0.5 * gap
    learner = Learner(two_arm((1.0, 0.0), initial_logits=(-half, half)))
    steps = round(2 * (np.sinh(half) + curves.end) / rate)
    return mean_curves(learner, Hyper(rate, 0.0, 1, 0.0), steps=steps)[0, logged(steps, curves.points)]


def _run_with_inertia(curves: Setting) -> np.ndarray:
    """Success at the logged points: a small displacement from the fixed point, drawn out over the span."""
    learner = Learner(two_arm((1.0, 0.0)), advantage=DrGRPO())
    point = detectors.find_fixed_point(learner, "mean_field", 1.0)
    stiffness = detectors.measure_stiffness(learner, "mean_field", 1.0, point).largest
    kappa = curves.learning_rate_times_stiffness
    steps = int(curves.duration * (1 - curves.momentum) / kappa)
    start = point.rest + 1e-5 * np.array([-0.5, 0.5])
    hyper = Hyper(kappa / stiffness, curves.momentum, 1, 1.0)
    reward = mean_curves(learner, hyper, steps=steps, initial=start)[0]
    low, high = curves.span
    gain = (reward - reward[0]) / (point.expected_reward - reward[0])
    return (low + (high - low) * gain)[logged(steps, curves.points)]


# Picture.

SHADE = (s.BLUE, s.GREEN, s.VERMILION)
SHADES = (s.BLACK, s.BLUE, s.GREEN, s.ORANGE, s.VERMILION)
IN_FRAME = (14, 29)
SMALL = s.MEASURED | {"markersize": 3.2, "linewidth": 0.8}


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        sheet.two_arms((1, 0)),
        "GRPO with std, no KL (inertia: mean only)",
        "heavy ball, on-policy",
        kl_weight=1,
    )


def draw(figure: Figure, results: Results) -> None:
    """Four panels, two by two."""
    parts = (_draw_sweep, _draw_delays, _draw_r_squared, _draw_gain)
    sheet.fill(figure, results, parts, height=4.3, across=2)


def _draw_sweep(panel: Axes, results: Results) -> None:
    gone = results.predicted.gone
    for place, (mu, shade) in enumerate(zip(results.predicted.momentum.values, SHADES, strict=False)):
        panel.plot(gone, results.predicted.success.sel(momentum=mu), color=shade, linewidth=1.2)
        points = results.measured.success.sel(momentum=mu)[::3]
        points = points.where((gone[::3] >= IN_FRAME[0]) & (gone[::3] <= IN_FRAME[1]))
        panel.plot(gone[::3], points, **s.MEASURED | {"color": shade, "markersize": 2.2})
        panel.text(28.5, 0.42 - 0.09 * place, rf"$\mu$ = {mu:g}", color=shade, fontsize=6.5, ha="right")
    sheet.small_note(panel, 0.015, 0.98, "lines:\npredicted\ncircles:\nmeasured", va="top")
    xlabel = "$t\\,\\eta/(1-\\mu)$ (" + s.RATE_UNIT.replace(" ", "\n", 1) + ")"
    panel.set(xlabel=xlabel, ylabel="success", xlim=IN_FRAME, ylim=(0, 1))


def _draw_delays(panel: Axes, results: Results) -> None:
    d = results.predicted.delay_constant
    panel.plot(d, d, color=s.GREY, linewidth=0.9)
    panel.plot(d, results.predicted.delay_leading, **s.LAW)
    for place, (rate, shade) in enumerate(zip(results.predicted.rate.values, (s.BLUE, s.VERMILION), strict=True)):
        panel.plot(d, results.predicted.delay.sel(rate=rate), color=shade, linewidth=1.2)
        panel.plot(d, results.measured.delay.sel(rate=rate), **(SMALL | {"color": shade}))
        text = rf"$\eta/(1-\mu)$ = {rate:g}"
        sheet.small_note(panel, 0.03, 0.82 - 0.09 * place, text, color=shade)
    unit = "(" + s.RATE_UNIT.replace(" unit", "\nunit") + ")"
    sheet.small_note(panel, 0.03, 0.71, unit, va="top")
    sheet.small_note(panel, 0.03, 0.91, "- - leading order")
    panel.text(19.5, 3, "constant force", color=s.GREY, fontsize=6.5, ha="right")
    panel.set(xlabel=r"$\mu/(1-\mu)$ (steps)", ylabel="delay (steps)", xlim=(0, 20), ylim=(0, 70))


def _draw_r_squared(panel: Axes, results: Results) -> None:
    panel.axhline(GOOD, color=s.GREY, linewidth=0.9)
    m = results.measured
    _by_answers(panel, results, "rival_r_squared", m.r_squared_low, m.r_squared_high)
    sheet.small_note(panel, 0.98, 0.04, "circles: median\nbars: 90 %", ha="right")
    panel.set(ylabel=r"$R^2$ of the wrong law", ylim=(0.7, 1))


def _draw_gain(panel: Axes, results: Results) -> None:
    panel.axhline(0, color=s.GREY, linewidth=0.9)
    m = results.measured
    _by_answers(panel, results, "aicc_gain", m.gain_low, m.gain_high)
    panel.set(ylabel="AICc, wrong law less true", ylim=(-10, 60))
    names = ("softmax from 12 %", "softmax from 27 %", "inertia, no softmax")
    for place, (name, shade) in enumerate(zip(names, SHADE, strict=True)):
        sheet.small_note(panel, 0.17, 0.93 - 0.09 * place, name, color=shade)


def _by_answers(panel: Axes, results: Results, name: str, low: xarray.DataArray, high: xarray.DataArray) -> None:
    """Predicted lines and measured medians with 90 % ranges over the answers per point, one colour per origin."""
    answers = results.predicted.answers
    for place, shade in enumerate(SHADE):
        middle = results.measured[name][place]
        panel.plot(answers, results.predicted[name][place], color=shade, linewidth=1.2)
        shifted = answers * 1.08 ** (place - 1)
        error = [middle - low[place], high[place] - middle]
        panel.errorbar(shifted, middle, error, **(SMALL | {"color": shade, "clip_on": True}))
    panel.set(xscale="log", xlabel="answers per point")
    sheet.ticks_at(panel.xaxis, [one for one in (4, 16, 64, 256, 1024) if one <= float(answers.max())])


# Claims.

DELAY = "derived in shared/theory/slow_start.py"
FIT = "derived in experiments/slow_start.py"
DRAFTED = "the tolerance was written after a first draft"
CLAIMS = (
    # Euler steps: half a step times the logarithm of the growth of the force, in 500 steps
    Claim(
        "slow_start.geometric_time",
        "Without momentum success reaches 1/2 at the same t eta/(1 - mu), at any learning rate",
        "derived in shared/theory/two_arm.py",
        predicted=lambda f: float(f.predicted.geometric_time),
        measured=lambda f: float((f.measured.half_time[:, 0] * f.measured.rate).max()),
        tolerance=0.005,
        relative=True,
        fails_if="finite steps mattered, or the flow of the gap were another",
        unit="logits^2 per reward",
    ),
    # next order: mu/(1 - mu) = 1 step times the growth rate of the force, below 0.02 per step
    Claim(
        "slow_start.inertial_delay",
        "At fixed eta/(1 - mu) momentum delays that by (1 + ln(growth of force)) mu/(1 - mu) steps at any rate",
        DELAY,
        predicted=lambda f: float(f.predicted.delay_slope),
        measured=lambda f: (
            float(f.predicted.delay_slope) * farthest_from_one(f.measured.delay[:, 1], f.predicted.delay_leading[1])
        ),
        tolerance=0.02,
        relative=True,
        unit="mu/(1 - mu) steps",
        fails_if="the delay were mu/(1 - mu) without the logarithm, or depended on the learning rate",
    ),
    # finite steps: of the order of the growth rate of the force squared, per step
    Claim.ratio(
        "slow_start.delay_exact",
        "The second-order flow gives the delay at every momentum up to 0.95 and both learning rates",
        DELAY,
        lambda d: d.delay[:, 1:],
        tolerance=0.01,
        fails_if="the second-order flow missed the delay of one momentum",
    ),
    # 5 standard errors of a median of 30 at spread 0.03
    Claim.same(
        "slow_start.r_squared",
        "Median R^2 of the oscillator on curves without inertia from 12 % success, 16 answers per point",
        FIT,
        lambda d: d.rival_r_squared.sel(answers=16)[0],
        tolerance=0.03,
        unit="R^2",
        fails_if="the oscillator did not come as near to softmax curves as computed",
        post_hoc=DRAFTED,
    ),
    # 3 of 30
    Claim.same(
        "slow_start.good_share",
        "Share of curves without inertia that the oscillator fits with R^2 >= 0.91, at 64 answers per point",
        "statement on R^2: arXiv 2606.30789; " + FIT,
        lambda d: d.share_good.sel(answers=64)[:2].min(),
        tolerance=0.1,
        fails_if="a good R^2 told the laws apart in more than 3 curves of 30",
        post_hoc=DRAFTED,
    ),
    # the fit weighs neighbours as correlated; 5 standard errors of a median known to 0.1 each
    Claim(
        "slow_start.damping_read",
        "Damping ratio that the oscillator reads off a curve without inertia that starts at 27 % success",
        FIT,
        predicted=lambda f: float(f.predicted.read_damping_ratio[1]),
        measured=lambda f: float(f.measured.read_damping_ratio.sel(answers=256)[1]),
        tolerance=0.15,
        relative=True,
        fails_if="fits of noisy curves read another damping than the nearest oscillator has",
        post_hoc=DRAFTED,
    ),
    # an upper bound by up to a fifth (misfit taken for noise), and a median's scatter: single curves scatter by 11,
    # so that its standard error is 1.8 for 60
    Claim.same(
        "slow_start.aicc_tells",
        "Median AICc by which the softmax law beats the oscillator on softmax curves from 12 %, 256 answers per point",
        FIT,
        lambda d: d.aicc_gain.sel(answers=256)[0],
        tolerance=0.33,
        relative=True,
        unit="AICc",
        fails_if="the fit took most of the misfit for correlated noise",
        post_hoc="the prediction was changed and changed back, and the tolerance written, after drafts had been seen",
    ),
)

"""Drawing of experiments/transition.py."""

from bandit_lab.study.figures.transition.problem import REGIMES
from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Found

COLOURS = (s.BLUE, s.VERMILION)


def draw(figure, found: Found, wide: bool) -> None:
    """Trajectories; damping ratio and frequency against learning rate and momentum."""
    figure.set_figheight(3.5 if wide else 4.8)
    layout = [["t", "dk", "dm"], ["t", "fk", "fm"]] if wide else [["t", "t"], ["dk", "dm"], ["fk", "fm"]]
    axes = figure.subplot_mosaic(layout, **({"width_ratios": (1.5, 1, 1)} if wide else {"height_ratios": (1.2, 1, 1)}))
    _draw_trajectories(axes["t"], found)
    for letter, sweep in (("k", "kappa"), ("m", "momentum")):
        for row, quantity in (("d", "damping_ratio"), ("f", "frequency")):
            _draw_sweep(axes[row + letter], found, quantity, sweep)
        axes["d" + letter].set(yscale="log", ylim=(0.04, 8))
        axes["d" + letter].tick_params(labelbottom=False)
        axes["f" + letter].set_ylim(0, 0.32)
        sheet.ticks_at(axes["d" + letter].yaxis, (0.1, 1))
    for panel in (axes["dm"], axes["fm"]):
        panel.tick_params(labelleft=False)
    axes["dk"].set_ylabel("damping ratio")
    axes["fk"].set_ylabel("frequency (rad/step)")
    axes["fk"].set_xlabel(r"$\eta K$ at $\mu$ = " + f"{found.setting.momentum:g}")
    axes["fm"].set_xlabel(r"$\mu$ at $\eta K$ = " + f"{found.setting.fixed_kappa:g}")
    axes["dk"].text(0.03, 0.06, "lag 0", color=COLOURS[0], fontsize=7, transform=axes["dk"].transAxes)
    axes["dk"].text(0.03, 0.22, "lag 4", color=COLOURS[1], fontsize=7, transform=axes["dk"].transAxes)
    text = {"fontsize": 7, "ha": "right", "va": "top", "transform": axes["dm"].transAxes}
    axes["dm"].text(0.97, 0.97, "dashed: predicted\nby the oscillator", **text)


def _draw_trajectories(panel, found: Found) -> None:
    every = slice(None, None, 3)
    for place, (regime, (label, colour)) in enumerate(REGIMES.items()):
        predicted, measured = (
            found.predicted.trajectory.sel(regime=regime),
            found.measured.trajectory.sel(regime=regime),
        )
        panel.plot(predicted.step, predicted, **s.EXACT | {"color": colour, "linewidth": 1.2})
        look = s.MEASURED | {"color": colour, "markersize": 2.6, "markeredgewidth": 0.7}
        panel.plot(measured.step[every], measured[every], **look)
        text = {"color": colour, "fontsize": 7, "ha": "right", "va": "top", "transform": panel.transAxes}
        panel.text(
            0.98, 0.98 - 0.085 * place, f"{label}, " + rf"$\eta K$ = {found.setting.trajectories[regime]:.2g}", **text
        )
    panel.axhline(0, color=s.GREY, linewidth=0.6, zorder=0)
    key = "lines: predicted exactly, circles: measured"
    panel.text(0.98, 0.03, key, fontsize=7, ha="right", transform=panel.transAxes)
    panel.set(xlabel="step", ylabel="displacement / first", xlim=(0, found.setting.steps), ylim=(-0.9, 1.35))


def _draw_sweep(panel, found: Found, quantity: str, sweep: str) -> None:
    name = f"{quantity}_{sweep}"
    for lag, colour in zip(found.setting.lags, COLOURS, strict=True):
        exact, law, measured = (
            one.sel(lag=lag)
            for one in (found.predicted[name], found.predicted[f"oscillator_{name}"], found.measured[name])
        )
        x = exact[sweep]
        panel.plot(x, law.where(law > 0), **s.LAW | {"color": colour, "linewidth": 0.9})
        panel.plot(x, exact.where(exact > 0), **s.EXACT | {"color": colour, "linewidth": 1.2})
        panel.plot(x, measured.where(measured > 0), **s.MEASURED | {"color": colour, "markersize": 2.8})
    if quantity == "damping_ratio":
        panel.axhline(1, color=s.GREY, linewidth=0.6, zorder=0)
    first, last = found.predicted[sweep].values[[0, -1]]
    if sweep == "kappa":
        panel.set(xscale="log", xlim=(first / 1.2, last * 1.2))
        sheet.ticks_at(panel.xaxis, (0.001, 0.01))
    else:
        panel.set_xlim(first - 0.03, 1)

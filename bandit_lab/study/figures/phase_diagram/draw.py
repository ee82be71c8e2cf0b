"""Drawing of experiments/phase_diagram.py."""

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Found

NAMES = {"refresh": "A: refresh", "lag": "B: constant lag", "pipeline": "C: pipeline"}
SHADES = (s.PURPLE, s.GREEN, s.BLUE, s.VERMILION)
BESIDE = (2.1, 1.2, 0.66)  # heights of the models' names beside their lines
TOP = 6.5  # of the ratios; model A at N = 1 is on-policy and lies above
COLOURS = {"refresh": s.BLUE, "lag": s.GREEN, "pipeline": s.VERMILION}


def draw(figure, found: Found, wide: bool) -> None:
    """Two columns: a diagram and the ratios of each model. One column: the diagram of A, the ratios of all."""
    models = found.setting.models if wide else found.setting.models[:1]
    figure.set_figheight(4.4)
    axes = figure.subplots(2, len(models), sharex=True, sharey="row", squeeze=False, height_ratios=(1.2, 1))
    for column, model in enumerate(models):
        _diagram(axes[0, column], found, model)
        for line in _by_momentum(found, model) if wide else _by_model(found):
            _ratio(axes[1, column], found, *line)
        axes[1, column].axhline(1.0, **s.LAW)
        axes[1, column].set(yscale="log", ylim=(0.6, TOP), xlabel=r"refresh interval $N$ (steps)")
        sheet.plain_log(axes[1, column].yaxis)
        sheet.ticks_at(axes[1, column].xaxis, sorted({1, 2, 4, 8, 16, 32, 64} & set(found.setting.refresh_interval)))
    figure.suptitle(s.lines(_trained(found), 1.15 * figure.get_figwidth()), fontsize=sheet.SMALLEST_TEXT)
    axes[0, 0].set_ylabel(f"learning rate $\\eta$\n({s.RATE_UNIT})")
    axes[1, 0].set_ylabel(r"threshold / law's $\eta$")
    axes[1, 0].text(
        0.97, 0.72, r"law: $K\eta N = 1 - \mu$", ha="right", transform=axes[1, 0].get_yaxis_transform(), fontsize=7
    )
    _name_regions(axes[0, 0])
    if wide:
        _key(axes[1, -2], _by_momentum(found, models[0]))
    else:
        axes[1, 0].set_title(rf"all models, $\mu$ = {found.setting.drawn_momentum:g}")
        for (label, colour, _), height in zip(_by_model(found), BESIDE, strict=True):
            axes[1, 0].text(3.2, height, label, color=colour, fontsize=7)


def _trained(found: Found) -> str:
    setting = found.setting
    arms = f"two arms, success probabilities {', '.join(f'{p:g}' for p in setting.rewards)}"
    return f"{arms}; GRPO with std; KL weight {setting.kl_weight:g}; heavy ball; drift at G = infinity"


def _diagram(panel, found: Found, model: str) -> None:
    """Learning rate against refresh interval: what happens where."""
    place = {"model": model, "momentum": found.setting.drawn_momentum}
    predicted, measured = found.predicted.sel(place), found.measured.sel(place)
    n = predicted.refresh_interval.values
    low, high = 0.4 * float(found.predicted.onset.sel(momentum=place["momentum"]).min()), 60.0
    panel.fill_between(n, low, predicted.onset, color=s.FILL[1], linewidth=0)
    panel.fill_between(n, predicted.onset, predicted.threshold, color=s.FILL[2], linewidth=0)
    panel.fill_between(n, predicted.threshold, high, color=s.FILL[3], linewidth=0)
    panel.plot(n, predicted.threshold, **s.EXACT)
    panel.plot(n, predicted.law, **s.LAW)
    panel.plot(n, measured.threshold, **s.MEASURED)
    panel.set(xscale="log", yscale="log", ylim=(low, high), xlim=(n[0], n[-1]))
    panel.set_title(rf"{NAMES[model]}, $\mu$ = {place['momentum']:g}")
    sheet.plain_log(panel.yaxis, (1.0,))


def _name_regions(panel) -> None:
    text = {"transform": panel.transAxes, "fontsize": 7}
    panel.text(0.97, 0.93, "unstable", ha="right", va="top", **text)
    panel.text(0.97, 0.83, "line: predicted, circles: measured", ha="right", va="top", color=s.BLUE, **text)
    panel.text(0.04, 0.52, "law", va="top", **text)
    panel.text(0.05, 0.32, "oscillates, decays", va="center", **text)
    panel.text(0.05, 0.09, "converges monotonically", va="center", **text)


def _by_momentum(found: Found, model: str) -> list[tuple[str, str, dict]]:
    """(label, colour, place) of the lines in a panel of one model."""
    momenta = found.setting.labelled_momenta
    return [(rf"$\mu$ = {mu:g}", c, {"model": model, "momentum": mu}) for mu, c in zip(momenta, SHADES, strict=True)]


def _by_model(found: Found) -> list[tuple[str, str, dict]]:
    mu = found.setting.drawn_momentum
    return [(NAMES[m], COLOURS[m], {"model": m, "momentum": mu}) for m in found.setting.models]


def _ratio(panel, found: Found, label: str, colour: str, place: dict) -> None:
    law = found.predicted.law.sel(place)
    n, measured = law.refresh_interval, (found.measured.threshold / law).sel(place)
    panel.plot(n, found.predicted.threshold.sel(place) / law, **s.EXACT | {"color": colour, "linewidth": 1.2})
    panel.plot(n, measured.where(measured < TOP), **s.MEASURED | {"color": colour, "markersize": 3.4})


def _key(panel, lines: list[tuple[str, str, dict]]) -> None:
    """Names of the lines, top right, in the order in which the lines lie at large N."""
    for row, (label, colour, _) in enumerate(lines):
        place = (0.97, 0.95 - 0.1 * row)
        panel.text(*place, label, color=colour, ha="right", va="top", fontsize=7, transform=panel.transAxes)

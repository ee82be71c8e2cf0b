"""Drawing of experiments/variants_map.py."""

import numpy as np

from bandit_lab.study.reproduce.experiment import Found

FILLS = ("#F6CDB9", "#FCEBC4", "#BFE0F5", "#F4F4F4")
MEANINGS = ("below the law", "up to 2 x law", "beyond 2 x law", "none seen")


def draw(figure, found: Found, wide: bool) -> None:
    """One table per staleness model: first unstable interval; the last: what G does to the mean curve."""
    from matplotlib.patches import Patch

    measured = found.measured
    names = list(measured.staleness.values)
    columns = 3 if wide else 2
    rows = -(-(len(names) + 1) // columns)
    panels = figure.subplots(rows, columns, squeeze=False)
    figure.set_figheight(0.6 + rows * (0.35 + 0.15 * measured.sizes["advantage"]) + 0.55)
    law = found.setting.law_interval
    for place, panel in enumerate(panels.ravel()):
        if place > len(names):
            panel.set_axis_off()
            continue
        if place < len(names):
            table = measured.first_interval.isel(staleness=place).transpose("advantage", "estimator").values
            code = np.select([np.isnan(table), table < law, table <= 2 * law], [3, 0, 1], 2)
            text = [["–" if np.isnan(x) else f"{x:g}" for x in row] for row in table]
            panel.set_title(names[place], fontsize=7)
        else:
            table = 100 * measured.curve_difference.values
            code = np.full(table.shape, 3)
            text = [["–" if np.isnan(x) else f"{x:.1f}" if x < 9.95 else f"{x:.0f}" for x in row] for row in table]
            size = found.setting.group_size
            title = f"$G$ = {size} against $G = \\infty$:\n" + rf"$100\,\max_t|J_{{{size}}} - J_\infty|$ (reward)"
            panel.set_title(title, fontsize=7)
        _fill(panel, code, text)
        panel.set_xticks(range(table.shape[1]), measured.estimator.values, rotation=90, fontsize=6.5)
        panel.set_yticks(range(table.shape[0]), measured.advantage.values, fontsize=6.5)
        if place + columns <= len(names):
            panel.set_xticklabels([])
        if place % columns:
            panel.set_yticklabels([])
    patches = [Patch(color=color, label=label) for color, label in zip(FILLS, MEANINGS, strict=True)]
    figure.legend(
        handles=patches,
        loc="outside upper center",
        ncols=4 if wide else 2,
        title=f"measured first unstable refresh interval\n(steps); the law: {law:g} steps",
    )


def _fill(panel, code: np.ndarray, text: list[list[str]]) -> None:
    from matplotlib.colors import ListedColormap

    panel.imshow(code, cmap=ListedColormap(FILLS), vmin=-0.5, vmax=3.5, aspect="auto")
    for (i, j), _ in np.ndenumerate(code):
        panel.text(j, i, text[i][j], ha="center", va="center", fontsize=6.5)
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)

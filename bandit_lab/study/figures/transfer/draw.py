"""Drawing of experiments/transfer.py."""

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Found


def draw(figure, found: Found, wide: bool) -> None:
    """Two panels, one per advantage: mean over the tasks at both group sizes."""
    panels = figure.subplots(1, 2, sharey=True)
    small, large = found.measured.group.values
    looks = {small: (s.VERMILION, "s"), large: (s.BLUE, "o")}
    for panel, name in zip(panels, found.measured.advantage.values, strict=True):
        for group, (color, marker) in looks.items():
            here = {"advantage": name, "group": group}
            line = found.predicted.held_out.sel(here).mean("task")
            panel.plot(line.time, line, color=color, linewidth=1.4, linestyle="-" if group == large else (0, (4, 2)))
            seen = found.measured.held_out.sel(here).mean("task")[2 if group == large else 0 :: 4]
            panel.plot(seen.time, seen, marker, color=color, markersize=3.4, markerfacecolor="white")
        panel.set(title=str(name), xlabel="steps")
    panels[0].set_ylabel("success on held-out tasks")
    text = {"ha": "right", "fontsize": 7, "transform": panels[1].transAxes}
    panels[0].text(0.97, 0.08, "lines: predicted\nmarkers: measured", **text | {"transform": panels[0].transAxes})
    panels[1].text(0.97, 0.2, f"G = {large} (circles)", color=s.BLUE, **text)
    panels[1].text(0.97, 0.08, f"G = {small} (squares)", color=s.VERMILION, **text)

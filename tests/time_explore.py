"""Milliseconds per frame of the page of `explore` while each slider is dragged, in headless Chromium.

    python tests/time_explore.py [ADDRESS ...]

For every address (what stands behind `#`) and control: the script's time in frames, and the time between frames on the
screen, 16.7 ms at 60 a second. Nothing is judged: a busy machine is slow. What is judged is the work, in tests/app.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from programs import CHROMIUM, NO_CHROMIUM

import bandit_lab as bl

ADDRESSES = (
    "",
    "model=lag",
    "model=pipeline",
    "estimator=ratio",
    "model=lag&estimator=ratio&interval=64",
    "model=pipeline&estimator=uncorrected&interval=64",
    "model=lag&interval=64&size=512&steps=3000&success=0.9,0.7,0.5,0.4,0.2,0.1",
)
CONTROLS = {
    "point": "#point circle:not(.ring)",
    "refresh interval": "#interval-slide",
    "learning rate": "#rate-slide",
    "momentum": "#momentum-slide",
    "KL weight": "#weight-slide",
    "success": "#arms tr:first-child input[type=range]",
}
MOVES, PAUSE = 60, 8
BETWEEN = """() => { globalThis.between = []; let last = performance.now(); const tick = () => {
  const now = performance.now(); between.push(now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick); }"""


def dragged(page, selector: str) -> tuple[list[float], list[float]]:
    """Frames' script and the time between frames, milliseconds, over one drag."""
    box = page.locator(selector).bounding_box()
    y, wide = box["y"] + box["height"] / 2, box["width"] > 50
    places = [box["x"] + box["width"] * (0.2 + 0.6 * i / MOVES) if wide else box["x"] + 9 + i for i in range(MOVES)]
    page.evaluate(BETWEEN)
    page.mouse.move(places[0], y)
    page.mouse.down()
    page.evaluate("explore.frames.length = between.length = 0")
    for i, x in enumerate(places):
        page.mouse.move(x, y if wide else y + i % 20)
        page.wait_for_timeout(PAUSE)
    found = page.evaluate("[explore.frames, between]")
    page.mouse.up()
    return found


def main() -> None:
    if CHROMIUM is None:
        sys.exit(NO_CHROMIUM)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "map.html"
        file.write_text(bl.explore().html, encoding="utf-8")
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        print(f"{'milliseconds':>30} {'script of a frame, median':>29} {'90 %':>11} {'longest':>8} {'between':>23}")
        for address in sys.argv[1:] or ADDRESSES:
            print(address or "as it opens")
            for name, selector in CONTROLS.items():
                page = browser.new_page(viewport={"width": 1280, "height": 1600})
                page.goto(f"{file.as_uri()}#{address}")
                page.wait_for_function("globalThis.explore && explore.frames.length > 0 && !explore.busy")
                frames, between = (sorted(one) for one in dragged(page, selector))
                page.close()
                if not frames:
                    print(f"{name:>30} {'no frame while it moved':>29}")
                    continue
                middle, most = statistics.median(frames), frames[int(0.9 * len(frames))]
                print(f"{name:>30} {middle:29.1f} {most:11.1f} {frames[-1]:8.1f} {statistics.median(between):23.1f}")
        browser.close()


if __name__ == "__main__":
    main()

"""Every page that a command writes, in headless Chromium: axe finds no fault, nothing is cut off, pictures are legible.

At the width of a desktop and of a phone, on a light and on a dark page.
"""

import itertools
import json
import os

import numpy as np
import pytest
from programs import CHROMIUM, NO_CHROMIUM

from bandit_lab.app.cli import main

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[browser]'")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe is not installed: pip install '.[browser]'"
)
pytestmark = [pytest.mark.nightly, pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)]

COMMANDS = {
    "explore": (["explore", "open=false"], "map.html"),
    "explore with a run": (["explore", "one.json", "open=false"], "map.html"),
    "diagnose": (["diagnose", "one.json"], "report/index.html"),
    "diagnose of two": (["diagnose", "one.json", "two.json"], "report/index.html"),
    "fit": (["fit", "one.json", "models=[sigmoid]"], "report/index.html"),
    "fit of two": (["fit", "one.json", "two.json", "models=[sigmoid]"], "report/index.html"),
    "advise": (["advise", "one.json"], "report/advice.html"),
    "watch": (["watch", "one.json", "for=0.05"], "page.html"),
}


def write_log(name: str, swing: float) -> None:
    step = np.arange(1, 201)
    noise = np.random.default_rng(0).normal(0, 0.02, step.size)
    reward = 0.5 + 0.3 * (1 - np.exp(-step / 20)) + swing * np.sin(step / 5) + noise
    rows = [
        {"step": int(n), "reward": float(r), "entropy": 1.0, "learning_rate": 1e-6}
        for n, r in zip(step, reward, strict=True)
    ]
    with open(name, "w", encoding="utf-8") as file:
        json.dump({"global_step": 200, "max_steps": 200, "log_history": rows}, file)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox does not run as root
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(name, browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_log("one.json", 0.0)
    write_log("two.json", 0.15)
    arguments, file = COMMANDS[name]
    assert main([*arguments, "run_dir=out"]) == 0
    for width, scheme in itertools.product((1280, 390), ("light", "dark")):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.goto((tmp_path / "out" / file).as_uri())
        page.wait_for_load_state("networkidle")
        assert [(one["id"], one["nodes"][0]["html"]) for one in axe.Axe().run(page).response["violations"]] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        narrowest = page.evaluate("Math.min(...[...document.images].map((one) => one.width / one.naturalWidth), 1)")
        assert narrowest > 0.5  # drawn at 130 dots per inch: letters of 8 points stay above 7 pixels
        page.close()


def test_a_fault_is_seen(browser):
    page = browser.new_page()
    page.set_content("<html lang=en><title>a</title><main><h1>a</h1><img src=''></main></html>")
    assert [one["id"] for one in axe.Axe().run(page).response["violations"]] == ["image-alt"]
    page.close()

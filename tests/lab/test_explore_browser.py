"""The page of `explore` in a real browser: headless Chromium, driven by Playwright, which downloads nothing here."""

import json
import os
import statistics

import pytest
from explore_pages import CONTRAST, RUN, START, SWEEP, point, reached, settled, state
from programs import CHROMIUM, NO_CHROMIUM

from bandit_lab.lab.explore import command
from bandit_lab.lab.explore.page import page as made_page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[browser]'")
pytestmark = [pytest.mark.nightly, pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox does not run as root
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The page as it is, and with a run and a sweep laid into it."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "plain.html").write_text(made_page({"start": START, "run": None, "sweep": None}), encoding="utf-8")
    (folder / "laid.html").write_text(made_page({"start": START, "run": RUN, "sweep": SWEEP}), encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, files):
    """Opens the page in a context of its own. Whatever it complains of, or asks the network for, fails the test."""
    contexts, complaints = [], []

    def open_it(name="plain", address="", **options):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: complaints.append(asked.url) if asked.url.startswith("http") else None)
        page.goto(f"file://{files}/{name}.html{address}")
        settled(page)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []


def test_the_page_is_one_small_file_that_says_what_predict_says(opened, files):
    assert (files / "plain.html").stat().st_size < 3_000_000
    page = opened()
    words = "stable: η is 2.3 times below the exact threshold; rings with a period of 55 steps; "
    assert page.inner_text("#verdict") == words + "the published law would call it unstable"
    assert page.locator("#plane path.region").count() == 3
    assert page.locator(".sample").count() == 5
    assert page.locator(".multiplier").count() == 2


DRAWN = """(panel) => {
  const line = document.querySelectorAll('#trajectory path.mean')[panel].getAttribute('d');
  return line.match(/[-\\d.]+ [-\\d.]+/g).map((pair) => Number(pair.split(' ')[1]));
}"""
"""Heights in the picture of the mean update's reward (panel 0) or entropy (panel 1)."""

FILLED = """() => {
  const boxes = [...document.querySelectorAll('#trajectory .rewards path')].map((one) => one.getBBox());
  const [low, high] = [Math.min(...boxes.map((b) => b.y)), Math.max(...boxes.map((b) => b.y + b.height))];
  return (high - low) / document.querySelector('#trajectory .frame').getBBox().height;
}"""
"""Share of the reward's picture, from below to above, that its lines take up."""


def swing(heights):
    return max(heights) - min(heights)


@pytest.mark.parametrize("model", ["refresh", "lag", "pipeline"])
def test_an_unstable_run_is_seen_to_grow_and_a_stable_one_to_die_out(opened, model):
    page = opened(address=f"#model={model}")
    exact = page.evaluate("explore.found().exact")
    for times, sign, word in [(1.3, 1, "a swing that grows"), (0.8, -1, "a swing that dies out")]:
        page.evaluate(f"location.hash = 'model={model}&rate={times * exact}'")
        reached(page, f"Math.abs(setting.rate / {exact} - {times}) < 1e-6")
        settled(page)
        for panel in (0, 1):
            heights = page.evaluate(DRAWN, panel)
            assert len(heights) == 301
            assert sign * (swing(heights[200:]) - swing(heights[:100])) > 0.3 * swing(heights[:100]), (times, panel)
        assert word in page.inner_text("#outcome")
        assert page.evaluate(FILLED) > 0.7  # the axis is that of what is drawn


def test_from_the_first_policy_it_is_said_that_the_run_sits_at_a_vertex(opened):
    page = opened(address="#rate=0.3&begin=policy")
    words = "The mean update sits at the best arm: reward 0.9, policy gone (entropy"
    assert page.inner_text("#outcome").startswith(words)
    page.select_option("#begin", "point")
    settled(page)
    assert "a swing that grows" in page.inner_text("#outcome")
    assert "begin=point" in page.evaluate("location.hash")


def test_the_point_is_dragged_by_the_mouse_and_the_address_holds_the_setting(opened):
    page = opened()
    x, y = point(page)
    page.mouse.move(x, y)
    page.mouse.down()
    for i in range(1, 21):
        page.mouse.move(x + 4 * i, y - 5 * i)
    page.mouse.up()
    after = state(page)
    assert after["interval"] > 8
    assert after["rate"] > 0.2
    assert page.inner_text("#verdict").startswith("unstable")
    again = opened(address=page.evaluate("location.hash"))
    assert state(again) == after
    page.evaluate("location.hash = 'model=lag&interval=3&rate=nonsense&momentum=7'")
    page.wait_for_function("explore.setting().model === 'lag'")
    assert (state(page)["interval"], state(page)["momentum"], state(page)["rate"]) == (3, 0.99, 0.1)


def test_a_notebook_has_the_page_in_a_frame(opened, files):
    """The page has no address there: complaints of the browser fail the test."""
    frame = command.Map((files / "plain.html").read_text(encoding="utf-8"))._repr_html_()
    (files / "notebook.html").write_text(f"<!doctype html><script>explore = {{frames: [1]}}</script>{frame}")
    inside = opened("notebook").frames[1]
    inside.wait_for_selector("#verdict:not(:empty)")
    inside.fill("#momentum", "0.5")
    inside.wait_for_function("explore.setting().momentum === 0.5 && !explore.busy")
    assert "μ = 0.5" in inside.inner_text("#setting-line")
    assert inside.locator("#copy-link").is_hidden()
    heights = "[document.documentElement.scrollHeight, innerHeight]"
    inside.wait_for_function("document.documentElement.scrollHeight <= innerHeight")  # no scrolling in a scroll
    assert inside.evaluate(heights)[1] > 1000


def test_a_drag_keeps_up_with_the_screen(opened, capsys):
    """Milliseconds of computing and drawing per frame. Printed; the bound leaves room for a busy machine."""
    for address in ("", "#model=lag", "#model=pipeline&estimator=ratio"):
        page = opened(address=address)
        x, y = point(page)
        page.mouse.move(x, y)
        page.mouse.down()
        page.evaluate("explore.frames.length = 0")
        for i in range(60):
            page.mouse.move(x + i, y + (i % 20) * 3)
            page.wait_for_timeout(5)
        frames = page.evaluate("explore.frames")
        page.mouse.up()
        with capsys.disabled():
            middle, worst = statistics.median(frames), max(frames)
            print(f"\n{address or 'start'}: {len(frames)} frames, median {middle:.1f} ms, longest {worst:.1f} ms")
        assert len(frames) > 10
        assert statistics.median(frames) < 50


CONTROLS = {
    "#interval": ("12", "interval", 12),
    "#rate": ("0.02", "rate", 0.02),
    "#momentum": ("0.5", "momentum", 0.5),
    "#weight": ("2", "weight", 2),
    "#arms tr:first-child input[data-list=success][type=number]": ("0.8", "success", [0.8, 0.1]),
    "#arms tr:first-child input[data-list=reference]": ("-1", "reference", [-1, 0]),
    "#arms tr:last-child input[data-list=initial]": ("1", "initial", [0, 1]),
}
CHOICES = {
    "#convention": ("nesterov", "convention", "nesterov"),
    "#estimator": ("ratio", "estimator", "ratio"),
    "#advantage": ("rloo", "advantage", "rloo"),
    "#size": ("Infinity", "size", "Infinity"),
    "#steps": ("100", "steps", 100),
    "#begin": ("policy", "begin", "policy"),
}


def test_every_control_works_by_mouse_and_keyboard(opened):
    page = opened()
    for selector, (text, name, value) in CONTROLS.items():
        page.fill(selector, text)
        page.locator(selector).blur()
        assert state(page)[name] == value, selector
    for selector, (option, name, value) in CHOICES.items():
        page.select_option(selector, option)
        assert state(page)[name] == value, selector
    for model in ("lag", "pipeline", "refresh"):
        page.click(f"input[value={model}]")
        assert state(page)["model"] == model
    for slider in page.locator("input[type=range]").all():
        before = state(page)
        slider.focus()
        page.keyboard.press("ArrowLeft")
        assert state(page) != before, slider.get_attribute("aria-label")
        before, box = state(page), slider.bounding_box()
        place = slider.evaluate("(one) => (one.value - one.min) / (one.max - one.min)")
        page.mouse.click(box["x"] + (0.75 if place < 0.5 else 0.25) * box["width"], box["y"] + box["height"] / 2)
        assert state(page) != before, slider.get_attribute("aria-label")
    page.click("#add-arm")
    assert (len(state(page)["success"]), state(page)["estimator"]) == (3, "frozen")
    page.select_option("#estimator", "uncorrected")
    settled(page)
    assert "do not share their directions" in page.inner_text("#verdict")
    page.click("#remove-arm")
    assert len(state(page)["success"]) == 2
    page.click("#copy-command")
    page.wait_for_function("document.getElementById('copied').textContent !== ''")
    page.click("#reset")
    assert state(page) == state(opened())


def test_the_keyboard_alone_reaches_everything_in_order(opened):
    page = opened()
    seen = []
    for _ in range(50):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate("document.activeElement.id || document.activeElement.getAttribute('aria-label') || ''")
        )
        if seen[-1] == "command":
            break
    wanted = [
        "point",
        "begin",
        "steps",
        "interval-slide",
        "interval",
        "rate-slide",
        "rate",
        "momentum-slide",
        "momentum",
        "weight-slide",
        "weight",
        "convention",
        "estimator",
        "advantage",
        "size",
        "add-arm",
        "copy-command",
        "copy-link",
        "reset",
        "command",
    ]
    assert [one for one in seen if one in wanted] == wanted
    page.focus("#point")
    for key, name, check in [
        ("ArrowRight", "interval", lambda new, old: new == old + 1),
        ("ArrowLeft", "interval", lambda new, old: new == old - 1),
        ("ArrowUp", "rate", lambda new, old: abs(new / old - 1.05) < 1e-3),
        ("Shift+ArrowDown", "rate", lambda new, old: abs(old / new - 1.01) < 1e-3),
        ("End", "interval", lambda new, old: new == 64),
        ("Home", "interval", lambda new, old: new == 1),
    ]:
        before = state(page)[name]
        page.keyboard.press(key)
        assert check(state(page)[name], before), key
    page.focus("input[value=refresh]")
    page.keyboard.press("ArrowRight")
    assert state(page)["model"] == "lag"


def test_fingers_move_the_point_on_a_phone(opened):
    page = opened(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    page.locator("#plane").scroll_into_view_if_needed()
    box = page.locator("#plane").bounding_box()
    page.touchscreen.tap(box["x"] + 0.8 * box["width"], box["y"] + 0.3 * box["height"])
    tapped = state(page)
    assert tapped["interval"] > 15
    session = page.context.new_cdp_session(page)
    x, y = point(page)
    for kind, places in [
        ("touchStart", [(x, y)]),
        *(("touchMove", [(x - 8 * i, y + 6 * i)]) for i in range(1, 12)),
        ("touchEnd", []),
    ]:
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in places]})
    after = state(page)
    assert after["interval"] < tapped["interval"]
    assert after["rate"] < tapped["rate"]
    page.wait_for_timeout(600)  # a tap right after a swipe only ends the swipe, in Chromium
    page.tap("input[value=pipeline]")
    reached(page, "setting.model === 'pipeline'")


def test_every_control_works_by_touch(opened):
    page = opened(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    for slider in page.locator("input[type=range]:visible").all():
        slider.scroll_into_view_if_needed()
        before, box = state(page), slider.bounding_box()
        whole = page.evaluate("JSON.stringify(explore.setting())")
        place = slider.evaluate("(one) => (one.value - one.min) / (one.max - one.min)")
        page.touchscreen.tap(box["x"] + (0.75 if place < 0.5 else 0.25) * box["width"], box["y"] + box["height"] / 2)
        reached(page, f"JSON.stringify(setting) !== {json.dumps(whole)}")
        assert state(page) != before, slider.get_attribute("aria-label")
    for selector, (text, name, _) in CONTROLS.items():
        page.tap(selector)
        page.locator(selector).press("Control+a")
        page.keyboard.type(text)
        reached(page, f"String(setting.{name}).includes('{text}')")
    for selector, (option, name, value) in CHOICES.items():
        page.tap(selector)
        page.keyboard.press("Escape")
        page.select_option(selector, option)
        assert state(page)[name] == value, selector
    page.tap("#reset")
    reached(page, "setting.interval === 8 && setting.success.length === 2")
    page.tap("#add-arm")
    reached(page, "setting.success.length === 3")
    page.tap("#remove-arm")
    reached(page, "setting.success.length === 2")
    page.tap("#copy-command")
    page.wait_for_function("document.getElementById('copied').textContent !== ''")


LINES = """() => Object.fromEntries(['law', 'exact', 'onset'].map((name) =>
  [name, document.querySelector(`#plane path.${name}`).getAttribute('d')]))"""


@pytest.mark.parametrize("address", ["#model=lag&estimator=ratio", "#model=pipeline&size=512&steps=3000"])
def test_a_slider_that_was_dragged_leaves_the_map_of_its_setting(opened, address):
    """While it moves the map is a sketch and may lag behind; once it rests, it is that of a page opened there."""
    page = opened(address=address)
    box = page.locator("#momentum-slide").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.2 * box["width"], y)
    page.mouse.down()
    for i in range(30):
        page.mouse.move(box["x"] + (0.2 + 0.02 * i) * box["width"], y)
        page.wait_for_timeout(8)
        assert page.locator("#plane path.region").count() > 0
    page.mouse.up()
    after, found = state(page), page.evaluate(LINES)
    again = opened(address=page.evaluate("location.hash"))
    assert state(again) == after
    assert again.evaluate(LINES) == found
    assert page.locator(".sample").count() == 5
    assert page.inner_text("#verdict") == again.inner_text("#verdict")


@pytest.mark.parametrize("address", ["", "#success=0.9,0.7,0.5,0.4,0.2,0.1", "#model=lag&estimator=ratio"])
def test_a_phone_and_a_resized_window_have_room_and_legible_letters(opened, address):
    page = opened(address=address)
    for width in (1280, 390, 320, 1024, 686):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(150)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        assert page.evaluate(CUT) == [], width
        sizes = page.evaluate("""[...document.querySelectorAll('#plane text, #trajectory text')].map(
            (one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)""")
        assert min(abs(size) for size in sizes if size) > 9, width


CUT = """() => [...document.querySelectorAll('main *, header *')].filter((one) => one.getClientRects().length
  && getComputedStyle(one).display !== 'inline' && one.clientWidth && !(one instanceof SVGElement)
  && one.id !== 'command' && !one.matches('.tables, .tables *') && one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.outerHTML.slice(0, 80))"""
"""Elements whose content is wider than they are."""


def test_the_point_waits_for_the_axes_of_a_resized_window(opened):
    """Also where the map before it is a sketch: the point was drawn on axes from 1 to 10."""
    page = opened(address="#model=lag&estimator=ratio")
    settled(page)
    ticks = page.evaluate("""async () => {
      const plane = document.getElementById('plane'), seen = [];
      const look = () => plane.querySelector('#point[transform]') && seen.push(plane.querySelectorAll('.tick').length);
      new MutationObserver(look).observe(plane, {attributes: true, childList: true, subtree: true});
      for (const width of [900, 800, 700]) {
        document.body.style.width = `${width}px`;
        dispatchEvent(new Event('resize'));
        await new Promise(requestAnimationFrame);
      }
      return seen;
    }""")
    assert ticks
    assert min(ticks) > 0


@pytest.mark.parametrize("arms", ["0.9,0.1", "0.9,0.7,0.5,0.4,0.2,0.1"])
def test_map_runs_and_controls_are_in_sight_together_and_controls_stay(opened, arms):
    page = opened(address=f"#success={arms}", viewport={"width": 1280, "height": 844})
    for name in ("plane", "trajectory"):
        box = page.locator(f"#{name}").bounding_box()
        assert 0 <= box["y"] <= box["y"] + box["height"] <= 844, name
    for scrolled in (0, 200, 500):
        page.mouse.wheel(0, scrolled)
        page.wait_for_timeout(100)
        for name in ("input[value=pipeline]", "#interval", "#rate", "#momentum", "#weight", "#size"):
            box = page.locator(name).bounding_box()
            assert 0 <= box["y"] <= box["y"] + box["height"] <= 844, (name, scrolled)


@pytest.mark.parametrize("width", [390, 686, 1280])
def test_the_map_stands_still_while_the_words_above_it_change(opened, width):
    page = opened(viewport={"width": width, "height": 844})
    tops = set()
    for rate in (0.01, 0.1, 0.3, 2):
        for begin in ("point", "policy"):
            page.evaluate(f"location.hash = 'rate={rate}&begin={begin}'")
            reached(page, f"setting.rate === {rate} && setting.begin === '{begin}'")
            settled(page)
            tops.add(page.locator("#plane").bounding_box()["y"])
    assert len(tops) == 1


CROSSED = """() => [...document.querySelectorAll('#plane .region-name')].filter((name) => {
  const box = name.getBBox();
  return ['law', 'exact', 'onset'].some((line) => {
    const path = document.querySelector(`#plane path.${line}`);
    return Array.from({length: 400}, (_, i) => path.getPointAtLength(path.getTotalLength() * i / 399)).some((p) =>
      p.x > box.x && p.x < box.x + box.width && p.y > box.y + 2 && p.y < box.y + box.height - 2);
  });
}).map((name) => name.textContent)"""
"""Names of regions through which a line goes."""


@pytest.mark.parametrize("width", [320, 390, 686, 1280])
def test_no_line_goes_through_the_name_of_a_region(opened, width):
    page = opened(viewport={"width": width, "height": 844})
    for model in ("refresh", "lag", "pipeline"):
        page.click(f"input[value={model}]")
        settled(page)
        assert page.evaluate(CROSSED) == [], model
        assert page.locator("#plane .region-name").count() > 0


@pytest.mark.parametrize("width", [390, 686])
def test_on_a_narrow_screen_the_models_stay_above_the_map_and_training_follows_it(opened, width):
    page = opened(viewport={"width": width, "height": 844})
    tops = [page.locator(f"#{name}").bounding_box()["y"] for name in ("words", "models", "plane", "trajectory", "loop")]
    assert tops[:3] == sorted(tops[:3])
    assert max(tops[2:4]) < tops[4]
    for name in ("plane", "trajectory", "loop"):
        page.evaluate("name => document.getElementById(name).scrollIntoView({block: 'center'})", name)
        box = page.locator("input[value=pipeline]").bounding_box()
        assert 0 <= box["y"] <= 200, name
        page.click("input[value=pipeline]")
        assert state(page)["model"] == "pipeline"
        page.click("#models label >> nth=0")


def test_a_story_brings_the_headline_into_sight(opened):
    page = opened(viewport={"width": 390, "height": 600})
    page.locator("#stories button").nth(1).click()
    settled(page)
    box = page.locator("#words").bounding_box()
    assert 0 <= round(box["y"]) <= round(box["y"] + box["height"]) <= 600
    assert page.inner_text("#verdict").startswith("unstable")


@pytest.mark.parametrize("estimator", ["frozen", "ratio"])
def test_three_small_maps_share_the_point_and_say_what_the_large_one_says(opened, estimator):
    page = opened(address=f"#estimator={estimator}&rate=0.15")
    states = """[...document.querySelectorAll('.models label')].map(
        (one) => [one.querySelector('input').value, one.dataset.region])"""
    said = dict(page.evaluate(states))
    places = page.evaluate("[...document.querySelectorAll('.small-point')].map((one) => one.getAttribute('cy'))")
    assert len(places) == 3
    assert len(set(places)) == 1
    for model, region in said.items():
        page.click(f"input[value={model}]")
        settled(page)
        assert dict(page.evaluate(states)) == said
        assert page.inner_text("#verdict").startswith("unstable") == (region == "unstable"), model
        assert page.locator(f"svg[data-model={model}] path.region").count() > 0
    assert (said["refresh"], said["pipeline"]) == (
        ("oscillates", "unstable") if estimator == "frozen" else ("oscillates",) * 2
    )


def test_stories_are_two_clicks_each(opened):
    page = opened()
    buttons = page.locator("#stories button").all()
    assert len(buttons) == 6
    buttons[1].click()
    settled(page)
    assert state(page)["model"] == "pipeline"
    assert page.inner_text("#verdict").startswith("unstable")
    buttons[2].click()
    settled(page)
    assert "policy gone" in page.inner_text("#outcome")
    buttons[3].click()
    settled(page)
    assert "swing that grows" in page.inner_text("#outcome")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_in_both_colour_schemes(opened, scheme):
    page = opened(color_scheme=scheme)
    page.click("summary")
    settled(page)
    assert page.evaluate(CONTRAST) == {"texts": [], "lines": []}
    assert (page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)") == (
        scheme == "light"
    )


def test_everything_that_is_set_has_a_name(opened):
    page = opened()
    nameless = page.evaluate("""
      [...document.querySelectorAll('input, select, textarea, button, [tabindex]')].filter((one) =>
      !(one.getAttribute('aria-label') || one.labels?.length || one.textContent.trim())).map((one) => one.outerHTML)""")
    assert nameless == []
    twice = page.evaluate(
        "(() => { const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);"
        " return ids.filter((id, i) => ids.indexOf(id) !== i); })()"
    )
    assert twice == []
    value = page.get_attribute("#point", "aria-valuetext")
    assert value.startswith("N = 8, η = 0.1: stable")


def test_tables_say_what_the_pictures_show_and_paper_has_them(opened):
    page = opened()
    page.click("summary")
    settled(page)
    page.wait_for_function("document.querySelectorAll('#boundaries tbody tr').length > 10")
    row = page.locator("#boundaries tbody tr", has=page.locator("th", has_text="8")).first.inner_text().split("\t")
    assert row == ["8", "0.08618", "0.2334", "0.01514", "oscillates"]
    found = page.evaluate("explore.found()")
    assert [f"{found[key]:.4g}" for key in ("law", "exact", "onset")] == row[1:4]
    assert page.locator("#path tbody tr").count() > 5
    page.emulate_media(media="print")
    assert not page.is_visible("#controls fieldset >> nth=0")
    assert page.is_visible("#boundaries")
    assert page.pdf()[:4] == b"%PDF"


def test_what_cannot_be_is_marked_and_changes_nothing(opened):
    page = opened()
    before = state(page)
    for selector, text in [("#momentum", "2"), ("#rate", "-1"), ("#interval", "3.5"), ("#weight", "")]:
        page.fill(selector, text)
        assert page.get_attribute(selector, "aria-invalid") == "true", selector
        assert "takes" in page.inner_text("#refused"), selector
        assert state(page) == before
        page.locator(selector).blur()
        settled(page)
        assert page.get_attribute(selector, "aria-invalid") != "true"
    page.fill("#interval", "500")
    page.locator("#interval").blur()
    assert page.inner_text("#refused") == "N takes whole numbers from 1 to 128, not 500: it stays 8."
    page.fill("#arms tr:last-child input[type=number]", "1.5")
    assert page.inner_text("#refused") == "arm 2, success probability takes numbers from 0 to 1, not 1.5: it stays 0.1."
    page.fill("#weight", "0")
    page.locator("#weight").blur()
    assert state(page)["weight"] == 0
    assert page.inner_text("#refused") == ""
    assert page.inner_text("#verdict").startswith("the policy runs to a vertex")
    page.evaluate("location.hash = 'interval=500'")
    page.wait_for_function("explore.setting().interval === 128")
    assert page.inner_text("#refused") == "Of this link the page does not take interval=500."


def test_a_run_and_a_sweep_lie_in_the_map(opened):
    page = opened("laid")
    assert abs(page.evaluate("explore.found().kappa") / 0.02 - 1) < 0.01  # the point begins at the run
    assert page.locator(".run-mark").count() >= 2  # in the legend and in the map
    assert page.locator("#plane .cell.unstable").count() == 3
    note = page.inner_text("#overlay-note")
    assert "Your run </script> <b>x</b>." in note
    assert "Cells measured by a sweep." in note
    page.fill("#momentum", "0.5")
    settled(page)
    assert "another loop than the run's" in page.inner_text("#overlay-note")
    assert "none at 0.5" in page.inner_text("#overlay-note")
    assert page.locator("#plane .cell").count() == 0

"""What tests of the page of `explore` share: what is laid into it, and how its state is read in a browser."""

START = {
    "model": "refresh",
    "convention": "heavy_ball",
    "estimator": "frozen",
    "advantage": "grpo",
    "interval": 8,
    "rate": 0.1,
    "momentum": 0.9,
    "weight": 1.0,
    "size": 64,
    "success": [0.9, 0.1],
    "reference": [0.0, 0.0],
    "initial": [0.0, 0.0],
    "steps": 300,
}
RUN = {
    "interval": 4,
    "model": "refresh",
    "momentum": 0.9,
    "convention": "heavy_ball",
    "words": "Your run </script> <b>x</b>.",
    "place": True,
    "kappa": {"value": 0.02, "low": 0.01, "high": 0.04},
}
SWEEP = {
    "cells": [{"momentum": 0.9, "interval": n, "rate": 0.1, "outcome": "unstable"} for n in (1, 2, 4)],
    "momenta": [0.9],
    "weight": 1.0,
    "words": "Cells measured by a sweep.",
}
CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => {
    const [p, q] = [light(rgb(a)), light(rgb(b))];
    return (Math.max(p, q) + 0.05) / (Math.min(p, q) + 0.05);
  };
  const behind = (one) => {
    for (let el = one; el; el = el.parentElement) {
      const color = getComputedStyle(el).backgroundColor;
      if (!/, 0\\)$|transparent/.test(color)) return color;
    }
    return getComputedStyle(document.documentElement).backgroundColor;
  };
  const kinds = 'p, li, label, legend, th, td, button, input, select, textarea, a, h1, h2, summary';
  const texts = [...document.querySelectorAll(kinds)]
    .filter((one) => one.textContent.trim() && one.getClientRects().length && !one.disabled)
    .map((one) => [one.textContent.trim().slice(0, 30), ratio(getComputedStyle(one).color, behind(one))]);
  const fill = (name) => getComputedStyle(document.querySelector(`.region.${name}`)).fill;
  const stroke = (name) => getComputedStyle(document.querySelector(`#plane path.${name}`)).stroke;
  const pairs = ['exact unstable', 'exact oscillates', 'onset oscillates', 'onset converges', 'law oscillates']
    .map((one) => one.split(' ')).map(([a, b]) => [a, b, ratio(stroke(a), fill(b))]);
  return { texts: texts.filter(([, value]) => value < 4.5), lines: pairs.filter((one) => one[2] < 3) };
}"""
"""Texts, and lines on their regions, of less contrast than is asked for."""


def settled(page):
    page.wait_for_function("globalThis.explore && explore.frames.length > 0 && !explore.busy", timeout=60_000)


def state(page):
    settled(page)
    return page.evaluate("({...explore.setting(), size: String(explore.setting().size)})")


def reached(page, condition):
    """A tap becomes a click some time after its call returns. Fails where the condition on `setting` is never met."""
    page.wait_for_function(f"((setting) => {condition})(explore.setting())", timeout=20_000)


def point(page):
    box = page.locator("#point circle:not(.ring)").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

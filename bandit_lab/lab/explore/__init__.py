"""`explore`: the stability map as one page that a browser opens without a network.

command    the command: checks, the page, the browser
settings   its settings
start      the setting that the page begins with, checked as `predict` checks it
overlays   what is laid into the map: the cells of a sweep
page       the source in `page/`, put together into one file; there is no build step, since nothing has to be compiled:
           the modules are plain JavaScript, and joining them takes a millisecond at every call

`page/` holds the modules. `group`, `bandit`, `threshold`, `lag`, `loop`, `noise`, `simulate` and `verdict` compute what
`bandit_lab.theory`, the engine and `predict` compute; the tests compare them. `plane`, `pictures`, `tables`,
`controls` and `main` draw, with D3 (`d3.min.js`, as its npm package ships it): its scales, axes and path generators
serve all three pictures. They are SVG, which prints sharply and follows dark mode by the style sheet alone.
"""

from bandit_lab.lab.explore.page import PAGE

__all__ = ["PAGE"]

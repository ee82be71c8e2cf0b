"""Pages that are made at build time: experiments from their files and verdicts, notebooks by running them, the map."""

import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import notebooks

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = notebooks.FOLDER
BESIDE = re.compile(r'<a href="(?!https?://|#)[^"]*">(.*?)</a>', re.DOTALL)
"""A link to a file that a command would have written beside its page: a notebook has none."""
MARKUP = re.compile(r"([\\*_\[\]|])")
PICTURE = re.compile(r"(?<=\]\()(\w+\.(?:png|csv))(?=\))")


@cache
def claims() -> dict[str, Any]:
    """What `reproduce` published: claims with verdicts, and the titles of the figures."""
    content: dict[str, Any] = json.loads((ROOT / "figures/claims.json").read_text(encoding="utf-8"))
    return content


def pages(folder: str) -> list[dict[str, str]]:
    """Entries of the navigation for a folder of generated pages."""
    if folder == "experiments":
        titles = {name: about["title"] for name, about in claims()["figures"].items()}
        entries = [{titles[name]: f"experiments/{name}.md"} for name in titles]
        first = [{"All experiments": "experiments/index.md"}, {"Gallery": "experiments/gallery.md"}]
        return [*first, *entries, {"All claims": "experiments/claims.md"}]
    return [{titled(path): f"notebooks/{path.stem}.md"} for path in sorted(NOTEBOOKS.glob("*.ipynb"))]


def contents() -> dict[str, str | bytes]:
    """Path below docs/ and content of everything that is made."""
    with ThreadPoolExecutor(2) as pool:
        ready = [pool.submit(map_page), *(pool.submit(notebook, path) for path in sorted(NOTEBOOKS.glob("*.ipynb")))]
        files: dict[str, str | bytes] = experiments()
        for one in ready:
            files |= one.result()
    return files


def experiments() -> dict[str, str | bytes]:
    """An index, a page per published experiment, all pictures, and the table of claims."""
    from bandit_lab.lab.reproduce import claims as rows
    from bandit_lab.lab.reproduce.experiment import discover

    modules, content = discover(), claims()
    pages: dict[str, str | bytes] = {}
    index = [
        "# Experiments",
        "",
        rows.tally(content["claims"]),
        "",
        "[All pictures](gallery.md), each with what was found.",
        "",
        "| experiment | question | found | holds |",
        "|---|---|---|---|",
    ]
    for name, about in content["figures"].items():
        mine = [one for one in content["claims"] if one["figure"] == name]
        holding = f"{sum(one['holds'] for one in mine)} of {len(mine)}"
        cells = " | ".join(plain(about[key]) for key in ("question", "finding"))
        index.append(f"| [{about['title']}]({name}.md) | {cells} | {holding} |")
        pages[f"experiments/{name}.md"] = experiment(name, about, mine, modules[name].source)
    pages["experiments/index.md"] = "\n".join(
        [*index, "", "[All claims](claims.md) with what could have made each fail."]
    )
    pages["experiments/gallery.md"] = gallery(content)
    table = (ROOT / "figures/claims.md").read_text(encoding="utf-8")
    pages["experiments/claims.md"] = PICTURE.sub(lambda match: f"../figures/{match[1]}", table)
    return pages


def experiment(name: str, about: dict[str, Any], rows: list[dict[str, Any]], source: str) -> str:
    """Question, figure, verdicts, prediction as it was written, command."""
    import ast

    from bandit_lab.app.result import number
    from bandit_lab.lab.reproduce.claims import command, doubts

    docstring = ast.get_docstring(ast.parse(source)) or ""
    prediction = docstring.partition("\n")[2].strip()
    holding = sum(one["holds"] for one in rows)
    lines = [f"# {about['title']}", "", f"**{plain(about['question'])}**", ""]
    lines += [f"![{plain(about['finding'])}](../figures/{name}.png)", ""]
    lines += [f"**Found:** {plain(about['finding'])}. {holding} of {len(rows)} claims hold.", ""]
    lines += ["| claim | predicted | measured | holds |", "|---|---|---|---|"]
    for one in rows:
        predicted, measured = (number(one[key], 4) for key in ("predicted", "measured"))
        unit = f" {one['unit']}" if one["unit"] else ""
        verdict = "yes" if one["holds"] else "**no**"
        lines.append(f"| {plain(one['statement'])} | {predicted}{unit} | {measured}{unit} | {verdict} |")
    for one in rows:
        if not one["holds"] and one.get("explanation"):
            lines += ["", f"**Does not hold:** {plain(one['statement'])}. {plain(capital(one['explanation']))}."]
    lines += ["", "## The prediction, as it was written before the run", "", plain(prediction), ""]
    lines += ["## What could have made the claims fail", ""]
    lines += [f"- {plain(one['statement'])}: {plain(doubts(one))}." for one in rows]
    lines += ["", "## Make it again", "", f"    {command(name, about['quality'])}", ""]
    lines += [f"The experiment is `experiments/{name}.py`, its setting `experiments/{name}.yaml`, its plotted"]
    lines += [f"numbers [{name}.csv](../figures/{name}.csv)."]
    return "\n".join(lines) + "\n"


def gallery(content: dict[str, Any]) -> str:
    """Every published picture with what was found, and which predictions failed."""
    lines = ["# Gallery", "", "A picture leads to its experiment. A cross in it is a prediction that failed.", ""]
    for name, about in content["figures"].items():
        finding = plain(about["finding"])
        lines += [f"## {about['title']}", "", f"{finding}.", ""]
        lines += [f"[![{finding}](../figures/{name}.png)]({name}.md)", ""]
    return "\n".join(lines)


def capital(text: str) -> str:
    """The beginning of a sentence; its end is left to the caller."""
    return text[:1].upper() + text[1:].rstrip(".")


def plain(text: str) -> str:
    """Text that Markdown shows as it stands."""
    return MARKUP.sub(r"\\\1", text).replace("<", "&lt;")


def titled(path: Path) -> str:
    """First heading of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "".join(cells[0]["source"]).splitlines()[0].removeprefix("# ")


def notebook(path: Path) -> dict[str, str | bytes]:
    """A notebook as a page: run from the first cell to the last, an error is an error of the build."""
    from nbconvert import MarkdownExporter

    shown = notebooks.run(path)
    if not notebooks.same(json.loads(path.read_text(encoding="utf-8")), shown):
        raise ValueError(f"{path.name}: expected what is stored to be what it shows: make notebooks")
    name = f"{path.stem}_files"
    text, resources = MarkdownExporter().from_notebook_node(shown, {"output_files_dir": name})
    files: dict[str, str | bytes] = {f"notebooks/{key}": data for key, data in resources["outputs"].items()}
    page = BESIDE.sub(r"\1", text).replace("![png](", "![What the cell above draws](")
    return files | {f"notebooks/{path.stem}.md": f"{page}\n\nThe notebook: `docs/notebooks/{path.name}`.\n"}


def map_page() -> dict[str, str | bytes]:
    """The page of `explore`, as the command writes it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bandit_lab", "explore", f"run_dir={folder}", "open=false", "quiet=true"]
        subprocess.run(command, check=True, capture_output=True)
        return {"assets/map.html": Path(folder, "map.html").read_bytes()}

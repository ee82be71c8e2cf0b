"""What can be chosen in a group of settings: the first line of each variant's docstring, its options and defaults.

Of the package's own variants the line is read from the source, so that the help starts without JAX; once plug-ins are
loaded it comes from the registry, theirs too. A variant that is no function or class of ours (`adam`) has the first
comment of its YAML file.
"""

import ast
import inspect
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from bandit_lab.study import plugins
from bandit_lab.study.settings.config import config_dir, variants_on_disk

_ROOMS = {
    "bandit": "bandits",
    "advantage": "grpo/advantage",
    "estimator": "grpo/estimator",
    "staleness": "grpo/staleness",
    "optimizer": "grpo/optimizer",
    "kl_estimator": "grpo/kl",
}
LINE = 100
_SETTING = re.compile(r"^(?P<key>\w+): (?P<value>.*?)(?:\s+# (?P<text>.*))?$")


def names_of(group: str) -> list[str]:
    """Every variant that is known: the package's, and what plug-ins brought."""
    return sorted({*variants_on_disk(group), *(plugins.registries()[group] if plugins.loaded() else ())})


def line_of(group: str, name: str) -> str:
    """One line on a variant, or "" where its author wrote none: the first sentence, cut at a colon where it is long."""
    text = (documentation(group, name) or _comment(group, name)).split("\n")[0]
    text = re.split(r"(?<=\.)\s+(?=[A-Z]|arXiv)", text)[0].removesuffix(".")
    for mark in ("; ", ": ", ", "):
        if len(text) > LINE and mark in text[:LINE]:
            return text[: text.rindex(mark, 0, LINE)]
    return text


def documentation(group: str, name: str) -> str:
    """The docstring of what builds a variant, less what it raises, or ""."""
    if plugins.loaded() and name in plugins.registries()[group]:
        text = _own_doc(plugins.registries()[group][name])
    else:
        text = _written(group).get(name, "")
    return re.sub(r"\n*Raises:\n.*", "", text, flags=re.DOTALL).rstrip()


def _own_doc(builder: Any) -> str:
    """Not what Python writes for a dataclass without a docstring, nor what a base class says."""
    text = getattr(inspect.unwrap(builder), "__doc__", None) or ""
    made = isinstance(builder, type) and text.startswith(f"{builder.__name__}(")
    return "" if made else inspect.cleandoc(text)


@lru_cache
def _written(group: str) -> dict[str, str]:
    """Docstrings of what is decorated with `@register_...("name")` in the package's sources."""
    found: dict[str, str] = {}
    for path in sorted((Path(__file__).resolve().parents[2] / _ROOMS[group]).rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found |= {name: ast.get_docstring(node) or "" for name in _registered(node)}
    return found


def _registered(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """The names under which a definition is registered."""
    return [
        str(call.args[0].value)
        for call in node.decorator_list
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id.startswith("register_")
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]


def _comment(group: str, name: str) -> str:
    path = config_dir() / group / f"{name}.yaml"
    first = path.read_text(encoding="utf-8").split("\n")[0] if path.is_file() else ""
    return first.removeprefix("#").strip() if first.startswith("#") else ""


def options_of(group: str, name: str) -> list[tuple[str, str, str]]:
    """(key, default, comment) of every option of a variant, as it is set on the command line."""
    path = config_dir() / group / f"{name}.yaml"
    if path.is_file():
        matches = [_SETTING.match(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found = [(m["key"], m["value"], m["text"] or "") for m in matches if m and m["key"] != "name"]
        return [(f"{group}.{key}", value, text) for key, value, text in found if key != "options"] + _free(group, name)
    settings = plugins.settings_of(plugins.registries()[group], name)
    given = [(f"{group}.{key}", _text(value), "") for key, value in settings.items() if key not in ("name", "options")]
    return given + _free(group, name)


def _free(group: str, name: str) -> list[tuple[str, str, str]]:
    """The options of an optimiser, which are its builder's arguments: ours, a plug-in's or optax's."""
    if group != "optimizer":
        return []
    from bandit_lab.grpo.optimizer.base import optimizer_options

    return [(f"optimizer.options.{key}", _text(value), "") for key, value in optimizer_options(name).items()]


def _text(value: Any) -> str:
    if value is None or value is inspect.Parameter.empty:
        return "null" if value is None else "(to be given)"
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)

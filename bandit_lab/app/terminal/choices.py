"""What can be chosen in a group of settings: each variant's documentation, its options and their defaults.

A variant is said once, in its own file: its docstring is its help. Of the package's own variants both are read from the
source, so that the help starts without JAX; of plug-ins from the registry, once they are loaded.
"""

import ast
import inspect
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from bandit_lab.app import plugins

_ROOMS = {
    "bandit": "bandits",
    "advantage": "grpo/advantage",
    "estimator": "grpo/estimator",
    "staleness": "grpo/staleness",
    "optimizer": "grpo/optimizer.py",
    "kl_estimator": "grpo/kl.py",
    "engine": "app/engine",
    "sampler": "grpo/sampler.py",
    "correction": "grpo/correction.py",
}
LINE = 100


class Written(NamedTuple):
    """A variant as its source has it: the docstring, and the options with their defaults."""

    text: str
    options: dict[str, Any]


def names_of(group: str) -> list[str]:
    """Every variant that is known: the package's, and what plug-ins brought."""
    return sorted({*_written(group), *(plugins.chosen_from()[group] if plugins.loaded() else ())})


def line_of(group: str, name: str) -> str:
    """One line on a variant, or "" where its author wrote none: the first sentence, cut at a colon where it is long."""
    text = documentation(group, name).split("\n")[0]
    text = re.split(r"(?<=\.)\s+(?=[A-Z]|arXiv)", text)[0].removesuffix(".")
    for mark in ("; ", ": ", ", "):
        if len(text) > LINE and mark in text[:LINE]:
            return text[: text.rindex(mark, 0, LINE)]
    return text


def documentation(group: str, name: str) -> str:
    """The docstring of what builds a variant, less what it raises, or ""."""
    if plugins.loaded() and name in plugins.chosen_from()[group]:
        text = _own_doc(plugins.chosen_from()[group][name])
    else:
        text = _written(group)[name].text
    return re.sub(r"\n*Raises:\n.*", "", text, flags=re.DOTALL).rstrip()


def _own_doc(builder: Any) -> str:
    """Not what Python writes for a dataclass without a docstring, nor what a base class says."""
    text = getattr(inspect.unwrap(builder), "__doc__", None) or ""
    made = isinstance(builder, type) and text.startswith(f"{builder.__name__}(")
    return "" if made else inspect.cleandoc(text)


@lru_cache
def _written(group: str) -> dict[str, Written]:
    """What is decorated with the group's `@register_...("name")` in the package's sources."""
    decorator = f"register_{group.removesuffix('_estimator')}"
    room = Path(__file__).resolve().parents[2] / _ROOMS[group]
    files = [room] if room.suffix else sorted(room.rglob("*.py"))
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    defined = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    classes = {node.name: node for node in defined if isinstance(node, ast.ClassDef)}
    return {
        name: Written(ast.get_docstring(node) or "", _options(node, classes))
        for node in defined
        for name in _registered(node, decorator)
    }


def _options(node: ast.FunctionDef | ast.ClassDef, classes: dict[str, ast.ClassDef]) -> dict[str, Any]:
    """Arguments of a function, or fields of a dataclass and its bases, with their defaults."""
    if isinstance(node, ast.FunctionDef):
        having = node.args.args[len(node.args.args) - len(node.args.defaults) :]
        values = zip(having, node.args.defaults, strict=True)
        return {argument.arg: ast.literal_eval(value) for argument, value in values}
    found: dict[str, Any] = {}
    for base in reversed(node.bases):
        if isinstance(base, ast.Name) and base.id in classes:
            found |= _options(classes[base.id], classes)
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and one.value is not None]
    return found | {ast.unparse(one.target): ast.literal_eval(one.value) for one in fields if one.value}


def _registered(node: ast.FunctionDef | ast.ClassDef, decorator: str) -> list[str]:
    """The names under which a definition is registered by a decorator."""
    return [
        str(call.args[0].value)
        for call in node.decorator_list
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == decorator
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]


def options_of(group: str, name: str) -> list[tuple[str, str]]:
    """(key, default) of every option of a variant, as it is set on the command line."""
    if group == "optimizer":  # those of its builder: ours, a plug-in's or optax's
        from bandit_lab.grpo.optimizer import optimizer_options

        return [(f"optimizer.options.{key}", _text(value)) for key, value in optimizer_options(name).items()]
    if name in _written(group):
        found = _written(group)[name].options
    else:
        found = plugins.settings_of(plugins.chosen_from()[group], name)
    return [(f"{group}.{key}", _text(plugins.yaml_value(value))) for key, value in found.items() if key != "name"]


def _text(value: Any) -> str:
    if value is None or value is inspect.Parameter.empty:
        return "null" if value is None else "(to be given)"
    if isinstance(value, type):
        return value.__name__
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)

"""Does a reader know its own files, read them, and refuse what is damaged in words?"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bandit_lab import _checks
from bandit_lab.lab.check.result import Failed, NotApplicable, check, close
from bandit_lab.lab.check.subject import Subject
from bandit_lab.runs.read import READERS, Curve, Example, Parsed, ReadOptions
from bandit_lab.runs.read.front import curves_of
from bandit_lab.runs.read.registry import in_order, owner

_NOISE = np.random.default_rng(0).bytes(4096)
FOREIGN = {
    "nothing": b"",
    "a pickle": b"\x80\x04\x95\x05\0\0\0\0\0\0\0",
    "a picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "noise": _NOISE,
    "a letter": b"Dear reader,\n\nnothing is measured here.\n",
}
"""What is no log of any format."""


def _example(name: str) -> Example | None:
    return getattr(READERS[name], "example", None)


@check("its own files are known, and no others", "reader")
def known(subject: Subject) -> str:
    """The examples of all readers, each to its own; and files that are no log."""
    examples = {name: example for name in READERS if (example := _example(name)) is not None}
    for name, example in examples.items():
        found, _ = owner(Path(example.name), example.data)
        if found != name and subject.name in (found, name):
            raise Failed(f"the example of {name}: expected the reader {name}, got {found}")
    if subject.name == list(in_order())[-1]:
        return f"{len(examples)} examples; it takes what is left"
    for what, data in FOREIGN.items():
        if subject.variant.owns(Path("unknown.bin"), data):
            raise Failed(f"{what}: expected that it is not its own, got the opposite")
    return f"{len(examples)} examples, {len(FOREIGN)} foreign files"


@check("its example is read", "reader")
def example_is_read(subject: Subject) -> str:
    """The rewards of its attribute `example`, of all runs in order."""
    example = _example(subject.name)
    if example is None:
        raise NotApplicable("the class has no attribute example")
    try:
        curves = _curves(subject, "the example", example.data, example.name)
    except ValueError as error:
        raise Failed(f"the example: expected its rewards, got {error}") from error
    found = np.concatenate([curve.reward for curve in curves])
    return close("rewards", found, example.rewards, 1e-12, 0.0)


@check("damaged files are refused in words", "reader")
def damaged(subject: Subject) -> str:
    """An empty file and garbage give ValueError; a file that is cut off or overwritten gives that, or what is left."""
    example = _example(subject.name)
    name = "unknown.log" if example is None else example.name
    for what, data in FOREIGN.items():
        try:
            curves = _curves(subject, what, data, name)
        except ValueError:
            continue
        raise Failed(f"{what}: expected a ValueError, got {len(curves)} runs")
    count = 0
    for what, data in () if example is None else _spoilt(example.data):
        count += 1
        try:
            _curves(subject, what, data, name)
        except ValueError:
            continue
    return f"{len(FOREIGN)} that are no log, {count} damaged"


def _spoilt(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(what was done, bytes) of an example."""
    places = sorted({len(data) * part // 16 for part in range(1, 16)})
    for place in places:
        yield f"the example up to byte {place}", data[:place]
        yield f"the example from byte {place} on", data[place:]
        yield f"the example with noise at byte {place}", data[:place] + _NOISE[:8] + data[place + 8 :]
    yield "the example in front of noise", data + _NOISE


def _curves(subject: Subject, what: str, data: bytes, name: str) -> list[Curve]:
    """The runs of a file with these bytes. Raises ValueError as the reader does, and `Failed` for anything else."""
    options = ReadOptions()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            parsed = subject.variant.read(path, options)
        except ValueError:
            raise
        except Exception as error:
            raise Failed(f"{what}: expected a ValueError, got {_checks.described(error)}") from error
        if not isinstance(parsed, Parsed):
            raise Failed(f"{what}: expected a Parsed, got {type(parsed).__name__}")
        return curves_of(path, parsed, options)

"""`Value` and `Document`: a number or the reason; each writer; a column added in one place appears everywhere."""

import copy
import dataclasses
import json
import math

import numpy as np
import pytest

from bandit_lab.app.document import ABSENT, Column, Document, Figure, On, Paragraph, Table, Value, Values
from bandit_lab.app.document.as_json import encode, strict_json
from bandit_lab.app.document.as_page import as_html


@pytest.mark.parametrize(
    "make",
    [
        lambda: Value(None),
        lambda: Value(1.0, reason="there is one"),
        lambda: Value(math.nan),
        lambda: Value(math.inf),
        lambda: Value("1"),
        lambda: Value(1.0, low=0.0, high=2.0),
        lambda: Value(1.0, low=0.0, level=0.9),
        lambda: Value(1.0, low=0.0, high=2.0, level=0.9, open_reason="not open"),
        lambda: Value(1.0, low=-math.inf, high=2.0, level=0.9),
        lambda: Value.absent(""),
        lambda: Value.of(None, ""),
    ],
)
def test_a_number_and_a_reason_never_stand_together_nor_neither(make):
    with pytest.raises(ValueError, match=r"expected"):
        make()


def test_what_is_no_number_is_absent_for_a_reason():
    for nothing in (None, math.nan, np.float64("inf"), "text"):
        assert Value.of(nothing, "not seen") == Value.absent("not seen")
    assert Value.of(np.float64(2), "not seen") == Value(2.0)
    assert type(Value.of(np.int64(2), "").value) is int


def test_json_has_the_reason_beside_the_null():
    bounded = Value(1.0, "steps").within(0.5, math.inf, 0.9, "not bounded")
    error = dataclasses.replace(bounded, standard_error=Value.absent("no error"))
    items = {"bare": Value(2), "none": Value.absent("why"), "within": bounded, "error": error, "left_out": ABSENT}
    assert encode(items) == {
        "bare": 2,
        "none": None,
        "none_reason": "why",
        "within": {"value": 1.0, "interval_90": [0.5, None], "interval_90_reason": "not bounded", "unit": "steps"},
        "error": {
            "value": 1.0,
            "standard_error": None,
            "standard_error_reason": "no error",
            "interval_90": [0.5, None],
            "interval_90_reason": "not bounded",
            "unit": "steps",
        },
    }
    assert json.loads(strict_json({"list": [Value(1).value, math.nan], "array": np.eye(1)})) == {
        "list": [1, None],
        "array": [[1.0]],
    }


def test_an_interval_is_read_as_far_as_it_is_known():
    made = [Value(0.6).within(low, high, 0.9, "open") for low, high in [(0.2, 2), (0.2, None), (None, 2), (None, None)]]
    assert [value.text() for value in made] == ["0.6 [0.2, 2]", "above 0.2", "below 2", "not bounded"]
    assert Value.absent("why").text() == "-"


@dataclasses.dataclass
class Run:
    name: str
    gain: float | None


RUNS = [Run("a<b>|*[/b]\x1b[2J", 0.25), Run("second", None)]
COLUMNS = [
    Column[Run]("log", "log", lambda run: run.name, link=lambda run: "a.html"),
    Column[Run]("secret", "not shown", lambda run: "only in JSON", on=On.JSON),
]
GAIN = Column[Run]("gain", "gain", lambda run: Value.of(run.gain, "nothing was learned"), "reward")


def drawn():
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(1, 1))
    axis.plot([0, 1])
    return figure


def document(*more: Column[Run], on: On = On.ALL) -> Document:
    import xarray

    table = Table(RUNS, [*COLUMNS, *more], on=on)
    page = {"": [Figure(drawn, "a <line>")], "Told": [Paragraph("of <a> & 'b'"), table], "Not": [Paragraph("more")]}
    variables = xarray.Dataset(table.variables("run"), {"run": [run.name for run in RUNS]})
    parts = {
        "logs": [table, Paragraph("2 of [bold]2[/bold]")],
        "": [Values({"note": "top", "none": Value.absent("why")})],
    }
    return Document("Two <runs>", parts, variables, {"first": Document("One", page)})


def test_json_of_sections():
    made = document()
    assert made.to_dict() == {
        "logs": [{"log": run.name, "secret": "only in JSON"} for run in RUNS],
        "note": "top",
        "none": None,
        "none_reason": "why",
    }
    named = {"both": [Values({"n": 2}), Table(RUNS, [GAIN], name="rows")], "words": [Paragraph("no key")]}
    rows = [{"gain": 0.25}, {"gain": None, "gain_reason": "nothing was learned"}]
    assert Document("", named).to_dict() == {"both": {"n": 2, "rows": rows}}
    nested = Document("", {"": [Values({"inside": {"rows": Table(RUNS, [GAIN])}})]})
    assert nested.to_dict() == {"inside": {"rows": rows}}
    assert nested.table("rows")["gain"][0] == 0.25
    with pytest.raises(KeyError, match=r"expected one of rows, got 'logs'"):
        Document("", named).table("logs")


def test_html_is_escaped_and_holds_its_pictures():
    text = as_html(document().pages["first"])
    assert text.startswith("<!doctype html>")
    assert "<b>" not in text
    assert r'<a href="a.html">a&lt;b&gt;|*[/b]\x1b[2J</a>' in text
    assert '<img alt="a &lt;line&gt;" src="data:image/png;base64,iVBOR' in text
    assert text.index("<img") < text.index("<h2>Told</h2>")
    whole = as_html(document())
    assert "<title>Two &lt;runs&gt;</title>" in whole
    assert "<h2>" not in whole


def test_what_a_document_holds_are_its_attributes_and_subscripts():
    made = document(GAIN)
    assert made.note == made["note"] == "top"
    assert made.none is None
    assert [row.gain for row in made.logs] == [0.25, None]
    assert made.logs[1]["gain_reason"] == "nothing was learned"
    assert {"note", "logs", "table", "to_dict"} <= set(dir(made))
    assert {"gain", "log"} <= set(dir(made.logs[0]))
    assert dict(made) == made.to_dict()
    assert "note" in made
    assert "nothing" not in made
    for ask in (lambda: made.nothing, lambda: made.logs[0].nothing):
        with pytest.raises(AttributeError, match=r"expected one of log.*, got 'nothing'"):
            ask()
    with pytest.raises(KeyError, match="expected one of logs, note, none, none_reason, got 'nothing'"):
        made["nothing"]
    assert copy.deepcopy(made.logs) == made.logs

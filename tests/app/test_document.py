"""`Value` and `Document`: a number or the reason; each writer; a column added in one place appears everywhere."""

import copy
import dataclasses
import json
import math

import numpy as np
import pytest

from bandit_lab.app.document import ABSENT, Column, Document, Figure, On, Paragraph, Table, Value, Values
from bandit_lab.app.document.as_json import encode, strict_json
from bandit_lab.app.document.as_page import as_html, as_markdown, page_names
from bandit_lab.app.folder.store import RunFolder
from bandit_lab.app.runner import write_document
from bandit_lab.app.terminal import report
from bandit_lab.app.terminal.progress import Progress


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


def test_one_edit_puts_a_column_into_every_writer(capsys):
    before, after = document(), document(GAIN)
    assert "gain" not in before.to_dict()["logs"][0]
    rows = after.to_dict()["logs"]
    assert rows[0]["gain"] == 0.25
    assert (rows[1]["gain"], rows[1]["gain_reason"]) == (None, "nothing was learned")
    after.show()
    shown = capsys.readouterr().out
    assert "gain" in shown.splitlines()[1]
    assert "0.25" in shown
    for page in (as_html(after), as_html(after.pages["first"]), as_markdown(after.pages["first"], "x.png")):
        assert "gain" in page
        assert "0.25" in page
    assert after.data is not None
    np.testing.assert_array_equal(after.data["gain"], [0.25, np.nan])
    assert after.data["gain"].attrs == {"units": "reward"}
    frame = after.table("logs")
    assert list(frame["gain"].isna()) == [False, True]
    assert frame.attrs["units"] == {"gain": "reward"}


@pytest.mark.parametrize("where", [On.JSON, On.TERMINAL, On.PAGE, On.DATA])
def test_a_column_may_be_meant_for_some_writers_only(where, capsys):
    made = document(dataclasses.replace(GAIN, on=where))
    made.show()
    found = {
        On.JSON: "gain" in made.to_dict()["logs"][0],
        On.TERMINAL: "gain" in capsys.readouterr().out,
        On.PAGE: "gain" in as_html(made),
        On.DATA: "gain" in made.data,
    }
    assert found == {place: place is where for place in found}


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


@pytest.mark.parametrize("width", [48, 80, 120])
def test_a_wide_table_is_shown_in_parts(width, capsys, monkeypatch):
    """No column is left out and no number is broken; each part begins with the first column."""
    monkeypatch.setattr(report, "page_width", lambda: width)
    rules = ["advantage=none", "bandit=contextual"]
    columns = [Column[str]("rule", "rule", str, width=17)]
    columns += [Column[str](f"c{i}", f"C Bern N={i}", lambda rule, i=i: 1.25 + i + len(rule)) for i in range(13)]
    Document("", {"": [Table(rules, columns, title="cost")]}).show()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    parts = [line for line in lines if rules[1] in line]
    assert [float(x) for part in parts for x in part.split()[1:]] == [18.25 + i for i in range(13)]
    assert len(parts) > 1
    Document("", {"": [Table(rules, columns[:4])]}).show()
    assert capsys.readouterr().out.count(rules[1]) == 1
    long = [Column[str]("log", "log", lambda rule: 200 * "x"), *columns[1:4]]
    Document("", {"": [Table(rules, long)]}).show()
    shown = capsys.readouterr().out
    assert shown.count("18.25") == 1
    assert shown.count("x") == 400


def test_the_terminal_shows_text_as_it_stands(capsys):
    document().show()
    shown = capsys.readouterr().out
    assert r"a<b>|*[/b]\x1b[2J" in shown
    assert "2 of [bold]2[/bold]" in shown
    assert "not shown" not in shown


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


def test_markdown_holds_no_markup_of_others():
    assert as_markdown(document().pages["first"], "a_1.png").split("\n") == [
        "## One", "", "![a \\<line\\>](a_1.png)", "", "### Told", "", "- of \\<a\\> & 'b'", "", "| log |", "| --- |",
        r"| a\<b\>\|\*\[/b\]\\x1b\[2J |", "| second |", "", "### Not", "", "- more", "",
    ]  # fmt: skip


def test_a_notebook_sees_tables_pictures_and_the_page_of_a_single_run():
    text = document(GAIN)._repr_html_()
    assert "<html" not in text
    assert text.count("<table>") == 2
    assert "data:image/png" in text
    several = dataclasses.replace(document(), pages=dict.fromkeys("ab", document()))
    assert "data:image/png" not in several._repr_html_()


def test_a_document_is_short_where_it_is_printed():
    made = document(GAIN)
    assert repr(made).splitlines() == [
        "Two <runs>",
        "a<b>|*[/b]\\x1b[2J: gain 0.25",
        "second",
        "2 of [bold]2[/bold]",
        "with logs, note, none, none_reason",
    ]
    long = Document("x", {"": [Paragraph("word " * 100)] * 20})
    assert len(repr(long).splitlines()) < 10
    assert max(map(len, repr(long).splitlines())) <= 160
    assert made != document(GAIN)


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


def test_what_is_told_of_a_single_log_is_there_without_its_place():
    one = Document("One", {"logs": [Table(RUNS[:1], [GAIN])], "": [Values({"note": "top"})]})
    assert one.gain == one.logs[0].gain == 0.25
    assert one.note == "top"
    assert "gain" not in one.to_dict()


def test_the_run_folder_holds_every_form(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.open("a: 1\n")
    made = document(GAIN)
    picture = Figure(drawn, "all", "many", on=On.PAGE)
    write_document(
        dataclasses.replace(made, sections={"logs": [*made.sections["logs"], picture]}), folder, Progress(True)
    )
    names = {path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*.*") if ".zarr" not in str(path)}
    assert names >= {"summary.json", "many.png", "report/first.html", "report/first.md", "report/first.png"}
    assert "report/index.md" not in names
    assert json.loads((folder.path / "summary.json").read_text())["logs"][0]["gain"] == 0.25
    index = (folder.path / "report/index.html").read_text()
    assert index.count("data:image/png") == 1


def test_names_of_pages_are_plain_and_differ():
    assert page_names(["a/b", "a b", "..", "index", "ä"]) == ["a_b", "a_b~2", "run", "index~1", "run~2"]


def test_a_frame_leaves_out_what_no_row_has():
    columns = [Column("seen", "seen", lambda row: row), Column("never", "never", lambda row: ABSENT)]
    assert list(Table([1.0, 2.0], columns).frame().columns) == ["seen"]
    assert list(Table([], columns).frame().columns) == ["seen", "never"]

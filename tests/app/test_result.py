"""`Value` and `Result`: a number or the reason, what a result holds, and its writers."""

import json
import math

import numpy as np
import pytest

from bandit_lab.app.result import Result, Table, Value, eigenvalues, plain, strict_json


@pytest.mark.parametrize(
    "make",
    [
        lambda: Value(None),
        lambda: Value(1.0, reason="there is one"),
        lambda: Value(math.nan),
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


def test_json_is_strict_and_has_the_reason_beside_the_null():
    assert plain({"bare": Value(2), "rows": [{"none": Value.absent("why")}]}) == {
        "bare": 2,
        "rows": [{"none": None, "none_reason": "why"}],
    }
    text = strict_json({"list": [Value(1).value, math.nan], "array": np.eye(1), "count": np.int64(3)})
    assert json.loads(text, parse_constant=pytest.fail) == {"list": [1, None], "array": [[1.0]], "count": 3}


ODD = "a<b>|*[/b]\x1b[2J"


def a_result() -> Result:
    rows = [{"log": ODD, "gain": 0.25}, {"log": "second", "gain": Value.absent("nothing was learned")}]
    return Result("Two", {"note": "top", "inside": {"logs": rows}}, [f"line {ODD}", Table("logs", rows)])


def test_what_a_result_holds_are_its_attributes_and_subscripts():
    result = a_result()
    assert result.note == result["note"] == "top"
    assert [row.gain for row in result.inside.logs] == [0.25, None]
    assert result.inside.logs[1]["gain_reason"] == "nothing was learned"
    assert dict(result) == result.to_dict()
    assert result.table("logs")["gain"][0] == 0.25
    assert Table("t", [{"a": 1}, {"a": 2, "b": 3.5}]).texts() == (["a", "b"], [["1", "-"], ["2", "3.5"]])
    with pytest.raises(AttributeError, match=r"expected one of log, gain, got 'nothing'"):
        _ = result.inside.logs[0].nothing


def test_text_of_others_is_shown_as_it_stands(capsys):
    result = a_result()
    result.show()
    shown = r"a<b>|*[/b]\x1b[2J"
    assert capsys.readouterr().out.count(shown) == 2
    assert r"<td>a&lt;b&gt;|*[/b]\x1b[2J</td>" in result._repr_html_()


def test_eigenvalues_keep_their_imaginary_parts_where_any_has_one():
    assert [one["im"] for one in eigenvalues(np.array([1 + 1j, 1 - 1j, 0.5]))] == [1.0, -1.0, 0.0]
    assert eigenvalues(np.array([1.0, 0.5])) == [1.0, 0.5]

"""Golden copies: two folders of what the commands said are the same, or what differs is named."""

import json

import pytest

from experiments.grading import golden


@pytest.fixture
def folders(tmp_path):
    """Two copies of one command's output, alike."""
    for name in ("before", "after"):
        folder = tmp_path / name / "predict"
        folder.mkdir(parents=True)
        (folder / "terminal.txt").write_text("exit 0\nthe law permits 0.5\nand says why\n")
        (folder / "found-summary.json").write_text(json.dumps({"law": {"limits": [0.5, None], "name": "A"}}))
    return tmp_path / "before", tmp_path / "after"


def test_equal_folders_are_the_same(folders, capsys):
    assert golden.main(["compare", *map(str, folders)]) == golden.SAME
    assert capsys.readouterr().out == "2 files are the same\n"


def test_planted_differences_are_named(folders, capsys):
    _, after = folders
    (after / "predict/terminal.txt").write_text("exit 0\nthe law permits 0.6\nand says why\n")
    (after / "predict/found-summary.json").write_text(json.dumps({"law": {"limits": [0.6, None]}, "more": {}}))
    (after / "predict/page.txt").write_text("new")
    assert golden.main(["compare", *map(str, folders)]) == golden.DIFFERENT
    assert capsys.readouterr().out.splitlines() == [
        "predict/found-summary.json",
        "    law.limits.0: 0.5 -> 0.6",
        '    law.name: "A" -> nothing',
        "    more: nothing -> {}",
        "predict/page.txt",
        "    only after",
        "predict/terminal.txt",
        "    -the law permits 0.5",
        "    +the law permits 0.6",
        "3 of 3 files differ",
    ]


def test_times_are_not_compared(folders):
    for folder, seconds in zip(folders, (1.25, 31.5), strict=True):
        (folder / "predict/terminal.txt").write_text(f"sweep, {seconds} seconds in its last process\n")
        about = {
            "run_seconds": seconds,
            "seed_steps_per_second": 9 * seconds,
            "peak_memory_bytes": 1,
            "seconds": seconds,
        }
        (folder / "predict/found-summary.json").write_text(json.dumps(about, indent=2))
    assert golden.compare(*folders) == golden.SAME


def test_a_page_is_its_text():
    page = "<html><style>p {}</style><body><p>One  <b>law</b></p><script>let x = 1 < 2</script>&lt;2</body></html>"
    assert golden.text_of(page) == "One\nlaw\n<2\n"


@pytest.mark.slow
def test_a_command_twice_gives_the_same_copy(tmp_path, monkeypatch, capsys):
    """Planted: other numbers are another copy."""
    for name in ("before", "after"):
        golden.store(tmp_path / name, only="predict_mean_field")
    assert golden.compare(tmp_path / "before", tmp_path / "after") == golden.SAME
    names = {path.name for path in (tmp_path / "after/predict_mean_field").iterdir()}
    assert {"terminal.txt", "found-summary.json"} <= names
    monkeypatch.setitem(golden.CASES, "predict_mean_field", (*golden.CASES["predict_mean_field"], "momentum=0.3"))
    golden.store(tmp_path / "other", only="predict_mean_field")
    assert golden.compare(tmp_path / "before", tmp_path / "other") == golden.DIFFERENT
    assert "found-summary.json" in capsys.readouterr().out

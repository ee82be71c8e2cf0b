"""Golden copies: two folders of what the commands said are the same, or what differs is named."""

import json

from experiments.grading import golden


def test_planted_differences_are_named_and_times_are_not_compared(tmp_path, capsys):
    folders = [tmp_path / name for name in ("before", "after")]
    for folder, seconds in zip(folders, (1.25, 31.5), strict=True):
        (folder / "predict").mkdir(parents=True)
        (folder / "predict/terminal.txt").write_text(f"exit 0\nsweep, {seconds} seconds in its last process\n")
        numbers = {"law": {"limits": [0.5, None], "name": "A"}, "run_seconds": seconds}
        (folder / "predict/found-summary.json").write_text(json.dumps(numbers, indent=2))
    assert golden.compare(*folders) == golden.SAME
    capsys.readouterr()
    (folders[1] / "predict/found-summary.json").write_text(json.dumps({"law": {"limits": [0.6, None]}, "more": {}}))
    assert golden.main(["compare", *map(str, folders)]) == golden.DIFFERENT
    out = capsys.readouterr().out
    assert "    law.limits.0: 0.5 -> 0.6\n" in out
    assert '    law.name: "A" -> nothing\n' in out

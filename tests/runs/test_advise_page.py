"""What `advise` shows and refuses: its page, its first screen, its help, bad input in one line."""

import re
from pathlib import Path

import pytest
from advised import TRL, advise, config, write_log
from first_screen import MOST, numbers, numbers_above_the_details, numbers_on_the_first_screen

from bandit_lab.app.cli import BAD_INPUT, OK, main


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)


def refused(capsys, *given):
    """The one line of complaint."""
    assert main(["advise", *given, "run_dir=out", "overwrite=true"]) == BAD_INPUT
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert not Path("out").exists()
    return line


def test_the_page(capsys):
    found = advise(config(), write_log(), "success=0.3")
    page, text = Path("out/report/advice.html").read_text(), Path("out/report/advice.md").read_text()
    assert "<script" not in page
    assert "data:image/png;base64," in page
    for heading in ("Answers", "Settings", "Margins", "By response time", "Groups at success", "Beware", "Assumed"):
        assert heading in page
        assert f"### {heading}" in text
    for answer in found["answers"]:
        assert answer["question"] in page
    first, _, folded = page.partition("<details>")
    assert first.index("State of this run") < first.index("<img")
    assert "What to do next" in folded
    assert "Verdict and evidence" in folded
    assert Path("out/report/advice.png").read_bytes().startswith(b"\x89PNG")
    assert len(found["assumptions"]) >= 5
    assert any("beta1 = 0.9" in line for line in found["assumptions"])


def test_the_first_screen_holds_twelve_numbers_at_most(capsys):
    """More is permitted, most failures cannot be judged, and the log contradicts the settings twice."""
    path = write_log(delay=60.0, points=400, kl=0.123, learning_rate=2e-6)
    recipe = config(TRL.replace("beta: 0.01", "beta: 0.0").replace("num_iterations: 4", "num_iterations: 2"))
    advise(recipe, path)
    page, brief = Path("out/report/advice.html").read_text(), capsys.readouterr().out
    advise(recipe, path, "-v")
    out = capsys.readouterr().out
    assert "may go up" in page
    assert page.partition("<details>")[0].count("First:") == 1
    assert "configuration has 1e-06" in page
    assert "up to 0.123" in page
    assert 8 <= len(numbers_on_the_first_screen(page)) <= MOST
    assert 8 <= len(numbers_above_the_details(out)) <= MOST
    assert 8 <= len(numbers(brief)) <= MOST


def test_names_of_others_are_no_markup(capsys):
    """Values of a configuration reach terminal, HTML and Markdown as text."""
    text = TRL + "optim: adamw\ntraining.[red]:\n  adam_beta2: 0.9\n"
    advise(f"config={config(text.replace('[red]', '<b>[red]@me'), 'a [bold]x[] $(y).yaml')}", "-v")
    assert "a [bold]x[] $(y).yaml" in capsys.readouterr().out.replace("\n", "")
    assert "<b>" not in Path("out/report/advice.html").read_text()
    assert not re.search(r"@me", Path("out/report/advice.md").read_text())


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ((), "a log (files as plain arguments), or settings such as refresh_interval=4, got nothing"),
        (("config=missing.yaml",), "missing.yaml: expected a readable file"),
        (("config=bad.yaml",), "broken document"),
        (("config=training_args.bin",), "never opened because it can run code"),
        (("config=none.yaml",), "none that is known (looked for"),
        (("config=recipe.yaml", "safety=1"), "safety: expected a number > 1"),
        (("config=recipe.yaml", "success=1.5"), "success: expected a probability"),
        (("config=recipe.yaml", "stiffness=-1"), "stiffness: expected a number > 0"),
        (("config=recipe.yaml", "stiffness=1", "delay=3"), "either stiffness or delay"),
        (("config=recipe.yaml", "staleness=old"), "staleness: expected one of refresh, lag, pipeline"),
        (("config=recipe.yaml", "refresh_interval=0"), "refresh_interval: expected an integer >= 1"),
        (("config=recipe.yaml", "framework=other"), "framework: expected one of trl, verl"),
        (("config=recipe.yaml", "options.num_iterations=many"), "num_iterations: expected a number >= 1, got 'many'"),
        (("config=recipe.yaml", "log=recipe.yaml"), "recipe.yaml"),
        (("recipe.yaml", "recipe.yaml"), "config: expected one config"),
        (("config=recipe.yaml", "signal=1"), "signal: expected a number in (0, 1)"),
        (("config=recipe.yaml", "optimizer=magic"), "optimizer: expected adamw"),
        (("framework=trl", "options.foo=4"), "options.foo: expected an option of TRL that counts here ("),
        (("framework=trl", "options.a.num_iteration=4"), "num_iterations"),
        (("config=recipe.yaml", "learningrate=1"), "did you mean learning_rate?"),
    ],
)
def test_bad_input_is_one_line(capsys, given, line):
    config()
    config("a: [1, 2\n", "bad.yaml")
    config("colour: red\n", "none.yaml")
    Path("training_args.bin").write_bytes(b"PK\x03\x04")
    assert line in refused(capsys, *given)


def test_help_names_every_setting(capsys):
    assert main(["advise", "--help", "all"]) == OK
    text = capsys.readouterr().out
    for key in ("config", "log", "options", "staleness", "stiffness", "safety", "temperature"):
        assert f"  {key} " in text
    assert "examples:" in text

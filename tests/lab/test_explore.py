"""`explore`: the page that is written, what is laid into it, and what it refuses."""

import html
import json
import re
import shlex
import subprocess
from pathlib import Path

import composing
import numpy as np
import pytest
from programs import NO_NODE, NODE

import bandit_lab as bl
from bandit_lab.app import plugins, runner
from bandit_lab.app.cli import BAD_INPUT, OK, main
from bandit_lab.lab.explore import PAGE, command
from bandit_lab.lab.explore.page import page, program

needs_node = pytest.mark.skipif(NODE is None, reason=NO_NODE)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISPLAY", "")
    monkeypatch.setenv("WAYLAND_DISPLAY", "")


def given_in(path):
    text = Path(path).read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="given">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_begins_with_the_settings_and_is_the_last_line(capsys):
    arguments = ["staleness=lag", "refresh_interval=3", "bandit=k_arm", "bandit.rewards=[0.8,0.5,0.1]"]
    assert main(["explore", *arguments, "dynamics=mean_field", "run_dir=here", "open=false"]) == OK
    assert capsys.readouterr().out.splitlines()[-1] == "here/map.html"
    begin = given_in("here/map.html")["start"]
    assert (begin["model"], begin["interval"], begin["success"]) == ("lag", 3, [0.8, 0.5, 0.1])
    assert begin["size"] is None
    assert Path("here/map.html").stat().st_size < 3_000_000
    assert [one.name for one in Path().rglob("*")] == ["here", "map.html"]


def test_without_an_output_it_lies_in_outputs_and_is_shown(capsys, monkeypatch):
    shown = []
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setattr("webbrowser.open", lambda where: shown.append(where) or True)
    assert main(["explore"]) == OK
    written = Path(capsys.readouterr().out.splitlines()[-1])
    assert written.parts[:2] == ("outputs", "explore")
    assert shown == [written.resolve().as_uri()]
    assert main(["explore", "open=false", "run_dir=other"]) == OK
    monkeypatch.setenv("DISPLAY", "")
    monkeypatch.setattr("sys.platform", "linux")
    assert main(["explore", "run_dir=third"]) == OK
    assert len(shown) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such_log.json"], "no_such_log.json"),
        (["run_dir=some.json"], "run_dir: expected a folder that can be written, got 'some.json'"),
        (["momentum=1"], "momentum: expected a number in [0, 1), got 1"),
        (["momentum=0.995"], "momentum: expected 0 to 0.99 on the page, got 0.995"),
        (["refresh_interval=500"], "refresh_interval: expected 1 to 128 on the page, got 500"),
        (["bandit=gaussian"], "bandit: expected one of two_arm, k_arm"),
        (["bandit.kind=fixed"], "bandit.kind: expected bernoulli: rewards 0 and 1, got 'fixed'"),
        (["optimizer=adam"], "optimizer: expected one of sgd, sgd_ema, nesterov"),
        (["advantage.eps=0.1"], "advantage.eps: expected 0 on the page, got 0.1"),
        (["-m", "momentum=0,0.9"], "got -m"),
    ],
)
def test_bad_input_is_one_line(arguments, said, capsys, tmp_path):
    if "run_dir=some.json" in arguments:
        Path("some.json").write_text("{}")
    before = sorted(tmp_path.iterdir())
    assert main(["explore", "open=false", *arguments]) == BAD_INPUT
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_run_of_another_command_is_no_sweep(capsys):
    assert main(["predict", "run_dir=here"]) == OK
    assert main(["explore", "here", "open=false"]) == BAD_INPUT
    assert "paths: expected the folder of a sweep" in capsys.readouterr().err
    Path("log.json").write_text("{}")
    assert main(["explore", "here", "log.json", "open=false"]) == BAD_INPUT
    assert "paths: expected one sweep's folder, got 'here, log.json'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sweeps_cells_are_those_of_its_results():
    import xarray

    grid = ["sweep.refresh_interval=[1,4]", "sweep.learning_rate=[0.05,0.5,5]", "dynamics=mean_field", "pictures=false"]
    assert main(["sweep", *grid, "momentum=0.5", "bandit.rewards=[0.8,0.2]", "run_dir=swept"]) == OK
    assert main(["explore", "swept", "run_dir=here", "open=false"]) == OK
    given = given_in("here/map.html")
    assert given["start"]["success"] == [0.8, 0.2]
    assert (given["start"]["momentum"], given["start"]["size"]) == (0.5, None)
    with xarray.open_zarr("swept/results.zarr", chunks=None) as data:
        outcome = data["outcome"].isel(kl_weight=0, momentum=0).load()
    words = dict(zip(outcome.attrs["flag_values"], outcome.attrs["flag_meanings"].split(), strict=True))
    assert len(given["sweep"]["cells"]) == 6
    for cell in given["sweep"]["cells"]:
        code = outcome.sel(refresh_interval=cell["interval"], learning_rate=cell["rate"]).item()
        assert words[code] == cell["outcome"]


def test_nothing_that_is_laid_in_ends_the_script():
    words = "</script><script>alert(1)</script><!--"
    text = page({"start": {}, "run": {"words": words}, "sweep": None})
    assert words not in text
    assert text.count("</script>") == page({"start": {}, "run": None, "sweep": None}).count("</script>")


def test_every_module_is_joined_and_every_import_is_of_one_form():
    """A module in another form would be left out of the page without a word."""
    joined = program()
    for path in PAGE.glob("*.js"):
        if path.name == "d3.min.js":
            continue
        source = path.read_text(encoding="utf-8")
        assert f"// {path.name}\n" in joined, path.name
        imports = [line for line in source.splitlines() if line.startswith("import")]
        assert [line for line in imports if not re.fullmatch(r'import \{[^}]*\} from "\./\w+\.js";', line)] == []
    assert not re.search(r"^(import|export)\b", joined, re.MULTILINE)
    assert "http" not in re.sub(r"https://d3js\.org", "", (PAGE / "index.html").read_text(encoding="utf-8"))


def test_the_library_comes_with_its_licence():
    assert "Mike Bostock" in (PAGE / "d3.LICENSE.txt").read_text(encoding="utf-8")
    assert (PAGE / "d3.min.js").read_text(encoding="utf-8").startswith("// https://d3js.org v7")


@needs_node
def test_the_joined_program_is_javascript(tmp_path):
    Path("joined.mjs").write_text(program(), encoding="utf-8")
    subprocess.run([NODE, "--check", "joined.mjs"], check=True)


@needs_node
def test_the_modules_own_tests():
    tests = Path(__file__).with_name("explore_modules.test.mjs")
    done = subprocess.run([NODE, "--test", str(tests)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@needs_node
def test_the_lines_that_the_page_copies_are_good_input_of_predict():
    """40 settings of the page, seed 7: each line is composed by Hydra and checked by `predict`."""
    code = """
      const { commandLine, checked } = await import(process.argv[1]);
      for (const one of JSON.parse(process.argv[2])) {
        console.log(commandLine(checked({ ...one, size: one.size ?? Infinity })));
      }
    """
    rng, asked = np.random.default_rng(7), []
    for _ in range(40):
        arms = int(rng.integers(2, 7))
        asked.append(
            {
                "model": str(rng.choice(["refresh", "lag", "pipeline"])),
                "convention": str(rng.choice(["heavy_ball", "ema", "nesterov"])),
                "estimator": str(rng.choice(["frozen", "uncorrected", "ratio"])),
                "advantage": str(rng.choice(["grpo", "dr_grpo", "rloo"])),
                "interval": int(rng.integers(1, 129)),
                "rate": float(10 ** rng.uniform(-6, 4)),
                "momentum": float(rng.uniform(0, 0.99)),
                "weight": float(rng.choice([0, 1e-7, 2.5])),
                "size": rng.choice([None, 2, 512]),
                "steps": 300,
                "success": rng.uniform(0, 1, arms).tolist(),
                "reference": rng.normal(0, 1e-3, arms).tolist(),
                "initial": [0.0] * arms,
            }
        )
    text = json.dumps(asked, default=int)
    module = (PAGE / "setting.js").as_uri()
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", code, module, text], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 40
    plugins.load([])
    for line, one in zip(lines, asked, strict=True):
        words = shlex.split(line)
        assert words[:4] == ["python", "-m", "bandit_lab", "predict"]
        settings, explicit = composing.settings("predict", *words[4:])
        runner.checked("predict", settings, explicit, Path("new"))
        assert settings.learning_rate == one["rate"]
        assert settings.bandit["rewards"] == one["success"]
        assert settings.refresh_interval == one["interval"]


def test_a_page_that_cannot_be_written_is_said(monkeypatch, capsys):
    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(command.durable, "write_file", full)
    assert main(["explore", "run_dir=here", "open=false"]) == 3
    assert "map.html: cannot be written (No space left on device)" in capsys.readouterr().err


def test_from_python_the_page_is_that_of_the_command_and_nothing_is_written(capsys):
    arguments = {"staleness": "lag", "refresh_interval": 3, "momentum": 0.5}
    found = bl.explore(**arguments)
    assert list(Path().iterdir()) == []
    assert capsys.readouterr() == ("", "")
    assert (
        main(["explore", *(f"{key}={value}" for key, value in arguments.items()), "run_dir=here", "open=false"]) == OK
    )
    assert found.html == Path("here/map.html").read_text(encoding="utf-8")
    assert html.unescape(re.search(r'srcdoc="(.*?)"', found._repr_html_(), re.DOTALL)[1]) == found.html
    assert bl.explore(**arguments, run_dir="other").html == Path("other/map.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="momentum: expected"):
        bl.explore(momentum=1.5)
    with pytest.raises(ValueError, match="run_dir: expected a folder that can be written"):
        bl.explore(run_dir="other/map.html")

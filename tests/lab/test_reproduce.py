"""`reproduce` on small experiments made here: files, verdicts, what is measured again and what is not, interruption."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import xarray
from settings import nightly_but
from toy_experiments import SQUARES, Lab, patch, reproduce

from bandit_lab.app.chunks import durable
from bandit_lab.app.cli import BAD_INPUT, INCOMPLETE, INTERRUPTED, OK, main
from bandit_lab.lab.reproduce import cache

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder of experiments in which `reproduce` works, with one of them."""
    monkeypatch.chdir(tmp_path)
    patch(tmp_path, monkeypatch.setattr)
    lab = Lab(tmp_path)
    lab.write("squares")
    return lab


def test_run_folder_has_pictures_numbers_and_verdicts(lab, capsys):
    assert reproduce("run_dir=run", "quality=paper") == OK
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "run"
    assert any("squares.same" in line and "yes" in line for line in out)
    assert any("squares.larger" in line and "NO" in line for line in out)
    names = {path.name for path in (lab.path / "run").iterdir()}
    assert names == {"config.yaml", "summary.json", "manifest.json", "results.zarr", "squares.csv", "squares.png"}
    same, larger = json.loads((lab.path / "run/summary.json").read_text())["claims"]
    assert {"id", "statement", "source", "predicted", "measured", "tolerance", "holds"} <= set(same)
    assert same["holds"]
    assert same["measured"] == pytest.approx(1.001)
    assert not larger["holds"]
    assert larger["explanation"] == "it is 0.1 % larger"
    assert larger["tolerance"] == pytest.approx(1e-3 * larger["predicted"])
    assert xarray.open_zarr(lab.path / "run/results.zarr", group="squares/measured").square.attrs["units"] == "m"
    assert xarray.open_zarr(lab.path / "run/results.zarr").sizes == {}
    table = (lab.path / "run/squares.csv").read_text().splitlines()
    assert table[:2] == ["role,quantity,unit,x,value", "predicted,square,m,1,1"]
    assert len(table) == 1 + 2 * 6


def test_pictures_repeat_to_the_byte_and_have_the_promised_width(lab):
    import matplotlib.image

    for run in ("one", "two"):
        assert reproduce(f"run_dir={run}", "formats=[png,pdf,svg]") == OK
    assert len(list((lab.path / "one").glob("squares*.*"))) == 4
    for path in (lab.path / "one").glob("squares*"):
        assert path.read_bytes() == (lab.path / "two" / path.name).read_bytes(), path.name
    assert matplotlib.image.imread(lab.path / "one/squares.png").shape[1] == round(200 * 3.4)


def test_another_text_setting_or_package_measures_again_and_nothing_else_does(lab, monkeypatch):
    both = ["squares low", "squares high"]
    assert reproduce("run_dir=one") == OK
    assert lab.ran() == both
    assert reproduce("run_dir=two") == OK
    assert lab.ran() == []
    assert reproduce("run_dir=three", "quality=paper") == OK
    assert lab.ran() == both
    lab.edit("squares", "x * x * 1.001", "2 * x * x * 1.001")
    assert reproduce("run_dir=four") == OK
    assert lab.ran() == both
    monkeypatch.setattr(cache, "_code", lambda: "other")
    assert reproduce("run_dir=five") == OK
    assert lab.ran() == both
    lab.edit(
        "squares", "import os\n", "import os\n\n\ndef inputs(setting):\n    return os.environ.get('FILES', '')\n\n\n"
    )
    for place, files in (("six", "first"), ("seven", "second")):
        monkeypatch.setenv("FILES", files)
        assert reproduce(f"run_dir={place}") == OK
        assert lab.ran() == both


def test_a_file_whose_measurement_uses_the_theory_is_refused_before_it_runs(lab, capsys):
    lab.edit("squares", "import os\n", "import os\nfrom bandit_lab.theory import leading_order\n")
    lab.edit("squares", "x * x * 1.001", "leading_order(x, 0.0)")
    assert reproduce("run_dir=run") == INCOMPLETE
    assert (
        "squares failed: ValueError: experiments/squares.py: measure: expected nothing of bandit_lab.theory, "
        "bandit_lab.lab.predict.fixed_point, experiments.shared.theory and no import by text, "
        "got bandit_lab.theory.leading_order in line "
    ) in capsys.readouterr().err
    assert lab.ran() == []


def test_one_failing_figure_does_not_stop_the_others(lab, capsys):
    lab.write("broken", SQUARES.replace("x * x * 1.001", "x / setting.nothing"))
    lab.write("zero", SQUARES.replace("lambda f: 1.0", "lambda f: 0.0"))
    assert reproduce("run_dir=run") == INCOMPLETE
    err = capsys.readouterr().err
    assert "broken failed: AttributeError: nothing: expected a key of the experiment's YAML file" in err
    assert "zero.same: expected a finite prediction other than 0" in err
    assert "2 of 3 figures failed (broken, zero); what is finished is kept" in err
    summary = json.loads((lab.path / "run/summary.json").read_text())
    assert {one["id"]: one["status"] for one in summary["figures"]} == {
        "broken": "failed",
        "squares": "done",
        "zero": "failed",
    }
    assert (lab.path / "run/squares.png").exists()
    assert "Traceback" in (lab.path / "run/broken.error.txt").read_text()
    assert not (lab.path / "run/manifest.json").exists()
    for name in ("broken", "zero"):
        lab.write(name)
    lab.ran()
    assert reproduce("run_dir=run") == OK
    assert not [line for line in lab.ran() if line.startswith("squares")]
    assert (lab.path / "run/broken.png").exists()
    assert not (lab.path / "run/broken.error.txt").exists()


PROCESS = """
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {tests!r} + "/lab", {tests!r} + "/app"]
from toy_experiments import patch
patch(Path.cwd(), setattr)
from bandit_lab.__main__ import main
sys.argv = ["bandit_lab", "reproduce", "cache=cache", "run_dir=run"]
sys.exit(main())
"""


@pytest.mark.parametrize("number", nightly_but([signal.SIGKILL], [signal.SIGINT, signal.SIGKILL]))
def test_a_signal_half_way_loses_only_the_piece_at_work(lab, number):
    stop = '    if name == "high" and not Path("go").exists():\n        import time\n        time.sleep(600)\n'
    lab.edit("squares", "    half =", stop + "    half =")
    code = PROCESS.format(tests=str(Path(__file__).parents[1]))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen([sys.executable, "-c", code], cwd=lab.path, env=environment, stderr=subprocess.PIPE)
    while "squares high" not in (lab.path / "ran.txt").read_text() if (lab.path / "ran.txt").exists() else True:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (INTERRUPTED if number == signal.SIGINT else -signal.SIGKILL)
    lab.ran()
    (lab.path / "go").touch()
    assert reproduce("run_dir=run") == OK
    assert lab.ran() == ["squares high"]


def test_a_full_disk_stops_the_run_and_keeps_what_is_finished(lab, monkeypatch, capsys):
    write, full = durable.write_file, []

    def refuse(path, data):
        if full and path.suffix == ".npz":
            raise OSError(errno.ENOSPC, "No space left on device")
        full.extend([path] if path.suffix == ".npz" else [])
        write(path, data)

    with monkeypatch.context() as disk:
        disk.setattr(durable, "write_file", refuse)
        assert reproduce("run_dir=run") == INTERRUPTED
    assert "No space left" in capsys.readouterr().err
    lab.ran()
    assert reproduce("run_dir=run") == OK
    assert lab.ran() == ["squares high"]


def test_a_damaged_entry_is_measured_again(lab):
    assert reproduce("run_dir=one") == OK
    lab.ran()
    for place, path in enumerate(sorted((lab.path / "cache").rglob("*.npz"))):
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] if place % 2 else data[:200] + bytes([data[200] ^ 255]) + data[201:])
    assert reproduce("run_dir=two") == OK
    assert lab.ran() == ["squares low", "squares high"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("figures=[squares,cubes]", "figures: expected all, or some of squares, got 'cubes'"),
        ("figures=null", "figures: expected all, or names with commas between, got None"),
        ("numbers=figures", "numbers: expected a folder to which reproduce has published, got 'figures'"),
    ],
)
def test_bad_input_is_one_line_before_any_work(lab, capsys, argument, message):
    before = sorted(path.name for path in lab.path.iterdir())
    assert main(["reproduce", "run_dir=run", argument]) == BAD_INPUT
    err = capsys.readouterr().err
    assert err.startswith(f"bandit_lab reproduce: {message}")
    assert err.count("\n") == 1
    assert sorted(path.name for path in lab.path.iterdir()) == before
    assert lab.ran() == []


def test_publishing_merges_and_writes_the_index(lab):
    for name in ("cubes", "gone"):
        lab.write(name)
    assert reproduce("figures='cubes, gone,squares'", "run_dir=one", "publish=figures") == OK
    before = json.loads((lab.path / "figures/claims.json").read_text())
    assert [row["figure"] for row in before["claims"]] == ["cubes", "cubes", "gone", "gone", "squares", "squares"]
    (lab.path / "experiments/gone.py").unlink()
    lab.write("new")
    lab.edit("squares", "They are the same", "They do not differ")
    text = "\n\ndef table(found):\n    return '| a | b |'\n"
    lab.write("squares", (lab.path / "experiments/squares.py").read_text() + text)
    assert reproduce("figures=squares", "run_dir=two", "publish=figures", "quality=paper") == OK
    after = json.loads((lab.path / "figures/claims.json").read_text())
    assert [row["figure"] for row in after["claims"]] == ["cubes", "cubes", "squares", "squares"]
    assert after["claims"][:2] == before["claims"][:2]
    assert (after["claims"][2]["statement"], after["claims"][2]["quality"]) == ("They do not differ", "paper")
    page = (lab.path / "figures/claims.md").read_text()
    for part in ("4 claims, of which 2 hold. 4 of them are independent checks", "They do not differ", "| a | b |"):
        assert part in page
    assert {"squares.png", "squares.csv"} <= {p.name for p in (lab.path / "figures").iterdir()}
    assert "| 1 of 2 |" in (lab.path / "experiments/README.md").read_text()


def test_what_is_published_is_drawn_again_from_its_numbers_without_a_measurement(lab):
    """The same pictures to the byte; another finding and another drawing are taken up, verdicts stay."""
    assert reproduce("run_dir=one", "publish=figures", "quality=paper") == OK
    before = {path.name: path.read_bytes() for path in (lab.path / "figures").iterdir()}
    lab.ran()
    assert reproduce("run_dir=two", "numbers=figures", "publish=figures", "cache=null") == OK
    assert {path.name: path.read_bytes() for path in (lab.path / "figures").iterdir()} == before
    lab.edit("squares", '"o")', '"x")')
    lab.edit("squares", "grow", "rise")
    assert reproduce("run_dir=three", "numbers=figures", "publish=figures", "cache=null", "formats=[pdf,png]") == OK
    after = {path.name: path.read_bytes() for path in (lab.path / "figures").iterdir()}
    assert set(after) - set(before) == {"squares.pdf"}
    same = {name for name in before if before[name] == after[name]}
    assert same == {"squares.csv"}
    content = json.loads(after["claims.json"])
    assert content["claims"] == json.loads(before["claims.json"])["claims"]
    assert content["figures"]["squares"]["finding"] == "Squares rise 1.001 times as fast"
    assert lab.ran() == []

"""A plug-in that was edited between two runs: nothing of the first is used for the second, and the message says why."""

import sys

import numpy as np
import pytest

from bandit_lab.app import plugins
from bandit_lab.app.chunks import ChunkStore
from bandit_lab.app.cli import main
from bandit_lab.app.folder import store
from bandit_lab.app.folder.manifest import config_hash

BANDIT = """
import numpy
from rewards_of_mine import REWARDS
from bandit_lab.bandits import k_arm, register_bandit

@register_bandit("edited")
def edited():
    return k_arm(REWARDS)
"""
NAMES = ("edited_bandit", "rewards_of_mine", "beside")
CHOSEN = {"plugins": ["edited_bandit"], "bandit": {"name": "edited"}, "advantage": {"name": "grpo"}}


def forget():
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a plug-in of two files; it is forgotten afterwards."""
    registry = plugins.registries()["bandit"]
    before = dict(registry._builders)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [p for p in sys.path if p])
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    (tmp_path / "edited_bandit.py").write_text(BANDIT)
    (tmp_path / "rewards_of_mine.py").write_text("REWARDS = (0.8, 0.4)\n")
    (tmp_path / "beside.py").write_text("OTHER = 1\n")
    yield tmp_path
    registry._builders = before
    forget()


def loaded():
    forget()
    plugins.load(["edited_bandit"])
    return plugins.source_of(CHOSEN)


def test_the_hash_is_of_what_was_imported_and_of_what_that_imports_beside_it(folder):
    first = loaded()
    assert set(first) == {"edited_bandit", "rewards_of_mine"}
    assert plugins.source_of({"bandit": {"name": "edited"}}) == first  # an entry point: no plugins= names it
    assert plugins.source_of({"bandit": {"name": "two_arm"}, "plugins": []}) == {}
    (folder / "rewards_of_mine.py").write_text("REWARDS = (0.8, 0.3)\n")
    assert plugins.source_of(CHOSEN) == first
    second = loaded()
    assert [name for name in first if first[name] != second[name]] == ["rewards_of_mine"]
    (folder / "beside.py").write_text("OTHER = 2\n")
    assert loaded() == second
    assert config_hash(CHOSEN, {}, first) != config_hash(CHOSEN, {}, second)


def test_an_environment_in_the_same_folder_does_not_count(folder, monkeypatch):
    installed = folder / ".venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "beside.py").write_text("OTHER = 3\n")
    (folder / "beside.py").unlink()
    (folder / "rewards_of_mine.py").write_text("import beside\nREWARDS = (0.8, 0.4)\n")
    monkeypatch.syspath_prepend(str(installed))
    assert set(loaded()) == {"edited_bandit", "rewards_of_mine"}


def test_a_begun_run_of_another_source_is_refused_by_name(folder):
    settings = {"settings": CHOSEN, "plugin_source": loaded()}
    ChunkStore(folder / "run").open(settings)
    assert store.state_of(folder / "run", settings, False) == store.BEGUN
    (folder / "rewards_of_mine.py").write_text("REWARDS = (0.8, 0.3)\n")
    with pytest.raises(ValueError, match=r"run_dir: .*another source of the plug-in rewards_of_mine"):
        store.state_of(folder / "run", settings | {"plugin_source": loaded()}, False)


def test_a_sweep_after_the_edit_does_not_take_the_old_results(folder, capsys):
    fewer = ["sweep.refresh_interval=[2]", "momentum=0.5", "sweep.learning_rate.num=8", "pictures=false", "quiet=true"]
    sweep = ["sweep", "plugins=[edited_bandit]", "bandit=edited", "dynamics=mean_field", *fewer, "run_dir=run"]
    assert main(sweep) == 0
    forget()
    assert main(sweep) == 0
    assert "finished already" in capsys.readouterr().out
    text = (folder / "edited_bandit.py").read_text()
    (folder / "edited_bandit.py").write_text(text.replace("k_arm(REWARDS)", "k_arm(REWARDS[::-1])"))
    forget()
    assert main(sweep) == 2
    assert "a finished run of another source of the plug-in edited_bandit in run" in capsys.readouterr().err
    assert main([*sweep, "overwrite=true"]) == 0


def test_chunks_of_two_sources_have_two_keys(folder, monkeypatch):
    from test_sweep_jobs import work

    from bandit_lab.app.chunks.run import key_of

    here = work()
    monkeypatch.setattr(here.plan.settings, "plugins", ["edited_bandit"])
    keys = []
    for rewards in ((0.8, 0.4), (0.8, 0.3), (0.8, 0.4)):
        (folder / "rewards_of_mine.py").write_text(f"REWARDS = {rewards}\n")
        loaded()
        keys.append(key_of(here))
    assert keys[0] == keys[2] != keys[1]
    assert np.unique([*keys, key_of(work())]).size == 3

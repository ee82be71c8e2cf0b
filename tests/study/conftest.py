"""What several files of this room are given."""

import pytest
from toy_experiments import Lab, patch


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder of experiments in which `reproduce` works, with one of them."""
    monkeypatch.chdir(tmp_path)
    patch(tmp_path, monkeypatch.setattr)
    lab = Lab(tmp_path)
    lab.write("squares")
    return lab

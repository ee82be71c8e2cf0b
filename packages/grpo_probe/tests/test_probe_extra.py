"""What the probe says where its extra is not installed."""

import importlib
import sys

import pytest


@pytest.mark.parametrize("name", ["probe", "probe_margin", "probe_sharpness", "probe_trl"])
def test_without_the_extra_one_line_says_which(monkeypatch, name):
    for loaded in [one for one in sys.modules if one.startswith("grpo_probe.probe")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"^StiffnessProbe: .* pip install "):
        importlib.import_module(f"grpo_probe.{name}")

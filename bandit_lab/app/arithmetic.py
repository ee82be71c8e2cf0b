"""What the bits of a result depend on besides its settings: kernels, instruction set, device, compiler's switches.

Two processes of equal `arithmetic()` and equal versions compute the same bits. Model and instruction sets stand for
what LLVM makes of the processor: it vectorises and fuses by both. Flags of a kernel or a hypervisor do not count, else
an update of the system would throw away what is finished.
"""

import os
import platform
import re
from pathlib import Path
from typing import Any

_SETS = re.compile(r"(sse|ssse|avx|fma|f16c|bmi|abm|amx|asimd|sve|fphp|neon|vsx|zv)\w*|sme\d?(_\w+)?|fp|v")
_MODEL = ("vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant", "uarch", "isa")
_NO_BITS = ("--xla_force_host_platform_device_count", "--xla_dump", "--xla_hlo_profile")


def arithmetic() -> dict[str, Any]:
    """Plain values. Initialises JAX."""
    import jax

    from bandit_lab.simulation.one_kernel import in_use

    device = jax.devices()[0]
    version = str(getattr(getattr(device, "client", None), "platform_version", ""))
    return {
        "one_kernel": in_use(),
        "device": [device.platform, device.device_kind, " ".join(version.split())],
        "processor": processor(),
        "xla_flags": sorted(f for f in os.environ.get("XLA_FLAGS", "").split() if not f.startswith(_NO_BITS)),
    }


def processor(about: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """Model and instruction sets of the first core; elsewhere than on Linux, what Python knows."""
    try:
        lines = about.read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        lines = []
    found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = (found.get("flags") or found.get("Features") or "").split()
    model = {key: found[key] for key in _MODEL if key in found}
    sets = " ".join(sorted(flag for flag in flags if _SETS.fullmatch(flag)))
    return {"machine": platform.machine(), **(model or {"name": platform.processor()}), "instructions": sets}


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Names of the parts that differ."""
    return [name.replace("_", " ") for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]

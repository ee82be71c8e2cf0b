"""The machine of a measurement."""

import os
import platform
from pathlib import Path
from typing import Any

from bandit_lab.app.document.value import number


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe() -> dict[str, Any]:
    """Processor, cores (of the machine, and those this process may use), load before the run, memory, versions."""
    import jax
    import jaxlib
    import numpy

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    device = jax.devices()[0]
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "load_before": load,
        "memory_bytes": _memory(),
        "device": {"platform": device.platform, "kind": device.device_kind, "count": jax.device_count()},
        "versions": {
            "python": platform.python_version(),
            "jax": jax.__version__,
            "jaxlib": jaxlib.__version__,
            "numpy": numpy.__version__,
        },
    }


def line(about: dict[str, Any], threads: int) -> str:
    """The same in one line."""
    return (
        f"{about['processor']}, {about['usable_cores']} cores, {threads} threads, "
        f"jax {about['versions']['jax']}, numpy {about['versions']['numpy']}; "
        f"load before {number(about['load_before'], 2)}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None

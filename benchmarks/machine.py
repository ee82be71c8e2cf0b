"""The machine of a measurement."""

import os
import platform
from pathlib import Path

import jax
import numpy


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def line(threads: int) -> str:
    """Processor, cores, threads, versions and the load before the run."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8", errors="replace").splitlines() if about.is_file() else []
    models = [one.split(":", 1)[1].strip() for one in lines if one.startswith("model name")]
    processor = models[0] if models else platform.processor() or platform.machine()
    device, load = jax.devices()[0].device_kind, os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    versions = f"jax {jax.__version__}, numpy {numpy.__version__}"
    return f"{processor}, {usable_cores()} cores, {threads} threads, device {device}, {versions}; load {load:.2g}"

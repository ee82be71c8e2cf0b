"""How many seconds JAX spent compiling."""

from typing import Any

_listening: list["CompileClock"] = []
_registered = False


class CompileClock:
    """Inside the `with` block, adds up the time of tracing, lowering and compiling. Concurrent compilations add."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.programs = 0

    def __enter__(self) -> "CompileClock":
        global _registered
        if not _registered:
            import jax.monitoring

            jax.monitoring.register_event_duration_secs_listener(_hear)
            _registered = True
        _listening.append(self)
        return self

    def split(self, wall: float) -> dict[str, float]:
        """Seconds for a manifest out of `wall`: programs that are compiled at the same time count up to that."""
        compiling = min(self.seconds, wall)
        return {"wall": wall, "compile": compiling, "run": wall - compiling}

    def __exit__(self, *error: Any) -> None:
        _listening.remove(self)


def _hear(event: str, duration_secs: float, **_: str | int) -> None:
    if not event.startswith("/jax/core/compile/"):
        return
    for clock in _listening:
        clock.seconds += duration_secs
        clock.programs += event.endswith("backend_compile_duration")

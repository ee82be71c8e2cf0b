"""Starts commands in processes that cost no imports: everything is imported once, each command is a fork of that.

A fork is safe here because nothing that is imported starts threads, as JAX's backend would, before the fork: `_serve`
looks.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Zygote:
    """The parent of all commands of a test module. `environment` is that of every command."""

    def __init__(self, **environment: str) -> None:
        variables = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
        variables["TF_CPP_MIN_LOG_LEVEL"] = "3"  # as the command line sets it before it imports JAX
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=variables | environment,
        )

    def run(
        self,
        arguments: list[str],
        log: Path,
        *,
        signal_after: Callable[[], bool] | float | None = None,
        number: int = signal.SIGKILL,
        die: dict[str, Any] | None = None,
    ) -> int:
        """Run a command and wait for it. Returns its exit code, negative if a signal ended it.

        Args:
          log: where its output goes. signal_after: seconds, or a condition that is looked at every few milliseconds,
            after which signal `number` is sent. die: see `_arm`.
        """
        self.process.stdin.write(json.dumps({"arguments": arguments, "log": str(log), "die": die}) + "\n")
        child = int(self.process.stdout.readline())
        if signal_after is not None:
            start = time.monotonic()
            due = signal_after if callable(signal_after) else (lambda: time.monotonic() - start >= signal_after)
            while not select.select([self.process.stdout], [], [], 0.003)[0]:
                if due():
                    os.kill(child, number)
                    break
        return int(self.process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _arm(die: dict[str, Any] | None) -> None:
    """Have this process killed at a moment of writing.

    replace: name of the file or folder that is about to be moved to its place (`after` it if that is set). removal:
    when half of the chunks' folder is removed.
    """
    if die is None:
        return
    from bandit_lab.app.chunks import ChunkStore, durable

    def cut() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    class Disk:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def replace(self, partial: Any, path: Path) -> None:
            if path.name == die.get("replace") and not die.get("after"):
                cut()
            os.replace(partial, path)
            if path.name == die.get("replace"):
                cut()

    def remove(store: ChunkStore) -> None:
        for path in sorted(store.folder.iterdir())[::2]:
            path.unlink()
        cut()

    disk: Any = Disk()
    durable.os = disk
    if die.get("removal"):
        ChunkStore.remove = remove  # type: ignore[method-assign]


def _child(request: dict[str, Any]) -> None:
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["bandit_lab", *request["arguments"]]
    _arm(request["die"])
    from bandit_lab.__main__ import main

    code = 1
    try:
        code = main()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _serve() -> None:
    import hydra
    import matplotlib.figure
    import rich.table
    import xarray
    import zarr

    from bandit_lab.app import plugins
    from bandit_lab.app.folder import results
    from bandit_lab.lab.sweep import command

    assert all((hydra, matplotlib.figure, rich.table, xarray, zarr, results, command, plugins.registries()))
    for task in Path("/proc/self/task").glob("*/comm"):  # of libraries too: a backend of JAX has a dozen threads
        assert task.parent.name == str(os.getpid()) or task.read_text() == "jemalloc_bg_thd\n"  # which may be lost
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _child(json.loads(line))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve()

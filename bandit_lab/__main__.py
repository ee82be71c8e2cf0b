"""`python -m bandit_lab <command> [overrides]`, which Ctrl-C and SIGTERM end at once.

Python runs the handler of a signal between two instructions of the main thread, which a long compiled call does not
reach for minutes. The system, though, writes a byte into a pipe at once: a thread that reads it says how to go on and
ends the process. Nothing is lost by that: what is on the disk is whole at every moment.
"""

import gc
import os
import sys

if __name__ == "__main__":
    gc.set_threshold(100_000, 20, 20)  # what is imported stays: to look through it takes a sixth of a short command
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
    del sys.path[0]  # as `python -P`: the working directory may be somebody's run, and is no place for code

import io
import signal
import threading
from collections.abc import Callable

from bandit_lab.app import cli

__all__ = ["end_at_once", "main"]


def end_at_once(last_words: Callable[[], str]) -> None:
    """From now on SIGINT and SIGTERM end the process; `last_words` go to stderr."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signals = [one for one in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(one) != signal.SIG_IGN]
    for one in signals:  # a job in the background keeps ignoring the terminal's Ctrl-C
        signal.signal(one, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def watch() -> None:
        while os.read(reader, 1)[0] not in signals:
            pass
        try:
            if words := last_words():
                below_bars = "\n\x1b[?25h" if os.isatty(2) else ""  # with the cursor that they hide
                os.write(2, f"{below_bars}{words}\n".encode())  # the main thread may be inside sys.stderr
        finally:
            os._exit(cli.INTERRUPTED)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """One command, and the process's exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # started without it (`>&-`)
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    end_at_once(cli.last_words)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path that is not UTF-8, or an encoding that lacks a letter
        sys.stdout.reconfigure(errors="backslashreplace")
    return cli.main()


if __name__ == "__main__":
    ended = main()
    gc.freeze()  # else Python looks through all that is left before it ends: as long as a prediction
    sys.exit(ended)

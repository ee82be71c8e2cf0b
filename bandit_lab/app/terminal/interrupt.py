"""Ctrl-C and SIGTERM end a command within two seconds, whatever its main thread is doing.

Python runs signal handlers between two instructions of the main thread, which a long compiled call does not reach for
minutes. The system's own handler, though, writes a byte into a pipe at once: a thread that reads it gives the main
thread `GRACE` seconds and then ends the process. Nothing is lost by that: what is on the disk is whole at every moment.

The first signal is the last one that counts: another Ctrl-C would else cut off the line that says how to go on.

A signal that arrives in a callback of the garbage collector (JAX has one) cannot be raised: Python prints a trace and
goes on. The trace is left out, and the thread ends the process.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from bandit_lab.app.terminal.output import tell

GRACE = 1.2  # seconds for the main thread to come back by itself
EXIT = 3
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h"


@contextlib.contextmanager
def interruptible(last_words: Callable[[], str]) -> Iterator[None]:
    """Inside, SIGINT and SIGTERM raise KeyboardInterrupt, once. Its `last_words` then go to stderr, also where the
    process has to be ended; KeyboardInterrupt goes on."""
    words = _Words(last_words)
    if threading.current_thread() is not threading.main_thread():
        with words.at_interruption():
            yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    back = threading.Event()
    watch = threading.Thread(target=_watch, args=(reader, back, words), daemon=True)
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # a job in the background keeps ignoring the terminal's Ctrl-C
            signal.signal(number, _raise)
    old_pipe = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    old_hook, sys.unraisablehook = sys.unraisablehook, _quiet(sys.unraisablehook)
    watch.start()
    try:
        with words.at_interruption():
            yield
    finally:
        back.set()
        signal.set_wakeup_fd(old_pipe)
        sys.unraisablehook = old_hook
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writer)


class _Words:
    """The last words, said once by whichever thread comes first."""

    def __init__(self, last_words: Callable[[], str]) -> None:
        self.text, self.lock, self.spoken = last_words, threading.Lock(), False

    def say(self, how: Callable[[str], object] = tell) -> None:
        """Say them; while the other thread does, wait: it may end the process."""
        with self.lock:
            if not self.spoken:
                self.spoken = True
                how(f"{_SHOW_CURSOR if sys.stderr.isatty() else ''}{self.text()}")

    @contextlib.contextmanager
    def at_interruption(self) -> Iterator[None]:
        """Say them if the block is interrupted."""
        try:
            yield
        except KeyboardInterrupt:
            self.say()
            raise


def end_at_once() -> None:
    """From now on a signal ends the process without a trace; `interruptible` says more while a command works."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: leave())


def leave() -> NoReturn:
    """End the process at once, without waiting for threads that still compute."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(EXIT)


def _raise(number: int, frame: FrameType | None) -> None:
    for one in _SIGNALS:
        if signal.getsignal(one) == _raise:
            signal.signal(one, _ignore)  # not SIG_IGN, which processes that are started would inherit
    raise KeyboardInterrupt


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


def _quiet(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`hook` for exceptions that cannot be raised, but for interruptions."""
    return lambda lost: None if issubclass(lost.exc_type, KeyboardInterrupt) else hook(lost)


def _watch(reader: int, back: threading.Event, words: _Words) -> None:
    """Wait for a signal's byte or the pipe's end."""
    received = os.read(reader, 1)
    if received and received[0] in _SIGNALS and not back.wait(GRACE):
        words.say(lambda text: os.write(2, f"{text}\n".encode()))  # the main thread may be inside sys.stderr
        leave()
    os.close(reader)

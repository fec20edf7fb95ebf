"""Ends a command in order when it is told to stop."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(BaseException):
    """Ctrl-C or SIGTERM: end in order. No error, so nothing but `up` may catch it."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Turn the first signal to stop into `Stopped`; later ones find us stopping already."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, stop) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

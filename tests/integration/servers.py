"""Servers of a test's own, which it may stop, kill and start again."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from cli.embedded import (
    await_answer,
    postgres_answers,
    postgres_program,
    valkey_answers,
    valkey_program,
)
from cli.processes import start


class Server:
    """A server that can be killed, and comes back with what it has on disk."""

    def __init__(self, folder: Path, made: Any, answers: Any) -> None:
        folder.mkdir()
        self._program, self.url = made(folder)
        self._answers = answers
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = start(self._program, self._log)
        await_answer(lambda: self._answers(self.url), self._process, self._log)

    def kill(self) -> None:
        """End it as a crash does."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes, so that none of them goes on alone."""
        assert self._process is not None
        pid = self._process.pid
        if self._process.poll() is None:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for each in (pid, *map(int, children)):
                os.kill(each, number)


def valkey(folder: Path) -> Server:
    """Return a Valkey in `folder`, not started yet."""
    return Server(folder, valkey_program, valkey_answers)


def postgres(folder: Path) -> Server:
    """Return a Postgres in `folder`, not started yet; what it acknowledged outlives a crash."""
    return Server(folder, postgres_program, postgres_answers)

"""Keeps programs running: starts a part again when it dies, stops all of them at the end."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from cli.processes import Program, ask_to_stop, await_end, last_line, start

_STEADY_S = 10.0
"""A part that ran this long is healthy: its next death counts as the first."""
_STOP_S = 6.0
"""Longer than `serve` gives the requests under way."""


def backoff_s(n_deaths: int) -> float:
    """Seconds to wait before a part is started again: 0.2, 0.4, 0.8 ... at most 10."""
    return float(min(10.0, 0.2 * 2 ** (n_deaths - 1)))


@dataclass
class Part:
    """A program that should be running, and its present process."""

    program: Program
    log: Path
    process: "Popen[bytes]"
    started_at: float
    n_deaths: int = 0
    start_at: float | None = field(default=None)  # set while it waits to be started again


class Supervisor:
    """Owns the processes it starts. Call `tick` a few times a second; use it in a `with` block."""

    def __init__(
        self, logs: Path, *, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare; `say` is told in one sentence what happens to a part."""
        self.logs = logs
        self._say = say
        self._clock = clock
        self.parts: list[Part] = []

    def __enter__(self) -> "Supervisor":
        """Begin."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop every part."""
        self.stop()

    def add(self, program: Program) -> Part:
        """Start a program and keep it running from now on."""
        log = self.logs / f"{program.name}.log"
        part = Part(program, log, start(program, log), self._clock())
        self.parts.append(part)
        return part

    def pids(self) -> dict[str, int]:
        """Name the process of each part."""
        return {part.program.name: part.process.pid for part in self.parts}

    def tick(self) -> None:
        """Notice parts that died, and start again those whose time has come."""
        now = self._clock()
        for part in self.parts:
            if part.start_at is None and part.process.poll() is not None:
                self._died(part, now)
            if part.start_at is not None and now >= part.start_at:
                part.process = start(part.program, part.log)
                part.started_at, part.start_at = now, None

    def stop(self) -> None:
        """End all parts: first those who use the servers, together, then the servers."""
        for servers in (False, True):
            parts = [part for part in self.parts if part.program.stops_last is servers]
            for part in parts:
                ask_to_stop(part.program, part.process)
            for part in parts:
                await_end(part.process, timeout_s=_STOP_S)
        self.parts.clear()

    def _died(self, part: Part, now: float) -> None:
        steady = now - part.started_at >= _STEADY_S
        part.n_deaths = 1 if steady else part.n_deaths + 1
        wait_s = backoff_s(part.n_deaths)
        part.start_at = now + wait_s
        how = _how(part.process.returncode)
        said = last_line(part.log)
        self._say(
            f"{part.program.name} {how}, starting it again in {wait_s:g} s"
            + (f"; it last said: {said}" if said else "")
        )


def _how(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"

"""One program to run as a child process: what to start, how to stop it, where its log goes."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_LAUNCH = Path(__file__).with_name("launch.py")


@dataclass(frozen=True, kw_only=True)
class Program:
    """A command line and the manners it needs.

    `system_user` is whom to run as, None for whoever we are. `stop_signal` asks it to end in
    order; `death_signal` is what the kernel sends it when we are killed; `stops_last` is for
    servers, which others use until the end.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    system_user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals = signal.SIGTERM
    stops_last: bool = False


def launched(program: Program) -> list[str]:
    """Wrap a command line so that the program drops rights and dies with this process."""
    return [
        sys.executable,
        "-ISE",
        str(_LAUNCH),
        str(os.getpid()),
        str(int(program.death_signal)),
        program.system_user or "-",
        *program.command,
    ]


def start(program: Program, log: Path) -> "subprocess.Popen[bytes]":
    """Start a program, appending what it says to `log`; it hears no Ctrl-C of the terminal."""
    with log.open("ab") as sink:
        return subprocess.Popen(
            launched(program),
            cwd=program.folder,
            env={**os.environ, **program.environ},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )


def ask_to_stop(program: Program, process: "subprocess.Popen[bytes]") -> None:
    """Tell a process to end in order, if it still runs."""
    if process.poll() is None:
        process.send_signal(program.stop_signal)


def await_end(process: "subprocess.Popen[bytes]", *, timeout_s: float) -> None:
    """Wait for a process that was asked to stop, and kill it when it does not."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_line(log: Path) -> str:
    """Return the last line with text in a log, for an error message; empty if there is none."""
    if not log.exists():
        return ""
    lines = [line for line in log.read_text(errors="replace").splitlines()[-50:] if line.strip()]
    return lines[-1].strip()[:300] if lines else ""

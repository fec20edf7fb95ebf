"""Runs this very program again as a child process: the parts of `foryou up`, and its import."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

from cli.address import Address
from cli.processes import Program, launched
from feed.settings import Settings

SERVERS = ("postgres_url", "redis_url", "queue_url")
"""Settings that name a server."""

_ROOT = Path(__file__).resolve().parents[1]


def variable(setting: str) -> str:
    """Name the environment variable of a setting."""
    return f"FORYOU_{setting.upper()}"


def environ_of(settings: Settings) -> dict[str, str]:
    """Write settings as the environment of the parts: those that differ from the defaults.

    The servers are always written, so that none is inherited from our own environment.
    """
    defaults = asdict(Settings())
    return {
        variable(name): str(value)
        for name, value in asdict(settings).items()
        if value != defaults[name] or name in SERVERS
    }


def as_shell(environ: Mapping[str, str]) -> str:
    """Write an environment as lines that a shell can read."""
    return "\n".join(f"{name}={shlex.quote(value)}" for name, value in sorted(environ.items()))


def _foryou(*arguments: str) -> tuple[str, ...]:
    # -P: the current folder must not shadow our packages; somebody's own may hold an "api" too.
    return (sys.executable, "-P", "-m", "cli.main", *arguments)


def _child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(_ROOT), *([inherited] if inherited else [])]
    return {**environ, "PYTHONPATH": os.pathsep.join(paths)}


def part_program(name: str, address: Address, environ: Mapping[str, str]) -> Program:
    """Describe the process of a part: `api`, `relay`, `worker-fast` or `worker-slow`."""
    arguments = {
        "api": ("serve", "--host", address.host, "--port", str(address.port)),
        "worker-fast": ("worker", "--lane", "fast"),
        "worker-slow": ("worker", "--lane", "slow"),
    }
    return Program(
        name=name,
        command=_foryou(*arguments.get(name, (name,))),
        folder=Path.cwd(),
        environ=_child_environ(environ),
        death_signal=signal.SIGKILL,  # every part may be killed at any time (promise P4)
    )


def run_import(samples: Path, environ: Mapping[str, str], *, report: Path) -> bool:
    """Run `foryou import` on a folder of old data, as if it were of today; say whether it went."""
    program = Program(
        name="import",
        command=_foryou("import", str(samples), "--shift-to-now", "--report", str(report)),
        folder=Path.cwd(),
        environ=_child_environ(environ),
        death_signal=signal.SIGKILL,
    )
    try:
        done = subprocess.run(
            launched(program),
            env={**os.environ, **program.environ},
            stdout=sys.stderr,
            check=False,
        )
    finally:
        if sys.stderr.isatty():  # a bar that was killed has left the cursor hidden
            click.echo("\033[?25h", nl=False, err=True)
    return done.returncode == 0

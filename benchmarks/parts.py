"""The parts of the product as processes under measure, on the servers of a benchmark."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import Servers
from cli.embedded import await_answer, free_port, is_free
from cli.processes import Program, ask_to_stop, await_end, start
from feed.settings import Settings

ROOT = Path(__file__).parents[1]
LANES = ("fast", "slow")


@dataclass(frozen=True)
class Process:
    """A server under measure."""

    port: int
    pid: int


def settings_on(running: Servers) -> Settings:
    """Return the settings of a product on these servers; all else is the default."""
    return Settings(
        postgres_url=running.postgres_url,
        redis_url=running.redis_url,
        auth="dev",
        cursor_keys="signs cursors of benchmarks only",
    )


@contextmanager
def service(settings: Settings, folder: Path) -> Iterator[Process]:
    """Run `foryou serve`; its log is `service.log`."""
    port = free_port()
    program = _part(settings, "service", "serve", "--port", str(port))
    with listening(program, port, folder) as process:
        yield process


@contextmanager
def delivery(settings: Settings, folder: Path) -> Iterator[dict[str, int]]:
    """Run the relay and a worker for each lane, as `foryou up` does; lend their process ids."""
    programs = [
        _part(settings, "relay", "relay"),
        *(_part(settings, f"worker-{lane}", "worker", "--lane", lane) for lane in LANES),
    ]
    with ExitStack() as stack:
        yield {each.name: stack.enter_context(_running(each, folder)) for each in programs}


@contextmanager
def listening(program: Program, port: int, folder: Path) -> Iterator[Process]:
    """Run a program until the block ends, from when it listens on a port of loopback."""
    log = folder / f"{program.name}.log"
    process = start(program, log)
    try:
        await_answer(lambda: not is_free(port), process, log)
        yield Process(port, process.pid)
    finally:
        ask_to_stop(program, process)
        await_end(process, timeout_s=10)


@contextmanager
def _running(program: Program, folder: Path) -> Iterator[int]:
    process = start(program, folder / f"{program.name}.log")
    try:
        yield process.pid
    finally:
        ask_to_stop(program, process)
        await_end(process, timeout_s=10)


def _part(settings: Settings, name: str, *arguments: str) -> Program:
    environ = {
        "FORYOU_POSTGRES_URL": settings.postgres_url,
        "FORYOU_REDIS_URL": settings.redis_url,
        "FORYOU_AUTH": settings.auth,
        "FORYOU_CURSOR_KEYS": settings.cursor_keys,
    }
    command = (sys.executable, "-m", "cli.main", *arguments)
    return Program(name=name, command=command, folder=ROOT, environ=environ)

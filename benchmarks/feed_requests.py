"""Measures requests for feeds against their ceiling, both over HTTP, in turns, in one run."""

import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.ceiling import write_answers
from benchmarks.load import Client, Load, Target, load
from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.recorded import record
from benchmarks.result import Result, spread
from benchmarks.servers import Servers, migrated, servers
from benchmarks.world import Shape, load_world
from cli.embedded import await_answer, free_port, is_free
from cli.processes import Program, ask_to_stop, await_end, start
from feed.settings import Settings

FEED = "/api/v1/feed"
CONNECTIONS = 8
WARM_UP_S = 1.0
READY_S = 30.0
CEILING = "a bare Starlette handler: the same round trips, the same bytes, nothing ranked"
ROOT = Path(__file__).parents[1]

Choose = Callable[[int, range], Awaitable[list[Target]]]
"""From the port of the service and its readers to what is asked for."""


async def measure(name: str, options: Options, choose: Choose) -> Result:
    """Load a world, warm the service, record what it does, and take turns with the ceiling."""
    shape = Shape()
    async with servers(options) as running, migrated(running) as ours:
        say(f"loading {shape.authors * shape.posts_per_author:,} posts")
        now_ms = int(time.time() * 1000)
        await load_world(ours.postgres_url, shape, seed=options.seed, now_ms=now_ms)
        settings = _settings(ours)
        with service(settings, ours.folder) as port:
            say(f"building the feeds of {shape.readers} readers")
            await warm(port, shape.reader_ids)
            targets = await choose(port, shape.reader_ids)
            say(f"recording {len(targets)} requests")
            answers = await record(settings, targets)
            write_answers(ours.folder / "answers", answers)
            log = ours.folder / "service.log"
            warm_up_ends = log.stat().st_size
            with _ceiling(settings, ours.folder) as ceiling_port:
                turns = await _turns(port, ceiling_port, targets, options)
        any_answer = next(iter(answers.values()))
        details = {
            "readers": shape.readers,
            "candidates": settings.candidates,
            "connections": CONNECTIONS,
            "alone_p50_ms": spread(turns.alone.ms, "ms").p50,
            "alone_p99_ms": spread(turns.alone.ms, "ms").p99,
            "ceiling_alone_p50_ms": spread(turns.ceiling_alone.ms, "ms").p50,
            "bytes": len(any_answer.body),
            "round_trips": sum(len(group) for group in any_answer.recording.groups),
            "waits": len(any_answer.recording.groups),
            "trips_beside": len(any_answer.recording.beside),
            "stage_ms": _stages(log, after=warm_up_ends),
        }
        return _result(name, turns, details, await machine(ours))


@dataclass(frozen=True)
class Turns:
    """Loads of the service and of the ceiling, round by round; alone is one request at a time."""

    service: list[Load]
    ceiling: list[Load]
    alone: Load
    ceiling_alone: Load


async def _turns(
    port: int, ceiling_port: int, targets: Sequence[Target], options: Options
) -> Turns:
    for each in (port, ceiling_port):
        await load(each, targets, connections=CONNECTIONS, seconds=WARM_UP_S)
    turns = Turns(
        [],
        [],
        await load(port, targets, connections=1, seconds=options.seconds),
        await load(ceiling_port, targets, connections=1, seconds=options.seconds),
    )
    for n in range(1, options.rounds + 1):
        say(f"round {n} of {options.rounds}")
        for measured, each in ((turns.service, port), (turns.ceiling, ceiling_port)):
            measured.append(
                await load(each, targets, connections=CONNECTIONS, seconds=options.seconds)
            )
    return turns


def _result(name: str, turns: Turns, details: dict[str, Any], on: dict[str, Any]) -> Result:
    pairs = zip(turns.service, turns.ceiling, strict=True)
    return Result(
        name=name,
        value=median(each.per_s for each in turns.service),
        unit="requests/s",
        ceiling=median(each.per_s for each in turns.ceiling),
        ceiling_is=CEILING,
        ratio=median(ours.per_s / bare.per_s for ours, bare in pairs),
        spread=spread([ms for each in turns.service for ms in each.ms], "ms"),
        details=details,
        machine=on,
    )


# ---------------------------------------------------------------------- what is measured


def _settings(running: Servers) -> Settings:
    return Settings(
        postgres_url=running.postgres_url,
        redis_url=running.redis_url,
        auth="dev",
        cursor_keys="signs cursors of benchmarks only",
    )


@contextmanager
def service(settings: Settings, folder: Path) -> Iterator[int]:
    """Run `foryou serve` and lend its port; its log is `service.log`."""
    with ExitStack() as stack:
        port = free_port()
        environ = {
            "FORYOU_POSTGRES_URL": settings.postgres_url,
            "FORYOU_REDIS_URL": settings.redis_url,
            "FORYOU_AUTH": settings.auth,
            "FORYOU_CURSOR_KEYS": settings.cursor_keys,
        }
        command = (sys.executable, "-m", "cli.main", "serve", "--port", str(port))
        program = Program(name="service", command=command, folder=ROOT, environ=environ)
        stack.enter_context(_running(program, port, folder))
        yield port


@contextmanager
def _ceiling(settings: Settings, folder: Path) -> Iterator[int]:
    port = free_port()
    answers, urls = str(folder / "answers"), (settings.postgres_url, settings.redis_url)
    command = (sys.executable, "-m", "benchmarks.ceiling", answers, *urls, str(port))
    with _running(Program(name="ceiling", command=command, folder=ROOT), port, folder):
        yield port


@contextmanager
def _running(program: Program, port: int, folder: Path) -> Iterator[None]:
    log = folder / f"{program.name}.log"
    process = start(program, log)
    try:
        await_answer(lambda: not is_free(port), process, log)
        yield
    finally:
        ask_to_stop(program, process)
        await_end(process, timeout_s=10)


async def warm(port: int, readers: range) -> None:
    """Open every reader's feed until it comes from cached lists, no longer from a rebuild.

    Raises:
        RuntimeError: It does not, in time.
    """
    client = await Client.connect(port)
    until = time.monotonic() + READY_S
    waiting = [Target(f"{FEED}?mode=ranked", reader) for reader in readers]
    while waiting:
        if time.monotonic() > until:
            raise RuntimeError(f"{len(waiting)} feeds are still not ready")
        states = [json.loads(await client.get(target.request))["state"] for target in waiting]
        waiting = [
            target for target, state in zip(waiting, states, strict=True) if state != "ready"
        ]
    client.close()


async def next_pages(port: int, first: Sequence[Target], *, pages: int) -> list[Target]:
    """Follow each target's cursors and return the `pages` that come after it."""
    client = await Client.connect(port)
    found = []
    for target in first:
        place = target
        for _ in range(pages):
            cursor = json.loads(await client.get(place.request))["next_cursor"]
            mode = target.path.partition("?")[2]
            place = Target(f"{FEED}?{mode}&cursor={cursor}", target.user_id)
            found.append(place)
    client.close()
    return found


def _stages(log: Path, *, after: int) -> dict[str, float]:
    """Return the median milliseconds of each stage, as the service's own log lines say."""
    stages: dict[str, list[float]] = {}
    for text in log.read_bytes()[after:].splitlines():
        line = _line(text)
        for stage, ms in {**line.get("stage_ms", {}), "all": line.get("ms", 0)}.items():
            stages.setdefault(stage, []).append(ms)
    return {stage: round(median(ms), 2) for stage, ms in stages.items() if len(ms) > 100}


def _line(text: bytes) -> dict[str, Any]:
    try:
        line = json.loads(json.loads(text)["event"])
    except (ValueError, KeyError):
        return {}
    return line if isinstance(line, dict) else {}

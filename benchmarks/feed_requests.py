"""Measures requests for feeds against their ceiling, both over HTTP, in turns, in one run."""

import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.ceiling import Recorded, write_answers
from benchmarks.cpu import cpu_s
from benchmarks.load import Load, Target, get_each, load
from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.parts import ROOT, Process, listening, service, settings_on
from benchmarks.recorded import record
from benchmarks.result import Result, spread
from benchmarks.servers import migrated, servers
from benchmarks.world import Shape, load_world
from cli.embedded import free_port
from cli.processes import Program
from feed.errors import ForYouError
from feed.settings import Settings

FEED = "/api/v1/feed"
CONNECTIONS = 4
WARM_UP_S = 1.0
READY_S = 120.0
CEILING = "a bare Starlette handler: the same round trips, the same bytes, nothing ranked"

Choose = Callable[[int, range], Awaitable[list[Target]]]
"""From the port of the service and its readers to what is asked for."""


async def measure(name: str, options: Options, choose: Choose) -> Result:
    """Load a world, warm the service, record what it does, and take turns with the ceiling."""
    shape = Shape()
    async with servers(options) as running, migrated(running) as ours:
        say(f"loading {shape.authors * shape.posts_per_author:,} posts")
        now_ms = int(time.time() * 1000)
        await load_world(ours.postgres_url, shape, seed=options.seed, now_ms=now_ms)
        settings = settings_on(ours)
        with service(settings, ours.folder) as api:
            say(f"building the feeds of {shape.readers} readers")
            await warm(api.port, shape.reader_ids)
            targets = await choose(api.port, shape.reader_ids)
            say(f"recording {len(targets)} requests")
            answers = await record(settings, targets)
            write_answers(ours.folder / "answers", answers)
            log = ours.folder / "service.log"
            warm_up_ends = log.stat().st_size
            with _ceiling(settings, ours.folder) as ceiling:
                turns = await _turns(api, ceiling, targets, options)
        details = {
            "readers": shape.readers,
            "candidates": settings.candidates,
            "connections": CONNECTIONS,
            "degraded": sum(each.n_degraded for each in turns.service.loads),
            **_costs(turns),
            **_shape_of(next(iter(answers.values()))),
            "stage_ms": _stages(log, after=warm_up_ends),
        }
        return _result(name, turns, details, await machine(ours))


@dataclass
class Measured:
    """Loads of one side, round by round, and the CPU time that its process spent on them."""

    loads: list[Load] = field(default_factory=list)
    cpu_s: float = 0.0

    async def take(self, process: Process, targets: Sequence[Target], options: Options) -> None:
        """Measure one round."""
        before = cpu_s(process.pid)
        self.loads.append(
            await load(process.port, targets, connections=CONNECTIONS, seconds=options.seconds)
        )
        self.cpu_s += cpu_s(process.pid) - before

    @property
    def n(self) -> int:
        """Requests answered."""
        return sum(len(each.ms) for each in self.loads)


@dataclass(frozen=True)
class Turns:
    """Both sides; `alone` is one request at a time."""

    service: Measured
    ceiling: Measured
    alone: Load
    ceiling_alone: Load


async def _turns(
    service: Process, ceiling: Process, targets: Sequence[Target], options: Options
) -> Turns:
    for each in (service, ceiling):
        await load(each.port, targets, connections=CONNECTIONS, seconds=WARM_UP_S)
    say("one request at a time")
    turns = Turns(
        Measured(),
        Measured(),
        await load(service.port, targets, connections=1, seconds=options.seconds),
        await load(ceiling.port, targets, connections=1, seconds=options.seconds),
    )
    for n in range(1, options.rounds + 1):
        say(f"round {n} of {options.rounds}")
        await turns.service.take(service, targets, options)
        await turns.ceiling.take(ceiling, targets, options)
    return turns


def _costs(turns: Turns) -> dict[str, float]:
    """Say what a request costs alone, and in CPU time of its process."""
    alone, bare = spread(turns.alone.ms, "ms"), spread(turns.ceiling_alone.ms, "ms")
    return {
        "alone_p50_ms": alone.p50,
        "alone_p99_ms": alone.p99,
        "ceiling_alone_p50_ms": bare.p50,
        "cpu_ms": round(turns.service.cpu_s * 1000 / turns.service.n, 3),
        "ceiling_cpu_ms": round(turns.ceiling.cpu_s * 1000 / turns.ceiling.n, 3),
    }


def _shape_of(recorded: Recorded) -> dict[str, int]:
    """Say what one request does: `waits` are its round trips that follow one another."""
    return {
        "bytes": len(recorded.body),
        "round_trips": sum(len(group) for group in recorded.recording.groups),
        "waits": len(recorded.recording.groups),
        "trips_beside": len(recorded.recording.beside),
    }


def _result(name: str, turns: Turns, details: dict[str, Any], on: dict[str, Any]) -> Result:
    ours, bare = turns.service.loads, turns.ceiling.loads
    return Result(
        name=name,
        value=median(each.per_s for each in ours),
        unit="requests/s",
        ceiling=median(each.per_s for each in bare),
        ceiling_is=CEILING,
        ratio=median(a.per_s / b.per_s for a, b in zip(ours, bare, strict=True)),
        spread=spread([ms for each in ours for ms in each.ms], "ms"),
        details=details,
        machine=on,
    )


# ---------------------------------------------------------------------- what is measured


@contextmanager
def _ceiling(settings: Settings, folder: Path) -> Iterator[Process]:
    port = free_port()
    answers, urls = str(folder / "answers"), (settings.postgres_url, settings.redis_url)
    command = (sys.executable, "-m", "benchmarks.ceiling", answers, *urls, str(port))
    program = Program(name="ceiling", command=command, folder=ROOT)
    with listening(program, port, folder) as process:
        yield process


async def warm(port: int, readers: Iterable[int]) -> None:
    """Open every reader's feed until it comes from cached lists, no longer from a rebuild.

    Raises:
        ForYouError: It does not, in time.
    """
    until = time.monotonic() + READY_S
    waiting = [Target(f"{FEED}?mode=ranked", reader) for reader in readers]
    while waiting:
        # One at a time: rebuilds of cold feeds crowd each other out, and a late one is refused.
        answers = await get_each(port, waiting, connections=1)
        states = [json.loads(answer.body).get("state", answer.status) for answer in answers]
        if time.monotonic() > until:
            raise ForYouError(f"Feeds are still not ready: {Counter(states)}.")
        waiting = [
            target for target, state in zip(waiting, states, strict=True) if state != "ready"
        ]


async def next_pages(port: int, first: Sequence[Target], *, pages: int) -> list[Target]:
    """Follow each target's cursors and return the `pages` that come after it."""
    found: list[Target] = []
    places = list(first)
    for _ in range(pages):
        answers = await get_each(port, places, connections=1)
        places = [
            _following(target, json.loads(answer.body)["next_cursor"])
            for target, answer in zip(places, answers, strict=True)
        ]
        found += places
    return found


def _following(target: Target, cursor: str) -> Target:
    opened = target.path.partition("&cursor=")[0]
    return Target(f"{opened}&cursor={cursor}", target.user_id)


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
        line = json.loads(text)
    except ValueError:
        return {}
    return line if line.get("event") == "request" else {}

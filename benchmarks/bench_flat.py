"""How much dearer does an open become with what should not matter to it?

With the number of followees, of all posts, of the followers of those who are read. Milliseconds of
a ranked open when it is the only request, the dearest kind of reader. Ceiling: the plain reader,
who follows 200 small authors among 100,000 posts; both are asked over HTTP in turns. `--size` is
how many posts the larger world has, and ten times what each large author has of followers.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from statistics import median

from benchmarks.cpu import cpu_s
from benchmarks.feed_requests import FEED, warm
from benchmarks.flat_world import FlatShape, Group, load_flat_world
from benchmarks.load import Target, load
from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.parts import Process, service, settings_on
from benchmarks.result import Result, figure, spread
from benchmarks.servers import Servers, migrated, servers

POSTS = 100_000
MORE_POSTS = 1_000_000
READERS = 20

PLAIN = Group(readers=range(1, 1 + READERS), followees=200)
FEW = Group(readers=range(101, 101 + READERS), followees=10)
MANY = Group(readers=range(201, 201 + READERS), followees=2_000)
LARGE = Group(readers=range(301, 301 + READERS), followees=190, large=10)
ELSEWHERE = Group(readers=range(1_001, 1_001 + READERS), followees=200)
"""Readers of the larger world, under other ids: both worlds share one cache."""


def worlds(posts: int) -> tuple[FlatShape, FlatShape]:
    """Return the world that most readers are in, and one of so many posts."""
    here = FlatShape(
        posts=POSTS,
        followed_authors=2_000,
        large_authors=10,
        followers_per_large_author=posts // 10,
        groups=(PLAIN, FEW, MANY, LARGE),
    )
    there = replace(
        here, posts=posts, large_authors=0, followers_per_large_author=0, groups=(ELSEWHERE,)
    )
    return here, there


@dataclass
class Kind:
    """One kind of reader, and what opens cost: of each round the milliseconds, and CPU in all."""

    name: str
    api: Process
    targets: Sequence[Target]
    rounds_ms: list[list[float]] = field(default_factory=list)
    cpu_s: float = 0.0

    @property
    def p50_ms(self) -> float:
        """Half of the opens took less."""
        return median(self.ms)

    @property
    def ms(self) -> list[float]:
        """What each open took."""
        return [ms for each in self.rounds_ms for ms in each]

    @property
    def cpu_ms(self) -> float:
        """CPU time of the api process for one open."""
        return self.cpu_s * 1000 / len(self.ms)

    def times(self, plain: "Kind") -> float:
        """Return how many times a plain open this costs, the median over the rounds."""
        pairs = zip(self.rounds_ms, plain.rounds_ms, strict=True)
        return median(median(ours) / median(theirs) for ours, theirs in pairs)


async def run(options: Options) -> Result:
    """Open the feeds of each kind of reader in turns, one at a time."""
    more = options.size or MORE_POSTS
    small_world, large_world = worlds(more)
    async with servers(options) as running, AsyncExitStack() as stack:
        here = await stack.enter_async_context(_served(running, small_world, "small"))
        there = await stack.enter_async_context(_served(running, large_world, "large"))
        kinds = [
            _kind("plain", here, PLAIN),
            _kind(f"{FEW.followees} followees", here, FEW),
            _kind(f"{MANY.followees:,} followees", here, MANY),
            _kind(f"{LARGE.large} authors with {more // 10:,} followers", here, LARGE),
            _kind(f"{more:,} posts", there, ELSEWHERE),
        ]
        for kind in kinds:
            await warm(kind.api.port, [target.user_id for target in kind.targets])
        for n in range(options.rounds + 1):
            say(f"round {n} of {options.rounds}" if n else "warming up")
            for kind in kinds:
                await _round(kind, options, kept=n > 0)
        return _result(kinds, await machine(running))


@asynccontextmanager
async def _served(running: Servers, shape: FlatShape, name: str) -> AsyncIterator[Process]:
    """Run the service on a world of its own."""
    async with migrated(running) as ours:
        say(f"loading {shape.posts:,} posts")
        await load_flat_world(ours.postgres_url, shape, now_ms=int(time.time() * 1000))
        folder = ours.folder / name
        folder.mkdir()
        with service(settings_on(ours), folder) as api:
            yield api


def _kind(name: str, api: Process, group: Group) -> Kind:
    return Kind(name, api, [Target(f"{FEED}?mode=ranked", reader) for reader in group.readers])


async def _round(kind: Kind, options: Options, *, kept: bool) -> None:
    before = cpu_s(kind.api.pid)
    measured = await load(kind.api.port, kind.targets, connections=1, seconds=options.seconds)
    if kept:
        kind.rounds_ms.append(measured.ms)
        kind.cpu_s += cpu_s(kind.api.pid) - before


def _result(kinds: Sequence[Kind], on: dict[str, object]) -> Result:
    plain, *others = kinds
    dearest = max(others, key=lambda kind: kind.times(plain))
    return Result(
        name="flat",
        value=dearest.p50_ms,
        unit="ms",
        ceiling=plain.p50_ms,
        ceiling_is="an open of the plain reader",
        ratio=1 / dearest.times(plain),
        spread=spread(dearest.ms, "ms"),
        details={
            "dearest": dearest.name,
            "times_a_plain_open": {kind.name: figure(kind.times(plain)) for kind in others},
            "cpu_ms": {kind.name: figure(kind.cpu_ms) for kind in kinds},
        },
        machine=on,
    )

"""A lean HTTP client: as many requests as a few connections can make, one after another on each.

It shares the machine with what it measures, so it does little: requests are made in advance, and
of an answer it reads the status, the length and the bytes.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from time import perf_counter
from typing import NamedTuple

from feed.errors import ForYouError

ANSWER_S = 10.0
_WHOLE = b'"degraded":[]'


@dataclass(frozen=True)
class Target:
    """One GET as one user."""

    path: str
    user_id: int

    @property
    def request(self) -> bytes:
        """The bytes to send."""
        return (
            f"GET {self.path} HTTP/1.1\r\nHost: bench\r\nX-User-Id: {self.user_id}\r\n\r\n"
        ).encode()


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: bytes


class Client:
    """One connection that is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use an open connection."""
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> "Client":
        """Open a connection on loopback."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def get(self, request: bytes) -> Answer:
        """Send a request and return what is answered."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        return Answer(int(head[9:12]), await self._reader.readexactly(_length(head)))

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


@dataclass(frozen=True)
class Load:
    """What was measured: milliseconds of each request, over `seconds`; how many were degraded."""

    ms: list[float]
    seconds: float
    n_degraded: int

    @property
    def per_s(self) -> float:
        """Requests per second."""
        return len(self.ms) / self.seconds


@asynccontextmanager
async def _connected(port: int, connections: int) -> AsyncIterator[list[Client]]:
    clients = [await Client.connect(port) for _ in range(connections)]
    try:
        yield clients
    finally:
        for client in clients:
            await client.close()


async def get_each(port: int, targets: Sequence[Target], *, connections: int) -> list[Answer]:
    """Ask for each target once; return the answers in their order."""
    answers = [Answer(0, b"")] * len(targets)
    places = iter(enumerate(targets))

    async def work(client: Client) -> None:
        for place, target in places:
            answers[place] = await client.get(target.request)

    async with _connected(port, connections) as clients:
        await asyncio.gather(*map(work, clients))
    return answers


async def load(port: int, targets: Sequence[Target], *, connections: int, seconds: float) -> Load:
    """Ask for the targets in turn on each connection until the time is over.

    Raises:
        ForYouError: An answer's status is not 200.
    """
    requests = itertools.cycle([target.request for target in targets])
    async with _connected(port, connections) as clients, asyncio.timeout(seconds + ANSWER_S):
        started = perf_counter()
        work = (_until(client, requests, started + seconds) for client in clients)
        parts = await asyncio.gather(*work)
        spent_s = perf_counter() - started
    return Load(
        [ms for spent_ms, _ in parts for ms in spent_ms],
        spent_s,
        sum(n_degraded for _, n_degraded in parts),
    )


async def _until(client: Client, requests: Iterator[bytes], end: float) -> tuple[list[float], int]:
    spent_ms, n_degraded = [], 0
    while (begun := perf_counter()) < end:
        status, body = await client.get(next(requests))
        spent_ms.append((perf_counter() - begun) * 1000)
        if status != HTTPStatus.OK:
            raise ForYouError(f"A request was answered with {status}: {body[:300].decode()}")
        n_degraded += _WHOLE not in body
    return spent_ms, n_degraded


def _length(head: bytes) -> int:
    at = head.lower().index(b"content-length:") + len(b"content-length:")
    return int(head[at : head.index(b"\r\n", at)])

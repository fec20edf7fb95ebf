"""A lean HTTP client: as many requests as a few connections can make, one after another on each.

It shares the machine with what it measures, so it does little: requests are made in advance, and
of an answer it reads the status, the length and the bytes.
"""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

ANSWER_S = 10.0


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

    async def get(self, request: bytes) -> bytes:
        """Return the body of an answer.

        Raises:
            RuntimeError: Its status is not 200.
        """
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        body = await self._reader.readexactly(_length(head))
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{head.splitlines()[0].decode()}: {body[:500].decode()}")
        return body

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


@dataclass(frozen=True)
class Load:
    """What was measured: milliseconds of each request, over `seconds`."""

    ms: list[float]
    seconds: float

    @property
    def per_s(self) -> float:
        """Requests per second."""
        return len(self.ms) / self.seconds


async def load(port: int, targets: Sequence[Target], *, connections: int, seconds: float) -> Load:
    """Ask for the targets in turn on each connection until the time is over."""
    clients = [await Client.connect(port) for _ in range(connections)]
    requests = itertools.cycle([target.request for target in targets])
    started = perf_counter()
    try:
        async with asyncio.timeout(seconds + ANSWER_S):
            parts = await asyncio.gather(
                *(_until(client, requests, started + seconds) for client in clients)
            )
        return Load([ms for part in parts for ms in part], perf_counter() - started)
    finally:
        for client in clients:
            client.close()


async def _until(client: Client, requests: Iterator[bytes], end: float) -> list[float]:
    spent_ms = []
    while (begun := perf_counter()) < end:
        await client.get(next(requests))
        spent_ms.append((perf_counter() - begun) * 1000)
    return spent_ms


def _length(head: bytes) -> int:
    at = head.lower().index(b"content-length:") + len(b"content-length:")
    return int(head[at : head.index(b"\r\n", at)])

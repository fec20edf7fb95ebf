"""The ceiling of a feed request: a bare handler that makes the same round trips and ranks nothing.

Run as a process of its own, `python -m benchmarks.ceiling FILE POSTGRES_URL REDIS_URL PORT`, on
the server and the event loop of `foryou serve`. For each recorded request it makes the recorded
round trips to the same servers and answers with the recorded bytes.
"""

import asyncio
import pickle
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.trips import Recording, replay, replay_beside
from storage.connections import Postgres, open_redis

TOKEN_BYTES = 8


@dataclass(frozen=True)
class Recorded:
    """One request and its answer."""

    recording: Recording
    body: bytes


Answers = dict[tuple[str, bytes], Recorded]
"""By user id and query string."""


def write_answers(path: Path, answers: Answers) -> None:
    """Keep what the ceiling is to do, in a folder of our own."""
    path.write_bytes(pickle.dumps(answers))


def ceiling_app(answers: Answers, postgres_url: str, redis_url: str) -> Starlette:
    """Make the application."""
    postgres = Postgres(postgres_url)
    redis = open_redis(redis_url)
    beside: set[asyncio.Task[None]] = set()

    async def feed(request: Request) -> Response:
        asked = request.headers["x-user-id"], request.scope["query_string"]
        recorded = answers[asked]
        token = secrets.token_hex(TOKEN_BYTES)[: len(recorded.recording.token)]
        if recorded.recording.beside:
            effects = replay_beside(recorded.recording, postgres, redis, token=token)
            task = asyncio.create_task(effects)
            beside.add(task)
            task.add_done_callback(beside.discard)
        await replay(recorded.recording, postgres, redis, token=token)
        return Response(recorded.body, media_type="application/json")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await postgres.open()
        yield
        await asyncio.gather(*beside, return_exceptions=True)
        await redis.aclose()
        await postgres.close()

    return Starlette(routes=[Route("/api/v1/feed", feed)], lifespan=lifespan)


def main(file: str, postgres_url: str, redis_url: str, port: str) -> None:
    """Serve until asked to stop."""
    answers: Answers = pickle.loads(Path(file).read_bytes())
    uvicorn.run(
        ceiling_app(answers, postgres_url, redis_url),
        port=int(port),
        loop="uvloop",
        http="httptools",
        log_config=None,
        access_log=False,
        server_header=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

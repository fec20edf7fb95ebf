"""Runs the api in this process on recording stores; keeps what each request did and answered."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from fastapi import FastAPI

from api.app import create_app
from benchmarks.ceiling import Answers, Recorded
from benchmarks.load import Target
from benchmarks.trips import Recorder, RecordingPostgres, RecordingRedis, beside
from feed.errors import ForYouError
from feed.settings import Settings
from mixer.home_feed import build


async def record(settings: Settings, targets: Sequence[Target]) -> Answers:
    """Ask for each target once, and keep the round trips and the bytes of the answer."""
    recorder = Recorder()
    answers: Answers = {}
    async with _app(settings, recorder) as app:
        await get(app, targets[0])  # so that scripts are loaded and connections open
        await app.state.services.effects.drain()
        for target in targets:
            recording = recorder.begin()
            body = await get(app, target)
            await app.state.services.effects.drain()
            query = target.path.partition("?")[2].encode()
            answers[str(target.user_id), query] = Recorded(recording, body)
    return answers


@asynccontextmanager
async def _app(settings: Settings, recorder: Recorder) -> AsyncIterator[FastAPI]:
    """Run the application with its feed on stores that are watched; all else is as it is."""
    postgres = RecordingPostgres(settings.postgres_url, recorder)
    redis: RecordingRedis = RecordingRedis.from_url(settings.redis_url)
    redis.recorder = recorder
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        await postgres.open()
        feed, effects = build(settings, postgres, redis, token=recorder.token)
        start = effects.start
        # The one seam that `build` has no parameter for: side effects say that they are.
        effects.start = lambda name, work: start(name, beside(work))  # type: ignore[method-assign]
        app.state.services = replace(
            app.state.services, postgres=postgres, redis=redis, home_feed=feed, effects=effects
        )
        try:
            yield app
        finally:
            await redis.aclose()
            await postgres.close()


async def get(app: FastAPI, target: Target) -> bytes:
    """Call the application as a server would; return the body.

    Raises:
        ForYouError: The status is not 200.
    """
    path, _, query = target.path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"bench"), (b"x-user-id", str(target.user_id).encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    if sent[0]["status"] != 200:
        raise ForYouError(f"{sent[0]['status']}: {body[:500].decode()}")
    return body

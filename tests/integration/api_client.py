"""Drives the api in process over HTTP, with its lifespan, as one user or another."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from api.app import create_app
from feed.settings import Settings

PREFIX = "/api/v1"


class Client:
    """Calls the api; the answer of every call is checked to be a contract's, never a 5xx."""

    def __init__(self, http: httpx.AsyncClient, app: FastAPI) -> None:
        self.http = http
        self.app = app

    async def call(
        self,
        method: str,
        path: str,
        user: int | None = None,
        body: Any = None,
        **headers: str,
    ) -> httpx.Response:
        """Call as `user`; `scope="ingest"` and the like become headers, bytes go as they are."""
        named = {"X-User-Id": str(user)} if user is not None else {}
        if "scope" in headers:
            named["X-Scope"] = headers.pop("scope")
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, bytes):
            named.setdefault("Content-Type", "application/json")
        answer = await self.http.request(
            method,
            PREFIX + path,
            headers=named,
            content=body if isinstance(body, bytes) else None,
            json=None if isinstance(body, bytes) else body,
        )
        checked(answer)
        return answer

    async def ingest(self, *lines: dict[str, Any]) -> dict[str, Any]:
        """Ingest lines; return the answer's document."""
        body = "\n".join(json.dumps(line) for line in lines).encode()
        answer = await self.call("POST", "/ingest", 1, body, scope="ingest")
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def people(self, *user_ids: int) -> None:
        """Create users."""
        await self.ingest(*({"kind": "user", "id": id, "name": f"u{id}"} for id in user_ids))

    async def post(self, user: int, body: str = "hello", **fields: Any) -> str:
        """Write a post; return its id."""
        answer = await self.call("POST", "/posts", user, {"body": body, **fields})
        assert answer.status_code == 201, answer.text
        post_id: str = answer.json()["id"]
        return post_id


def checked(answer: httpx.Response) -> None:
    """Insist on what holds for every answer: an id, and a whole problem document on errors."""
    assert answer.status_code < 500, answer.text
    assert answer.headers["x-request-id"]
    if answer.status_code >= 400:
        problem = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert problem.keys() >= {"type", "title", "status", "detail", "code", "request_id"}
        assert problem["status"] == answer.status_code
        assert problem["request_id"] == answer.headers["x-request-id"]
        assert (answer.status_code == 422) == ("errors" in problem)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Client]:
    """Run the api with these settings until the block ends."""
    app = create_app(settings)
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://api") as http,
    ):
        yield Client(http, app)

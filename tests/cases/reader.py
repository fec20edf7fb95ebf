"""Somebody who reads over HTTP, and posts whose ids say how new they are."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from tests.integration.api_client import Client

READER, FRIEND, OTHER, STRANGER = 1, 2, 3, 4
MODES = ("ranked", "chronological")
YESTERDAY = datetime.now(UTC) - timedelta(days=1)

Page = dict[str, Any]


class Reader:
    """One user of the product."""

    def __init__(self, api: Client, user: int = READER) -> None:
        self.api = api
        self.user = user

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the api; return the document it answers with, if any."""
        answer = await self.api.call(method, path, self.user, body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def follow(self, *authors: int) -> None:
        for author in authors:
            await self.call("PUT", f"/follows/{author}")

    async def page(self, mode: str | None, limit: int = 3, cursor: str | None = None) -> Page:
        """Open a feed or turn to a page, and let what that leaves to do be done."""
        named = {"mode": mode, "limit": limit, "cursor": cursor}
        query = "&".join(f"{name}={value}" for name, value in named.items() if value is not None)
        page: Page = await self.call("GET", f"/feed?{query}")
        await self.api.app.state.services.effects.drain()
        return page

    async def scroll(
        self,
        mode: str | None,
        limit: int = 3,
        *,
        first: Page | None = None,
        between: Callable[[], Awaitable[Any]] | None = None,
    ) -> list[Page]:
        """Read to the end, from the page `first` on where it is given; return all pages."""
        pages = [first or await self.page(mode, limit)]
        while pages[-1]["next_cursor"]:
            if between:
                await between()
            pages.append(await self.page(mode, limit, pages[-1]["next_cursor"]))
            assert len(pages) < 100, "a scroll without an end"
        return pages

    async def report(self, type: str, *posts: int, **ago: float) -> None:
        """Report an event of each of these posts, and let it take effect."""
        at = (datetime.now(UTC) - timedelta(**ago)).isoformat()
        events = [
            {"event_id": str(uuid4()), "type": type, "post_id": str(post), "at": at}
            for post in posts
        ]
        told = await self.call("POST", "/events", {"events": events})
        assert told["accepted"] == len(posts)
        await self.api.app.state.services.effects.drain()


def ids(*pages: Page) -> list[int]:
    """Return the ids of the items of these pages."""
    return [int(item["id"]) for page in pages for item in page["items"]]


def authors(*pages: Page) -> list[int]:
    """Return whose the items of these pages are."""
    return [int(item["author"]["id"]) for page in pages for item in page["items"]]


async def write(
    api: Client, author: int, posts: Iterable[int], *, after_s: float = 60, **more: Any
) -> None:
    """Write posts with these ids, each of the number of its id times `after_s` after yesterday."""
    lines = [
        {
            "kind": "post",
            "id": str(post),
            "author_id": str(author),
            "body": f"post {post}",
            "created_at": (YESTERDAY + timedelta(seconds=after_s * post)).isoformat(),
            **more,
        }
        for post in posts
    ]
    told = await api.ingest(*lines)
    assert told["rejected"] == []

"""A viewer whose cached lists hold much that may not be shown any more, and a scroll that looks."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from storage.connections import Postgres
from tests.integration.api_client import Client

VIEWER, FRIEND, OTHER, LARGE, STRANGER, LIKED, POPULAR = 1, 2, 3, 4, 5, 6, 7
BLOCKED, MUTED, LEFT, BLOCKS_VIEWER = 11, 12, 13, 14
FOLLOWED = (FRIEND, OTHER, LARGE, BLOCKED, MUTED, LEFT, BLOCKS_VIEWER)

# Who wrote which posts; a larger id is a newer post.
POSTS = {
    FRIEND: (100, 104, 108, 112, 116, 124, 125),
    OTHER: (101, 105, 109, 113),
    LARGE: (102, 106, 110),
    VIEWER: (103, 117),
    STRANGER: (90,),
    **{BLOCKED: (120,), MUTED: (121,), LEFT: (122,), BLOCKS_VIEWER: (123,)},
    **{LIKED: (131,), POPULAR: (130,)},
}
REPOSTS = {118: FRIEND, 119: OTHER}  # of 90
FORBIDDEN = set(range(120, 126))
IN_NETWORK = {90, *(post for who in (FRIEND, OTHER, LARGE, VIEWER) for post in POSTS[who])}
IN_NETWORK -= FORBIDDEN
ALL = IN_NETWORK | {130, 131}
IN_ORDER = sorted(IN_NETWORK - {90} | set(REPOSTS), reverse=True)


async def peopled(api: Client) -> None:
    await api.people(VIEWER, *range(FRIEND, BLOCKS_VIEWER + 1))
    for author in FOLLOWED:
        assert (await api.call("PUT", f"/follows/{author}", VIEWER)).status_code == 204
    await write(api.app.state.services.postgres)
    assert (await api.call("GET", "/feed", VIEWER)).json()["state"] == "building"
    await api.app.state.services.effects.drain()
    for path in (f"/blocks/{BLOCKED}", f"/mutes/{MUTED}", "/hidden/124"):
        assert (await api.call("PUT", path, VIEWER)).status_code == 204
    await api.call("PUT", f"/blocks/{VIEWER}", BLOCKS_VIEWER)
    await api.call("DELETE", f"/follows/{LEFT}", VIEWER)
    await api.call("DELETE", "/posts/125", FRIEND)


async def write(postgres: Postgres) -> None:
    """Write the posts; two strangers' are liked, one by those whom the viewer follows."""
    newest = datetime.now(UTC)
    rows = [(post, author, None, f"post {post}") for author in POSTS for post in POSTS[author]]
    rows += [(post, author, 90, "") for post, author in REPOSTS.items()]
    made = {post: newest - timedelta(minutes=200 - post) for post, *_ in rows}
    async with postgres.transaction() as connection, connection.cursor() as cursor:
        await cursor.executemany(
            "INSERT INTO posts (id, author_id, repost_of, body, format, created_at, received_at,"
            " effective_ms, delivery) VALUES (%s, %s, %s, %s, 'text', %s, now(), %s, 'push')",
            [(*row, made[row[0]], int(made[row[0]].timestamp() * 1000)) for row in rows],
        )
        await connection.execute(
            "INSERT INTO author_delivery (author_id, readers_pull, writers_pull)"
            " VALUES (%s, true, true)",
            [LARGE],
        )
        await connection.execute(
            "INSERT INTO post_stats (post_id, heat, heat_s)"
            " VALUES (130, 50, extract(epoch FROM now()))"
        )
        await cursor.executemany(
            "INSERT INTO reactions (viewer_id, post_id, kind, active, at, event_id)"
            " VALUES (%s, 131, 'like', true, now(), gen_random_uuid())",
            [(FRIEND,), (OTHER,)],
        )


async def get(api: Client, mode: str, cursor: str = "") -> httpx.Response:
    path = f"/api/v1/feed?mode={mode}&limit=5" + (f"&cursor={cursor}" if cursor else "")
    async with asyncio.timeout(60):  # a hang that nobody bounds fails here
        return await api.http.get(path, headers={"X-User-Id": str(VIEWER)})


async def scroll(
    api: Client, mode: str = "ranked", cursor: str = ""
) -> tuple[list[dict[str, Any]], httpx.Response]:
    """Return the pages to the end, or to the first refusal; and the last answer.

    Whatever went wrong: nothing is repeated, nothing leaks, and no answer is anything else.
    """
    pages: list[dict[str, Any]] = []
    answer = await get(api, mode, cursor)
    while answer.status_code == 200:
        pages.append(answer.json())
        assert len(pages) < 50, "a scroll without an end"
        if not pages[-1]["next_cursor"]:
            break
        answer = await get(api, mode, pages[-1]["next_cursor"])
    shown = ids(*pages)
    assert len(shown) == len(set(shown)), f"repeated in {shown}"
    assert not FORBIDDEN & {*shown, *originals(*pages)}, f"leaked in {shown}"
    if answer.status_code != 200:
        is_refused(answer)
    return pages, answer


def is_refused(answer: httpx.Response) -> None:
    """Insist on 503 as the contract has it."""
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["code"] == "unavailable"
    assert "broken" not in answer.text


def ids(*pages: dict[str, Any]) -> list[int]:
    return [int(item["id"]) for page in pages for item in page["items"]]


def originals(*pages: dict[str, Any]) -> set[int]:
    return {int(item["repost_of"] or item["id"]) for page in pages for item in page["items"]}


def named(*pages: dict[str, Any]) -> set[str]:
    return {stage for page in pages for stage in page["degraded"]}


async def measured(api: Client) -> dict[str, float]:
    """Scrape the metrics: each sample with its value."""
    lines = (await api.http.get("/metrics")).text.splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}

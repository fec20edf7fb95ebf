"""Fills a page with what the viewer may see now, as decided by the page query on the primary.

It fails closed: when the query cannot be answered there is no page. What it refuses is refilled
from deeper in the same list, within a bound, so that a page shortened by it is not the end.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import numpy as np

from feed.candidates import IN_NETWORK, SOURCES
from feed.errors import Unavailable
from feed.order import Ids, Key, Mask
from mixer.page import Item
from snapshots.snapshot import Codes, Snapshot
from storage.page import PostRow

SPARE = 5
"""Rows asked for beyond the page, so that a few refused ones cost no second query."""


class VisiblePosts(Protocol):
    """Where the page query runs (`storage.page.PageReader`)."""

    async def visible(self, viewer_id: int, ids: Ids, must_follow: Mask) -> list[PostRow]:
        """Return those of these posts that the viewer may see now."""
        ...


More = Callable[[Key, int], Awaitable[tuple[Ids, Ids]]]
"""From a place and n to the ids and times of the newest n posts below it; fewer means no more."""

Chosen = Callable[[list[PostRow]], Awaitable[list[PostRow]]]
"""From visible posts to those of them that are to be shown here."""


class Safety:
    """Checks rows in order until a page is full, the list ends, or `scan` rows were looked at."""

    def __init__(self, posts: VisiblePosts, *, scan: int) -> None:
        """Check with `posts`."""
        self._posts = posts
        self._scan = scan

    async def from_slate(
        self, viewer_id: int, snapshot: Snapshot, start: int, limit: int
    ) -> tuple[list[Item], int]:
        """Return the items of a page that begins at row `start`, and the row the next begins at.

        That row is the length of the slate when no visible row is left in it.

        Raises:
            Unavailable: The truth cannot be reached.
        """
        items: list[Item] = []
        row, last = start, min(len(snapshot), start + self._scan)
        n = limit + 1 + SPARE
        while row < last and len(items) <= limit:
            end = min(last, row + n)
            groups = snapshot.groups(row, end)
            visible = await self._visible_rows(viewer_id, groups, snapshot.sources[row:end])
            sources = snapshot.sources[row:end].tolist()
            for place, (group, source) in enumerate(zip(groups, sources, strict=True), start=row):
                if posts := [visible[post] for post in group if post in visible]:
                    items.append(_item(posts, SOURCES[source], place))
            row = end
            n *= 2
        # One row more than fits says where the next page begins, and that there is one.
        return items[:limit], items[limit].position if len(items) > limit else row

    async def from_list(
        self,
        viewer_id: int,
        more: More,
        below: Key,
        limit: int,
        chosen: Chosen | None = None,
    ) -> tuple[list[PostRow], Key | None]:
        """Return the newest visible posts below a place, and the place the next page begins below.

        That place is None exactly when no visible post is left, as far as `scan` rows show.

        Raises:
            Unavailable: The truth cannot be reached.
        """
        found: list[PostRow] = []
        scanned = 0
        n = limit + 1 + SPARE
        while scanned < self._scan:
            ids, ms = await more(below, n)
            rows = await self.visible(viewer_id, ids)
            found += await chosen(rows) if chosen else rows
            if len(found) > limit:
                last = found[limit - 1]
                return found[:limit], Key(last.ms, last.id)
            if len(ids) < n:
                return found, None
            below = Key(int(ms[-1]), int(ids[-1]))
            scanned += n
            n = max(n, min(2 * n, self._scan - scanned))  # many refused ones cost few queries
        return found, below

    async def visible(self, viewer_id: int, ids: Ids) -> list[PostRow]:
        """Return those of these in-network posts that the viewer may see now, in this order."""
        return await self._checked(viewer_id, ids, np.ones(len(ids), dtype=np.bool_))

    async def _visible_rows(
        self, viewer_id: int, groups: list[list[int]], sources: Codes
    ) -> dict[int, PostRow]:
        """Ask for the posts of all groups (n of them) that were found by these sources (n,)."""
        ids = np.array([post for group in groups for post in group], dtype=np.int64)
        must_follow = np.repeat(IN_NETWORK[sources], [len(group) for group in groups])
        posts = await self._checked(viewer_id, ids, must_follow)
        return {post.id: post for post in posts}

    async def _checked(self, viewer_id: int, ids: Ids, must_follow: Mask) -> list[PostRow]:
        """Ask the page query; an answer with what was not asked for, or with doubles, is none."""
        posts = await self._posts.visible(viewer_id, ids, must_follow)
        found = {post.id for post in posts}
        if len(found) < len(posts) or not found.issubset(ids.tolist()):
            raise Unavailable("The page query answers what it was not asked")
        return posts


def _item(posts: list[PostRow], source: str, row: int) -> Item:
    """Show a row by the best of its posts that are visible."""
    reposts = [post for post in posts if post.is_repost]
    return Item(posts[0], source, row, tuple(sorted(reposts, key=_place, reverse=True)))


def _place(post: PostRow) -> Key:
    return Key(post.ms, post.id)

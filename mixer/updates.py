"""New posts since a feed was opened: counted for a pill, never pushed into the scroll."""

from dataclasses import dataclass

import numpy as np

from feed.candidates import Gaps
from feed.order import Key
from mixer.safety import VisiblePosts
from mixer.viewers import ViewerReader
from snapshots.cursor import Cursor
from storage.page import PostRow
from storage.timelines import PostgresTimelines

COUNTED = 100
"""New posts are counted up to here."""


@dataclass(frozen=True)
class Updates:
    """Visible in-network posts newer than the open, newest first, at most `COUNTED`."""

    posts: list[PostRow]
    capped: bool


class NewPosts:
    """Counts what somebody else wrote since a session was opened."""

    def __init__(
        self, viewers: ViewerReader, timelines: PostgresTimelines, posts: VisiblePosts
    ) -> None:
        """Read from the truth."""
        self._viewers = viewers
        self._timelines = timelines
        self._posts = posts

    async def since(self, cursor: Cursor) -> Updates:
        """Return the posts newer than the opening of the cursor's session.

        Raises:
            Unavailable: The truth cannot be reached.
        """
        viewer = await self._viewers.load(cursor.viewer_id)
        ids, _ = await self._timelines.newest_posts(
            Gaps.everywhere(viewer.followees), Key(cursor.opened_ms + 1, 0), COUNTED + 1
        )
        follow = np.ones(len(ids), dtype=np.bool_)
        posts = await self._posts.visible(viewer.id, ids, follow)
        return Updates(posts[:COUNTED], len(posts) > COUNTED)

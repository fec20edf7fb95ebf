"""New posts since a feed was opened: counted for a pill, never pushed into the scroll."""

from dataclasses import dataclass

from feed.candidates import Gaps
from feed.order import NEWEST, Ids, Key
from mixer.safety import Safety
from mixer.viewers import ViewerReader
from snapshots.cursor import Cursor
from storage.page import PostRow
from storage.timelines import PostgresTimelines

COUNTED = 100
"""New posts are counted up to here."""


@dataclass(frozen=True)
class Updates:
    """Visible in-network posts newer than the open, newest first, at most `COUNTED`.

    `capped` when there are, or may be, more.
    """

    posts: list[PostRow]
    capped: bool


class NewPosts:
    """Counts what somebody else wrote since a session was opened."""

    def __init__(self, viewers: ViewerReader, timelines: PostgresTimelines, safety: Safety) -> None:
        """Read from the truth."""
        self._viewers = viewers
        self._timelines = timelines
        self._safety = safety

    async def since(self, cursor: Cursor) -> Updates:
        """Return the posts newer than the opening of the cursor's session.

        Raises:
            Unavailable: The truth cannot be reached.
        """
        viewer = await self._viewers.load(cursor.viewer_id)
        everybody = Gaps.everywhere(viewer.heard)
        down_to = Key(cursor.opened_ms + 1, 0)

        async def more(below: Key, n: int) -> tuple[Ids, Ids]:
            return await self._timelines.newest_posts(everybody.under(below), down_to, n)

        posts, rest = await self._safety.from_list(viewer.id, more, NEWEST, COUNTED)
        return Updates(posts, capped=rest is not None)

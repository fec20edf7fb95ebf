"""All followees' posts straight from Postgres: the in-network feed while everybody is pulled."""

from candidate_sources.below_floor import Timelines
from feed.candidates import Found, Gaps
from feed.order import OLDEST
from feed.query import Query


class FollowedPosts:
    """One indexed query over the followees, and no cache: right for a few thousand users."""

    name = "below_floor"

    def __init__(self, timelines: Timelines) -> None:
        """Read from `timelines`."""
        self._timelines = timelines

    async def find(self, query: Query) -> Found:
        """Return these followees' newest `query.n` posts below `query.before`."""
        ids, ms = await self._timelines.newest_posts(self.unknown(query), OLDEST, query.n)
        return Found(ids, ms, self.name)

    def unknown(self, query: Query) -> Gaps:
        """Return a gap from `query.before` down for every followee who is read from Postgres."""
        return Gaps.everywhere(query.viewer.straight).under(query.before)

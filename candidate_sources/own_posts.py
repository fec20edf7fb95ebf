"""The viewer's own posts, read from Postgres: there at once, also when every worker is stopped."""

import numpy as np

from candidate_sources.below_floor import Timelines
from feed.candidates import Found, Gaps
from feed.order import OLDEST
from feed.query import Query


class OwnPosts:
    """Reads one author's newest posts from the truth."""

    name = "own_posts"

    def __init__(self, timelines: Timelines) -> None:
        """Read from `timelines`."""
        self._timelines = timelines

    async def find(self, query: Query) -> Found:
        """Return the viewer's newest `query.n` posts below `query.before`: enough by themselves."""
        ids, ms = await self._timelines.newest_posts(self.unknown(query), OLDEST, query.n)
        return Found(ids, ms, self.name)

    def unknown(self, query: Query) -> Gaps:
        """Return a gap from `query.before` down for the viewer."""
        viewer = np.array([query.viewer.id], dtype=np.int64)
        return Gaps.everywhere(viewer).under(query.before)

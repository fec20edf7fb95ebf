"""What those whom a viewer follows liked, by authors whom the viewer does not follow."""

from typing import Protocol

from feed.affinity import closest
from feed.candidates import Found, Gaps
from feed.order import Ids
from feed.query import Query
from storage.discovery import Discovered


class LikedPosts(Protocol):
    """Where they are read (`storage.discovery.PostgresDiscovery`)."""

    async def liked_by(self, likers: Ids, known: Ids, n: int) -> Discovered:
        """Return at most n posts that these people liked, by authors who are not known."""
        ...


class NetworkLikes:
    """Posts that several of the viewer's closest followees liked lately."""

    name = "network_likes"

    def __init__(self, posts: LikedPosts, *, n: int, likers: int) -> None:
        """Find at most n, by looking at the `likers` closest followees, however many there are."""
        self._posts = posts
        self._n = n
        self._likers = likers

    async def find(self, query: Query) -> Found:
        """Return them, most liked first."""
        viewer = query.viewer
        if not len(viewer.followees):
            return Found(viewer.followees, viewer.followees, self.name)
        likers = closest(viewer, self._likers)
        found = await self._posts.liked_by(likers, viewer.known, self._n)
        return Found(found.ids, found.ms, self.name)

    def unknown(self, query: Query) -> Gaps:
        """Return no gap: nobody is promised one."""
        return Gaps()

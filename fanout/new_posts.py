"""Delivers posts: into their author's outbox, and into the feeds of active followers."""

from collections.abc import Sequence

from fanout.plan import (
    Done,
    Outcome,
    Reached,
    Split,
    follower_ranges,
    reaches_followers,
    takes_slow_lane,
)
from feed.settings import Settings
from storage import keys
from storage.connections import Postgres
from storage.deliveries import Delivery
from storage.feeds import Feeds
from storage.followers import FollowerPage, every_nth_follower, first_pages, follower_page
from storage.posts import Deliverable, deliverable_posts


class NewPosts:
    """Performs the deliveries of `post.created` and `post.restored`, planned and chunk by chunk."""

    def __init__(
        self, postgres: Postgres, feeds: Feeds, outboxes: Feeds, settings: Settings
    ) -> None:
        """Push into `feeds` and `outboxes`, which differ in their caps only."""
        self._postgres = postgres
        self._feeds = feeds
        self._outboxes = outboxes
        self._settings = settings

    async def load(self, deliveries: Sequence[Delivery]) -> dict[int, Deliverable]:
        """Read the posts of these deliveries from the truth; deleted ones are left out."""
        named = [delivery.payload["post_id"] for delivery in deliveries]
        async with self._postgres.connection() as connection:
            return await deliverable_posts(connection, named)

    async def first_pages(self, posts: Sequence[Deliverable]) -> dict[int, FollowerPage]:
        """Read whom each pushed post goes to first, one follower more than a page."""
        authors = {
            post.author_id
            for post in posts
            if self._reaches_followers(post) and not _takes_slow_lane(post)
        }
        async with self._postgres.connection() as connection:
            return await first_pages(
                connection,
                sorted(authors),
                inactive_after_s=self._settings.inactive_after_s,
                limit=self._settings.fanout_page + 1,
            )

    async def deliver(self, post: Deliverable, followers: FollowerPage) -> Outcome:
        """Push into the outbox, and to followers: at once when one page holds them, else split.

        Under lag, posts of large authors are split even so: they wait in the slow lane, and are
        seen from the outbox meanwhile.
        """
        await self._outboxes.push([keys.outbox(post.author_id)], post.id, post.ms)
        if not self._reaches_followers(post):
            return Done(Reached())
        late = _takes_slow_lane(post)
        if followers.next_after is None and not late:
            return Done(await self._push(post, followers))
        async with self._postgres.connection() as connection:
            ends = await every_nth_follower(connection, post.author_id, self._settings.fanout_page)
        return Split(post.author_id, follower_ranges(ends), pull_meanwhile=late)

    async def deliver_chunk(self, post: Deliverable, after: int, until: int) -> Outcome:
        """Push to the active followers with ids in (after, until], page by page."""
        n_feeds = n_inactive = 0
        from_here: int | None = after
        while from_here is not None and self._reaches_followers(post):
            async with self._postgres.connection() as connection:
                page = await follower_page(
                    connection,
                    post.author_id,
                    after=from_here,
                    until=until,
                    inactive_after_s=self._settings.inactive_after_s,
                    limit=self._settings.fanout_page,
                )
            reached = await self._push(post, page)
            n_feeds, n_inactive = n_feeds + reached.n_feeds, n_inactive + reached.n_inactive
            from_here = page.next_after
        return Done(Reached(n_feeds, n_inactive))

    async def _push(self, post: Deliverable, followers: FollowerPage) -> Reached:
        feeds = [keys.feed(id) for id in followers.active]
        return Reached(await self._feeds.push(feeds, post.id, post.ms), followers.n_inactive)

    def _reaches_followers(self, post: Deliverable) -> bool:
        return reaches_followers(post.delivery, post.readers_pull)


def _takes_slow_lane(post: Deliverable) -> bool:
    return takes_slow_lane(post.followers, post.slow_from)

"""Delivers posts: into their author's outbox, and into the feeds of active followers."""

from collections.abc import Sequence

from fanout.plan import Done, Outcome, Split, follower_ranges, reaches_followers
from feed.settings import Settings
from storage import keys
from storage.connections import Postgres
from storage.deliveries import Delivery
from storage.feeds import Feeds
from storage.followers import active_followers, every_nth_follower, first_pages
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

    async def first_pages(self, posts: Sequence[Deliverable]) -> dict[int, list[int]]:
        """Read whom each pushed post goes to first, one follower more than a page."""
        authors = {post.author_id for post in posts if self._reaches_followers(post)}
        async with self._postgres.connection() as connection:
            return await first_pages(
                connection,
                sorted(authors),
                inactive_after_s=self._settings.inactive_after_s,
                limit=self._settings.fanout_page + 1,
            )

    async def deliver(self, post: Deliverable, followers: Sequence[int]) -> Outcome:
        """Push into the outbox, and to followers: at once when one page holds them, else split."""
        await self._outboxes.push([keys.outbox(post.author_id)], post.id, post.ms)
        if not self._reaches_followers(post):
            return Done()
        if len(followers) <= self._settings.fanout_page:
            await self._push(post, followers)
            return Done()
        async with self._postgres.connection() as connection:
            ends = await every_nth_follower(connection, post.author_id, self._settings.fanout_page)
        return Split(post.author_id, follower_ranges(ends))

    async def deliver_chunk(self, post: Deliverable, after: int, until: int) -> Outcome:
        """Push to the active followers with ids in (after, until], page by page."""
        while self._reaches_followers(post):
            async with self._postgres.connection() as connection:
                page = await active_followers(
                    connection,
                    post.author_id,
                    after=after,
                    until=until,
                    inactive_after_s=self._settings.inactive_after_s,
                    limit=self._settings.fanout_page,
                )
            await self._push(post, page)
            if len(page) < self._settings.fanout_page:
                break
            after = page[-1]
        return Done()

    async def _push(self, post: Deliverable, followers: Sequence[int]) -> None:
        await self._feeds.push([keys.feed(id) for id in followers], post.id, post.ms)

    def _reaches_followers(self, post: Deliverable) -> bool:
        return reaches_followers(post.delivery, post.readers_pull, self._settings.delivery)

"""Switches an author between push and pull without losing or doubling a post.

To pull: readers first; writers stop pushing when every reader knows. Back to push: writers push
again at once, which waits for posts in flight; a backfill merges what was only pulled into every
follower's feed; only then do readers stop pulling. Each step names the state that it leaves
(`storage.author_delivery.advance`), so that of two switches of one author only the newer goes on.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial

from fanout.plan import Again, Done, Outcome, Step, decided_by, next_step
from fanout.reconcile import newest_of
from feed.order import MAX_ID, Ids
from feed.settings import Settings
from storage import keys
from storage.author_delivery import State, advance, backfill, state_of
from storage.connections import Connection, Postgres
from storage.feeds import Feeds
from storage.followers import FollowerPage, follower_page
from storage.outbox_events import append, append_many

MERGES_AT_ONCE = 16

MOVES = {
    Step.TELL_READERS: (True, False),
    Step.STOP_PUSHING: (True, True),
    Step.PUSH_AGAIN: (True, False),
}
"""The state (readers pull, writers pull) that a step leads to."""


class Switch:
    """Performs the deliveries of `author.crossed` and `author.backfill`."""

    def __init__(self, postgres: Postgres, feeds: Feeds, settings: Settings) -> None:
        """Switch by the thresholds of `settings`."""
        self._postgres = postgres
        self._feeds = feeds
        self._settings = settings

    async def evaluate(self, author_id: int) -> Outcome:
        """Take the next step that the follower count, or the cost, asks for, if any."""
        async with self._postgres.transaction() as connection:
            state = await state_of(connection, author_id)
            if state is None:
                return Done()
            step = next_step(
                followers=state.follower_count,
                readers_pull=state.readers_pull,
                writers_pull=state.writers_pull,
                because=state.because,
                is_cheap=state.pull_is_cheap,
                settled_s=state.settled_s,
                settings=self._settings,
            )
            return await self._take(connection, author_id, state, step)

    async def _take(
        self, connection: Connection, author_id: int, state: State, step: Step
    ) -> Outcome:
        if step is Step.STAY:
            return Done()
        if step is Step.WAIT:
            return Again(after_s=self._settings.switch_grace_s - state.settled_s)
        readers, writers = MOVES[step]
        since = await advance(
            connection,
            author_id,
            since=state.changed_at,
            readers_pull=readers,
            writers_pull=writers,
            because=decided_by(state.follower_count, self._settings),
        )
        if since is None:
            return Again(after_s=0)  # somebody else took a step meanwhile
        if step is Step.TELL_READERS:
            return Again(after_s=self._settings.switch_grace_s)
        if step is Step.PUSH_AGAIN:
            await append_many(connection, [backfill(author_id, since)])
        return Done()

    async def backfill(
        self, author_id: int, since: datetime, after: int, *, in_time: Callable[[], bool]
    ) -> Outcome:
        """Merge an author's posts into the feeds of followers after `after`, then tell readers.

        Ends where a newer switch has begun. A merge for somebody who unfollowed meanwhile does
        no harm: reads drop it. Goes on later, where it stopped, when it is no longer `in_time`.
        """
        async with self._postgres.connection() as connection:
            ids, ms, floor_ms = await newest_of(connection, author_id, cap=self._settings.feed_cap)
        while in_time():
            async with self._postgres.connection() as connection:
                state = await state_of(connection, author_id)
                if state is None or state.changed_at != since:
                    return Done()
                page = await self._page(connection, author_id, after)
            merge = partial(self._merge, asyncio.Semaphore(MERGES_AT_ONCE), ids, ms, floor_ms)
            await asyncio.gather(*map(merge, page.active))
            if page.next_after is None:
                return await self._stop_pulling(author_id, since)
            after = page.next_after
        return Again(after_s=0, after_follower=after)

    async def _merge(
        self,
        at_once: asyncio.Semaphore,
        ids: Ids,
        ms: Ids,
        floor_ms: int | None,
        follower_id: int,
    ) -> None:
        async with at_once:
            await self._feeds.merge(keys.feed(follower_id), ids, ms, floor_ms)

    async def _page(self, connection: Connection, author_id: int, after: int) -> FollowerPage:
        return await follower_page(
            connection,
            author_id,
            after=after,
            until=MAX_ID,
            inactive_after_s=self._settings.inactive_after_s,
            limit=self._settings.fanout_page,
        )

    async def _stop_pulling(self, author_id: int, since: datetime) -> Outcome:
        """Let readers rely on the feeds; the count may ask for another switch by now."""
        async with self._postgres.transaction() as connection:
            await advance(
                connection, author_id, since=since, readers_pull=False, writers_pull=False
            )
            payload = {"author_id": author_id}
            await append(connection, "follower_count", author_id, "author.crossed", payload)
        return Done()

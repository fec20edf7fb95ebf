"""Performs deliveries: a worker calls `Fanout.deliver` with the ids that one job carries.

Everything here may run twice, in any order, and at the same time as anything else: posts are
pushed into sets ordered by time, and whatever removes or switches re-reads the truth first.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from time import monotonic

from fanout.new_posts import NewPosts
from fanout.plan import Again, Done, Outcome, PutBack, Reached, Split, retry_after_s, thresholds
from fanout.reconcile import reconcile
from fanout.switch import Switch
from feed.errors import Unavailable
from feed.settings import Settings
from storage import deliveries, keys, receipts
from storage.author_delivery import owe_switches
from storage.connections import Postgres
from storage.deliveries import Chunk, Delivery, Failure, Later
from storage.delivery_state import owes
from storage.feeds import Feeds
from storage.followers import FollowerPage
from storage.ghosts import Ghosts
from storage.posts import Deliverable
from storage.pressure import pull_meanwhile
from storage.purge import REQUESTS_END_S, purge_again
from storage.receipts import Receipt

log = logging.getLogger(__name__)

POSTED = ("post.created", "post.restored")
NEEDED = {
    "post.created": ("post_id",),
    "post.restored": ("post_id",),
    "post.deleted": ("post_id", "author_id"),
    "relation.changed": ("viewer_id", "author_id"),
    "author.crossed": ("author_id",),
    "author.backfill": ("author_id",),
    "import.finished": (),
    "user.deleted": ("user_id",),
}
"""The events we know, and the ids without which one cannot be performed."""

# Parts of a lease, together less than a job's time: what has not begun by the first is put back,
# and what then takes longer than the second has failed.
BEGIN_WITHIN = 0.3
FINISH_WITHIN = 0.4
POSTS_AT_ONCE = 16  # per process: more calls in flight only wait in the server's queue
CHUNKS_AT_ONCE = 2  # enough to keep the server at work; small posts' calls wait behind these
RECONCILES_AT_ONCE = 6  # and other rare work; each holds a connection of Postgres
CONNECTIONS = RECONCILES_AT_ONCE + 14  # and some for the jobs themselves
UNCOUNTED = 3  # a server that is gone is tried again as after this many failures

Result = Outcome | BaseException


class Fanout:
    """Delivers outbox events into cached lists, in batches of which each part stands alone."""

    def __init__(
        self,
        postgres: Postgres,
        feeds: Feeds,
        settings: Settings,
        *,
        outboxes: Feeds | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Read the truth from `postgres`, write lists through `feeds` (`outboxes`: other cap)."""
        self._postgres = postgres
        self._feeds = feeds
        self._settings = settings
        self._jitter = jitter
        self._new_posts = NewPosts(postgres, feeds, outboxes or feeds, settings)
        self._switch = Switch(postgres, feeds, settings)
        self._ghosts = Ghosts(postgres, feeds)
        self._posts_at_once = asyncio.Semaphore(POSTS_AT_ONCE)
        self._chunks_at_once = asyncio.Semaphore(CHUNKS_AT_ONCE)
        self._reconciles_at_once = asyncio.Semaphore(RECONCILES_AT_ONCE)
        self._begin_within_s = settings.lease_s * BEGIN_WITHIN
        self._finish_within_s = settings.lease_s * FINISH_WITHIN

    async def deliver(self, ids: Sequence[int]) -> int:
        """Perform those of these deliveries that are still owed; return how many are done.

        A failure is noted on its own delivery and costs the others nothing.
        """
        async with self._postgres.connection() as connection:
            owed = await deliveries.load(connection, ids)
        unfit = [(each, error) for each in owed if (error := _unfit(each))]
        fit = [each for each in owed if not _unfit(each)]
        posts = [each for each in fit if each.type in POSTED and not each.chunk]
        chunks = [each for each in fit if each.type in POSTED and each.chunk]
        relations = [each for each in fit if each.type == "relation.changed"]
        deletes = [each for each in fit if each.type == "post.deleted"]
        apart = (*POSTED, "relation.changed", "post.deleted")
        rest = [each for each in fit if each.type not in apart]
        groups = await asyncio.gather(
            self._all(posts, self._deliver_posts),
            self._all(chunks, self._deliver_chunks),
            self._all(relations, self._reconcile_all),
            self._all(deletes, self._sweep_all),
            self._all(rest, self._perform_all),
        )
        results = [*unfit, *(pair for group in groups for pair in group)]
        await self._settle(results)
        return sum(isinstance(result, Done | Split) for _, result in results)

    async def _all(
        self,
        batch: Sequence[Delivery],
        perform: Callable[[Sequence[Delivery]], Awaitable[list[Result]]],
    ) -> list[tuple[Delivery, Result]]:
        """Perform one kind; what fails before its parts are looked at fails all of this kind."""
        if not batch:
            return []
        try:
            results = await perform(batch)
        except Exception as error:
            results = [error] * len(batch)
        return list(zip(batch, results, strict=True))

    async def _each(
        self,
        batch: Sequence[Delivery],
        perform: Callable[[Delivery], Awaitable[Outcome]],
        at_once: asyncio.Semaphore,
    ) -> list[Result]:
        """Perform each, some at once; give an outcome or an error for each."""
        latest_s = monotonic() + self._begin_within_s

        async def in_time(each: Delivery) -> Outcome:
            async with at_once:
                if monotonic() > latest_s:
                    return PutBack()
                async with asyncio.timeout(self._finish_within_s):
                    return await perform(each)

        return await asyncio.gather(*map(in_time, batch), return_exceptions=True)

    # ------------------------------------------------------------------ posts

    async def _deliver_posts(self, batch: Sequence[Delivery]) -> list[Result]:
        posts = await self._new_posts.load(batch)
        pages = await self._new_posts.first_pages(list(posts.values()))

        async def deliver(each: Delivery, post: Deliverable) -> Outcome:
            return await self._new_posts.deliver(post, pages.get(post.author_id, FollowerPage()))

        return await self._each(batch, _of(posts, deliver), self._posts_at_once)

    async def _deliver_chunks(self, batch: Sequence[Delivery]) -> list[Result]:
        posts = await self._new_posts.load(batch)

        async def deliver(each: Delivery, post: Deliverable) -> Outcome:
            bounds = each.after_follower, each.until_follower
            return await self._new_posts.deliver_chunk(post, *bounds)

        return await self._each(batch, _of(posts, deliver), self._chunks_at_once)

    # ------------------------------------------------------------------ relations

    async def _reconcile_all(self, batch: Sequence[Delivery]) -> list[Result]:
        # A feed that is missing now is rebuilt from a truth that holds this change already.
        named = [keys.feed(each.payload["viewer_id"]) for each in batch]
        present = dict(zip(named, await self._feeds.present(named), strict=True))

        async def bring_in_line(each: Delivery) -> Outcome:
            viewer_id, author_id = each.payload["viewer_id"], each.payload["author_id"]
            if present[keys.feed(viewer_id)]:
                cap = self._settings.feed_cap
                await reconcile(self._postgres, self._feeds, viewer_id, author_id, cap=cap)
            return Done()

        return await self._each(batch, bring_in_line, self._reconciles_at_once)

    # ------------------------------------------------------------------ deletes

    async def _sweep_all(self, batch: Sequence[Delivery]) -> list[Result]:
        """Take deleted posts out of their authors' outboxes; feeds are swept when they are read."""
        found: dict[str, list[int]] = {}
        for each in batch:
            outbox = keys.outbox(each.payload["author_id"])
            found.setdefault(outbox, []).append(each.payload["post_id"])
        await self._ghosts.sweep(found)
        return [Done()] * len(batch)

    # ------------------------------------------------------------------ the rest

    async def _perform_all(self, batch: Sequence[Delivery]) -> list[Result]:
        return await self._each(batch, self._perform, self._reconciles_at_once)

    async def _perform(self, each: Delivery) -> Outcome:
        match each.type:
            case "author.crossed":
                return await self._switch.evaluate(each.payload["author_id"])
            case "author.backfill":
                return await self._backfill(each)
            case "import.finished":
                return await self._start_over()
            case "user.deleted":
                return await self._forget_user(each)
        raise AssertionError(each.type)  # NEEDED lists it, so it belongs above

    async def _forget_user(self, each: Delivery) -> Outcome:
        """Purge a deleted account of what is cached; and again when no request or job is left."""
        user_id = each.payload["user_id"]
        await self._feeds.forget_user(user_id, each.payload.get("shown", ()))
        async with self._postgres.transaction() as connection:
            await purge_again(connection, user_id)
        if each.after_follower:
            return Done()
        # A job that had read a post of theirs settles within its lease.
        after_s = max(REQUESTS_END_S, self._settings.lease_s)
        return Again(after_s=after_s, after_follower=1)

    async def _backfill(self, each: Delivery) -> Outcome:
        until_s = monotonic() + self._finish_within_s / 2
        return await self._switch.backfill(
            each.payload["author_id"],
            datetime.fromisoformat(each.payload["since"]),
            each.after_follower,
            in_time=lambda: monotonic() < until_s,
        )

    async def _start_over(self) -> Outcome:
        """Forget every list after an import, whose rows owe no events of their own."""
        await self._feeds.forget_lists()
        await self._feeds.forget(keys.SEEN_PATTERN)
        pull_from, push_below = thresholds(self._settings)
        async with self._postgres.transaction() as connection:
            await owe_switches(connection, None, pull_from=pull_from, push_below=push_below)
        return Done()

    # ------------------------------------------------------------------ settling

    async def _settle(self, pairs: Sequence[tuple[Delivery, Result]]) -> None:
        failures = await self._failures([(d, r) for d, r in pairs if isinstance(r, BaseException)])
        splits = [r for _, r in pairs if isinstance(r, Split)]
        late = [split.author_id for split in splits if split.pull_meanwhile]
        chunks = [chunk for d, r in pairs for chunk in _chunks(d, r)]
        done = [d.id for d, r in pairs if isinstance(r, Done | Split)]
        not_begun = [d.id for d, r in pairs if isinstance(r, PutBack)]
        later = [Later(d.id, r.after_s, r.after_follower) for d, r in pairs if isinstance(r, Again)]
        async with self._postgres.transaction() as connection:
            # Asked first, as writers do: whoever lets everybody pull waits until this has ended,
            # and forgets what it owes, or has done so, and nothing more is owed.
            if not await owes(connection):
                late, chunks = [], []
            pulled = await pull_meanwhile(connection, late)
            await deliveries.split(connection, chunks)
            await deliveries.finish(connection, done)
            await receipts.write(connection, [each for d, r in pairs for each in _receipts(d, r)])
            await deliveries.put_back(connection, not_begun)
            await deliveries.postpone(connection, later)
            await deliveries.fail(connection, failures)
        if pulled:
            log.info("readers pull authors because of lag", extra={"n": len(pulled)})

    async def _failures(self, failed: Sequence[tuple[Delivery, BaseException]]) -> list[Failure]:
        """Note what failed; while Redis is gone or full nothing counts: nothing is parked."""
        if not failed:
            return []
        writable = await self._feeds.takes_writes()
        return [self._failure(delivery, error, writable) for delivery, error in failed]

    def _failure(self, delivery: Delivery, error: BaseException, writable: bool) -> Failure:
        counts = writable or not isinstance(error, Unavailable | TimeoutError)
        failures = delivery.failures + 1
        park = counts and failures >= self._settings.failures_until_parked
        text = f"{type(error).__name__}: {error}"[:500]
        log.warning(
            "delivery parked" if park else "delivery failed",
            extra={"delivery_id": delivery.id, "type": delivery.type, "error": text},
        )
        return Failure(
            id=delivery.id,
            error=text,
            retry_after_s=retry_after_s(failures if counts else UNCOUNTED, self._jitter()),
            counts=counts,
            park=park,
        )


def _of(
    posts: Mapping[int, Deliverable],
    deliver: Callable[[Delivery, Deliverable], Awaitable[Outcome]],
) -> Callable[[Delivery], Awaitable[Outcome]]:
    """Deliver what is of a post that is there; of one that was deleted meanwhile, nothing is left.

    A restore is an event of its own.
    """

    async def perform(each: Delivery) -> Outcome:
        post = posts.get(each.payload["post_id"])
        return Done() if post is None else await deliver(each, post)

    return perform


def _unfit(delivery: Delivery) -> ValueError | None:
    """Say what is wrong with an event that cannot be performed, before it can harm a batch."""
    if delivery.type not in NEEDED:
        return ValueError(f"no such event type: {delivery.type}")
    for name in NEEDED[delivery.type]:
        value = delivery.payload.get(name) if isinstance(delivery.payload, Mapping) else None
        if type(value) is not int:
            return ValueError(f"{delivery.type} without {name}")
    return None


def _chunks(delivery: Delivery, result: Result) -> list[Chunk]:
    if not isinstance(result, Split):
        return []
    return [
        Chunk(result.author_id, delivery.event_id, chunk, after, until)
        for chunk, (after, until) in enumerate(result.ranges, start=1)
    ]


def _receipts(delivery: Delivery, result: Result) -> list[Receipt]:
    """Note how far a post got; a plan has got nowhere yet, and starts its receipt over."""
    if isinstance(result, Split):
        return [Receipt(delivery.payload["post_id"], delivery.chunk, *Reached())]
    if isinstance(result, Done) and result.reached is not None:
        return [Receipt(delivery.payload["post_id"], delivery.chunk, *result.reached)]
    return []

"""What a read leaves behind: the visit is stamped, lists are rebuilt, swept, or live on."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from feed.query import Viewer
from mixer.side_effects import SideEffects
from storage import keys
from storage.connections import Postgres
from storage.feeds import Feeds
from storage.ghosts import Ghosts
from storage.rebuild import Rebuild
from storage.users import stamp_visit


class Upkeep:
    """Keeps the cached lists of those who read, beside their requests."""

    def __init__(
        self,
        effects: SideEffects,
        postgres: Postgres,
        feeds: Feeds,
        rebuild: Rebuild,
        *,
        token: Callable[[], str],
        at_once: int,
        feed_ttl_s: int,
        outbox_ttl_s: int,
    ) -> None:
        """Rebuild at most `at_once` lists at the same time; `token` makes a fresh marker.

        That keeps connections free; the bound on all processes together is in `rebuild`.
        """
        self._effects = effects
        self._postgres = postgres
        self._feeds = feeds
        self._ghosts = Ghosts(postgres, feeds)
        self._rebuild = rebuild
        self._token = token
        self._slots = asyncio.Semaphore(at_once)
        self._under_way: set[str] = set()
        self._feed_ttl_s = feed_ttl_s
        self._outbox_ttl_s = outbox_ttl_s

    def after(
        self, viewer: Viewer, missing: Mapping[str, tuple[int, ...]], *, opened: bool
    ) -> None:
        """Start what a page leaves to do; only an opening counts as a visit."""
        if opened or missing:
            name = "rebuild" if missing else "visit"
            self._effects.start(name, self._after(viewer, missing, opened=opened))

    def sweep(self, viewer: Viewer, ghosts: Sequence[int]) -> None:
        """Start to remove deleted posts that were found in the viewer's feed."""
        if ghosts and viewer.reads_lists:
            self._effects.start("ghosts", self._ghosts.sweep({keys.feed(viewer.id): ghosts}))

    async def _after(
        self, viewer: Viewer, missing: Mapping[str, tuple[int, ...]], *, opened: bool
    ) -> None:
        if opened:
            # Before any rebuild: from now on fan-out counts this viewer as active.
            async with self._postgres.connection() as connection:
                await stamp_visit(connection, viewer.id)
            if not viewer.reads_lists:
                return
            outboxes = [keys.outbox(author_id) for author_id in viewer.pulled.tolist()]
            lives = dict.fromkeys(outboxes, self._outbox_ttl_s)
            await self._feeds.touch({keys.feed(viewer.id): self._feed_ttl_s, **lives})
        for viewer_id in missing.get("pushed_feed", ()):
            await self._once(keys.feed(viewer_id), partial(self._rebuild.feed, viewer_id))
        for author_id in missing.get("author_outbox", ()):
            await self._once(keys.outbox(author_id), partial(self._rebuild.outbox, author_id))

    async def _once(self, key: str, rebuild: Callable[[str], Awaitable[bool]]) -> None:
        """Rebuild a list unless this process is at it, or about to be."""
        if key in self._under_way:
            return
        self._under_way.add(key)
        try:
            async with self._slots:
                await rebuild(self._token())
        finally:
            self._under_way.remove(key)

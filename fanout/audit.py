"""The background auditor: every now and then it checks the feeds of a few viewers, at random.

It runs in the relay's process, in one of them at a time, and repairs nothing: what it finds is in
the log, and as counts in Postgres, from where the api exports them.
"""

import logging
import random
from collections import Counter
from collections.abc import Callable

from feed.settings import Settings
from storage import audits
from storage.check import KINDS, FeedCheck, Look, sample_viewers
from storage.connections import Postgres
from storage.feeds import Feeds

log = logging.getLogger(__name__)


class Auditor:
    """Checks a sample of viewers, one after the other."""

    def __init__(
        self,
        postgres: Postgres,
        feeds: Feeds,
        settings: Settings,
        *,
        seed: Callable[[], int] = lambda: random.randrange(2**31),
    ) -> None:
        """Compare `feeds` with `postgres`; `seed` chooses the viewers of a round."""
        self._postgres = postgres
        self._check = FeedCheck(postgres, feeds)
        self._settings = settings
        self._seed = seed

    async def step(self) -> float:
        """Do one round unless somebody else has just done it; return the pause until the next."""
        every_s = self._settings.audit_every_s
        async with self._postgres.transaction() as connection:
            audit_id = await audits.begin(connection, every_s)
        if audit_id is not None:
            await self._round(audit_id)
        return every_s

    async def _round(self, audit_id: int) -> None:
        async with self._postgres.connection() as connection:
            viewers = await sample_viewers(
                connection,
                self._settings.audit_viewers,
                within_s=self._settings.feed_ttl_s,
                seed=self._seed(),
            )
        looks = [await self._check.check(viewer_id) for viewer_id in viewers]
        counts = Counter(fault.kind for look in looks for fault in look.faults)
        async with self._postgres.connection() as connection:
            faults = {kind: counts[kind] for kind in KINDS}
            await audits.finish(connection, audit_id, len(looks), faults)
        for look in looks:
            _tell(look)


def _tell(look: Look) -> None:
    """Warn of what harms, with an example; the rest comes right by itself."""
    if look.harms:
        worst = next(each for each in sorted(look.faults) if each.harms)
        log.warning(
            "feed differs from the truth",
            extra={
                "viewer_id": str(look.viewer_id),
                "n_missing": len(look.of_kind("missing")),
                "n_out_of_order": len(look.of_kind("out_of_order")),
                "list": f"{worst.list.kind} of {worst.list.owner_id}",
                "post_id": str(worst.post_id),
            },
        )

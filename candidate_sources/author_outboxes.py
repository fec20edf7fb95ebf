"""The outboxes of the large authors a viewer follows: pulled when a feed is opened."""

import numpy as np

from candidate_sources.pushed_feed import CachedLists
from feed.candidates import Found, Gaps, empty_ids
from feed.order import below, newest
from feed.query import Query
from storage import keys


class AuthorOutboxes:
    """Reads one Redis list per pulled followee, all in one round trip."""

    name = "author_outbox"

    def __init__(self, lists: CachedLists) -> None:
        """Read from `lists`."""
        self._lists = lists

    async def find(self, query: Query) -> Found:
        """Return the outboxes' newest posts below `query.before`; each has its own floor."""
        authors = query.viewer.outboxes
        outboxes = await self._lists.read([keys.outbox(author) for author in authors.tolist()])
        ids, ms = [empty_ids()], [empty_ids()]
        gaps: list[Gaps] = []
        missing: list[int] = []
        for row, outbox in enumerate(outboxes):
            author = authors[row : row + 1]
            if outbox is None:
                missing.append(int(author[0]))
                gaps.append(Gaps.everywhere(author))
                continue
            mask = below(outbox.ms, outbox.ids, query.before)
            ids.append(outbox.ids[mask])
            ms.append(outbox.ms[mask])
            if outbox.floor_ms is not None:
                gaps.append(Gaps.at(author, outbox.floor_ms))
        all_ids, all_ms = np.concatenate(ids), np.concatenate(ms)
        # A post is in one outbox: of twenty full ones, all but the newest n would only be sorted.
        rows = newest(all_ms, query.n)
        return Found(
            all_ids[rows],
            all_ms[rows],
            self.name,
            Gaps.joined(gaps).under(query.before),
            missing=tuple(missing),
        )

    def unknown(self, query: Query) -> Gaps:
        """Return a gap from `query.before` down for every pulled followee."""
        return Gaps.everywhere(query.viewer.outboxes).under(query.before)

"""Hydrators fill in facts about candidates, as columns."""

from typing import Protocol

from feed.affinity import affinity_to
from feed.candidates import Candidates, Column
from feed.order import Ids
from feed.query import Query
from storage.timelines import Signals

MS_PER_DAY = 86_400_000


class SignalReader(Protocol):
    """Where signals of posts are read (`storage.timelines.PostgresTimelines`)."""

    async def signals(self, ids: Ids) -> Signals:
        """Return the signals of these posts (n,)."""
        ...


class PostSignals:
    """Author, original, format and counters. A post that is gone has author 0."""

    name = "post_signals"

    def __init__(self, reader: SignalReader) -> None:
        """Read through `reader`."""
        self._reader = reader

    async def hydrate(self, query: Query, candidates: Candidates) -> dict[str, Column]:
        """Return author, original, format, likes, comments, reposts, author_age_d, each (n,)."""
        signals = await self._reader.signals(candidates.ids)
        return {
            "author": signals.authors,
            "original": signals.originals,
            "format": signals.formats,
            "likes": signals.likes,
            "comments": signals.comments,
            "reposts": signals.reposts,
            "author_age_d": (query.now_ms - signals.author_since_ms) / MS_PER_DAY,
        }


class Affinity:
    """The viewer's affinity to each candidate's author."""

    name = "affinity"

    async def hydrate(self, query: Query, candidates: Candidates) -> dict[str, Column]:
        """Return the column affinity (n,), in [0.1, 1]."""
        return {"affinity": affinity_to(query.viewer, candidates["author"])}

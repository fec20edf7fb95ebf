"""Hydrators fill in facts about candidates, as columns."""

from typing import Protocol

import numpy as np

from feed.affinity import affinity_to
from feed.candidates import Candidates, Column
from feed.order import Ids
from feed.query import Query
from storage.timelines import Signals


class SignalReader(Protocol):
    """Where signals of posts are read (`storage.timelines.PostgresTimelines`)."""

    async def signals(self, ids: Ids) -> Signals:
        """Return the signals of the posts that exist, in any order."""
        ...


class PostSignals:
    """Author, original, format and counters. A post that is gone has author 0."""

    name = "post_signals"

    def __init__(self, reader: SignalReader) -> None:
        """Read through `reader`."""
        self._reader = reader

    async def hydrate(self, query: Query, candidates: Candidates) -> dict[str, Column]:
        """Return the columns author, original, format, likes, comments, reposts (n,)."""
        signals = await self._reader.signals(candidates.ids)
        order = np.argsort(signals.ids)
        at = np.searchsorted(signals.ids, candidates.ids, sorter=order)
        row = order[np.minimum(at, max(len(order) - 1, 0))] if len(order) else at
        there = signals.ids[row] == candidates.ids if len(order) else np.zeros(len(at), np.bool_)
        blank = np.zeros(len(candidates), dtype=np.int64)

        def column(values: Column) -> Column:
            return np.where(there, values[row], blank) if len(order) else blank

        return {
            "author": column(signals.authors),
            "original": np.where(there, column(signals.originals), candidates.ids),
            "format": column(signals.formats),
            "likes": column(signals.likes),
            "comments": column(signals.comments),
            "reposts": column(signals.reposts),
        }


class Affinity:
    """The viewer's affinity to each candidate's author."""

    name = "affinity"

    async def hydrate(self, query: Query, candidates: Candidates) -> dict[str, Column]:
        """Return the column affinity (n,), in [0.1, 1]."""
        return {"affinity": affinity_to(query.viewer, candidates["author"])}

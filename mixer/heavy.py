"""The heavy stage: a model scores the light ranker's best K, off the event loop, in bounded time.

It decides relevance only: when it fails, is late or has too much to do, the light order is served.
"""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import BoundedSemaphore

import numpy as np

from feed.candidates import Candidates, Column
from feed.order import Rows
from feed.query import Query
from feed.stages import Scorer
from mixer.facts import Known
from mixer.logbook import FactReader
from mixer.models import Models
from rankers.artifact import Model
from rankers.features import build
from rankers.heavy import NAME, Scores, as_share

AT_ONCE = 8
"""Predictions that wait for the one thread, or run; a request beyond them goes without."""


class Predictions:
    """Predicts on one thread beside the event loop, at most `AT_ONCE` requests' rows at a time.

    A prediction cannot be stopped: one that nobody waits for any more counts until it has ended.
    """

    def __init__(self) -> None:
        """Start the thread with the first prediction."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="heavy")
        self._places = BoundedSemaphore(AT_ONCE)

    async def of(self, model: Model, known: Known) -> Scores:
        """Return what a model says of posts (k,), as shares in (0, 1); 0 where that is no number.

        Raises:
            RuntimeError: Too many wait already.
            ValueError: The model gives another shape, or no number at all.
        """
        if not self._places.acquire(blocking=False):
            raise RuntimeError(f"{AT_ONCE} predictions wait already")
        try:
            predicting = self._thread.submit(_predicted, model, known)
        except BaseException:
            self._places.release()
            raise
        predicting.add_done_callback(self._free)
        # Shielded: a cancelled one would stay in the queue, and no longer be counted.
        return await asyncio.shield(asyncio.wrap_future(predicting))

    def close(self) -> None:
        """Let the thread end when it is done."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _free(self, _: "Future[Scores]") -> None:
        self._places.release()


def _predicted(model: Model, known: Known) -> Scores:
    raw = model.predict(build(known.facts, model.manifest.features))
    if raw.shape != known.ids.shape:
        raise ValueError(f"scores of shape {raw.shape}, not {known.ids.shape}")
    finite = np.isfinite(raw)
    if not finite.any():
        raise ValueError("scores that are not finite")
    return np.where(finite, as_share(np.where(finite, raw, 0.0)), 0.0)


@dataclass
class HeavyScores:
    """The heavy stage of one request: its model, and in the end what it knew of the posts."""

    model: Model
    light: Scorer
    facts: FactReader
    predictions: Predictions
    k: int
    deadline_s: float
    known: Known | None = field(default=None, init=False)
    name = NAME

    async def hydrate(self, query: Query, candidates: Candidates) -> dict[str, Column]:
        """Return the column heavy (n,): the model's share for the light ranker's best, else 0."""
        said = np.zeros(len(candidates))
        rows = self._best(query, candidates)
        if len(rows):
            async with asyncio.timeout(self.deadline_s):
                sources = candidates["source"][rows]
                ids = candidates.ids[rows]
                known = await self.facts.of(query.viewer.id, ids, sources, query.now_ms)
                said[rows] = await self.predictions.of(self.model, known)
            self.known = known
        return {NAME: said}

    def _best(self, query: Query, candidates: Candidates) -> Rows:
        light = self.light.score(candidates, query.now_ms)
        if not np.isfinite(light).all():
            raise ValueError("light scores that are not finite choose nothing")
        return np.asarray(np.lexsort((candidates.ids, candidates.ms, light))[::-1][: self.k])


class HeavyRanker:
    """Gives each request a heavy stage with the champion of this moment, when there is one."""

    def __init__(self, models: Models, facts: FactReader, *, k: int, deadline_s: float) -> None:
        """Score the best `k`, within `deadline_s` for what is known of them and the prediction."""
        self.models = models
        self._facts = facts
        self._predictions = Predictions()
        self._k = k
        self._deadline_s = deadline_s

    def scores(self, light: Scorer) -> HeavyScores | None:
        """Return the stage of one request, after this light ranker; None: there is no model."""
        model = self.models.champion
        if model is None:
            return None
        return HeavyScores(model, light, self._facts, self._predictions, self._k, self._deadline_s)

    def close(self) -> None:
        """Let the predicting thread end."""
        self._predictions.close()

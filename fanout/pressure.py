"""Keeps feeds fresh under lag: posts of large authors wait, and are pulled meanwhile.

A falling threshold says who is large: their posts take the slow lane, and their readers pull until
it has drained. Runs in the relay's process, one relay at a time.
"""

import logging

from fanout.plan import is_calm, next_threshold
from feed.settings import Settings
from storage import pressure
from storage.connections import Connection, Postgres
from storage.locks import try_lock

log = logging.getLogger(__name__)

EVERY_S = 1.0


class UnderLag:
    """One step a second: who need no longer be pulled, then where the threshold stands."""

    def __init__(self, postgres: Postgres, settings: Settings) -> None:
        """Measure and decide in `postgres`, by the bounds of `settings`."""
        self._postgres = postgres
        self._settings = settings

    async def step(self) -> float:
        """Release, adjust and pull once; return the seconds to wait before the next step.

        Two transactions, since each locks authors in order of their ids.
        """
        async with self._postgres.transaction() as connection:
            released = await pressure.release_drained(connection)
        if released:
            log.info("readers no longer pull, the slow lane has drained", extra=_of(released))
        async with self._postgres.transaction() as connection:
            if await try_lock(connection, "delivery pressure"):
                await self._adjust(connection)
        return EVERY_S

    async def _adjust(self, connection: Connection) -> None:
        stands = await pressure.pressure_of(connection)
        lag_s = await pressure.lag_s(connection, failing=False)
        calm = is_calm(lag_s, self._settings)
        threshold = next_threshold(
            stands.threshold,
            lag_s=lag_s,
            changed_s=stands.changed_s,
            calm_s=stands.calm_s if calm else 0.0,
            settings=self._settings,
        )
        if threshold != stands.threshold:
            await pressure.press(connection, threshold)
            told = {"threshold": threshold, "was": stands.threshold, "lag_s": round(lag_s, 1)}
            log.warning("delivery pressure changed", extra=told)
        if threshold is not None:
            if not calm:
                await pressure.note_busy(connection)
            await self._pull_waiting(connection, threshold)

    async def _pull_waiting(self, connection: Connection, threshold: int) -> None:
        """Let readers pull those who wait in the slow lane and were below the threshold before."""
        waiting = await pressure.waiting_authors(connection, threshold)
        if pulled := await pressure.pull_meanwhile(connection, waiting):
            log.info("readers pull authors because of lag", extra=_of(pulled))


def _of(author_ids: list[int]) -> dict[str, object]:
    return {"n": len(author_ids), "author_ids": author_ids[:10]}

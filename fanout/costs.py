"""Switches authors by cost: measures now and then, and has those looked at who should switch.

Runs in the relay's process, one relay at a time, where FORYOU_SWITCH_POLICY is `cost`. The switch
itself is taken step by step in `fanout.switch`, as for the count of followers.
"""

import logging

from fanout.plan import pull_is_cheap, wants_pull
from feed.settings import Settings
from storage.author_delivery import look_at
from storage.connections import Connection, Postgres
from storage.costs import AuthorCost, count_authors, measured_s_ago, note_costs
from storage.locks import try_lock

log = logging.getLogger(__name__)

LOOK_EVERY_S = 60.0
"""Whether somebody has measured lately is looked at this often."""


async def author_costs(
    connection: Connection, settings: Settings, *, least_followers: int
) -> list[AuthorCost]:
    """Measure the authors with so many followers or more, by id."""
    return await count_authors(
        connection,
        days=settings.cost_window_days,
        least_followers=least_followers,
        inactive_after_s=settings.inactive_after_s,
    )


class ByCost:
    """One step now and then: measure, note, and owe the switches that this calls for."""

    def __init__(self, postgres: Postgres, settings: Settings) -> None:
        """Measure in `postgres`, by the costs and bounds of `settings`."""
        self._postgres = postgres
        self._settings = settings

    async def step(self) -> float:
        """Measure if it is time; return the seconds to wait before looking again."""
        settings = self._settings
        pause_s = min(LOOK_EVERY_S, settings.cost_every_s)
        if settings.switch_policy != "cost" or settings.delivery != "hybrid":
            return pause_s
        async with self._postgres.transaction() as connection:
            if not await try_lock(connection, "author costs"):
                return pause_s
            if await measured_s_ago(connection) >= settings.cost_every_s:
                await self._measure(connection)
        return pause_s

    async def _measure(self, connection: Connection) -> None:
        settings = self._settings
        least = settings.cost_push_below_followers
        costs = await author_costs(connection, settings, least_followers=least)
        cheap = {cost.author_id: pull_is_cheap(cost, settings) for cost in costs}
        await note_costs(connection, cheap)
        # Who is half-way has a next step under way, which looks at this by itself.
        settled = [(cost, cost.pulled) for cost in costs if cost.pulled is not None]
        differing = [
            cost.author_id
            for cost, pulled in settled
            if pulled is not self._wanted(cost, pulled, cheap[cost.author_id])
        ]
        await look_at(connection, differing)
        log.info("authors measured", extra={"n": len(costs), "n_to_switch": len(differing)})

    def _wanted(self, cost: AuthorCost, pulled: bool, is_cheap: bool) -> bool:
        return wants_pull(cost.followers, pulled=pulled, is_cheap=is_cheap, settings=self._settings)

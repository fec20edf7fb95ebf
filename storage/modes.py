"""Reads what decides the mode of a feed, for one user or as a whole; `feed.mode` decides."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from feed.mode import ModeChoices, ModeRules
from feed.query import Mode
from storage.connections import Connection

INPUTS = """
SELECT r.default_mode, r.kill_switch, r.allow_request, r.ranked_percent, r.holdout_percent,
       u.feed_mode, u.mode_override, c.feed_mode
  FROM rollouts r
  LEFT JOIN users u ON u.id = %(user)s
  LEFT JOIN cohort_members m ON m.user_id = %(user)s
  LEFT JOIN cohorts c ON c.name = m.cohort
"""


async def load_mode_inputs(connection: Connection, user_id: int) -> tuple[ModeRules, ModeChoices]:
    """Load the product's rules and what was chosen for one user; an unknown user chose nothing.

    Asked at each open and cached nowhere, so that a change holds on every node with its commit.
    """
    cursor = await connection.execute(INPUTS, {"user": user_id})
    row = await cursor.fetchone()
    if row is None:  # somebody emptied the table: the product's defaults still hold
        return ModeRules(), ModeChoices()
    return ModeRules(*row[:5]), ModeChoices(*row[5:])


@dataclass(frozen=True)
class Cohort:
    """A cohort; `members` None: more than were asked for."""

    mode: Mode
    n_members: int
    members: list[int] | None


@dataclass(frozen=True)
class Modes:
    """All that decides modes, as an admin sees it; `overrides` None: more than were asked for."""

    version: int
    updated_at: datetime
    rules: ModeRules
    cohorts: Mapping[str, Cohort]
    n_overrides: int
    overrides: Mapping[int, Mode] | None


_RULES = """
SELECT version, updated_at,
       default_mode, kill_switch, allow_request, ranked_percent, holdout_percent FROM rollouts
"""
_COHORTS = """
SELECT c.name, c.feed_mode, (SELECT count(*) FROM cohort_members m WHERE m.cohort = c.name),
       ARRAY(SELECT user_id FROM cohort_members m WHERE m.cohort = c.name ORDER BY 1 LIMIT %s)
  FROM cohorts c ORDER BY c.name
"""
_N_OVERRIDES = "SELECT count(*) FROM users WHERE mode_override IS NOT NULL"


async def load_modes(connection: Connection, *, listed: int) -> Modes:
    """Load everything; up to `listed` members of each cohort and `listed` overrides by name."""
    rules = await (await connection.execute(_RULES)).fetchone()
    assert rules is not None  # the migration made the only row
    cohorts = await (await connection.execute(_COHORTS, [listed])).fetchall()
    counted = await (await connection.execute(_N_OVERRIDES)).fetchone()
    n_overrides: int = counted[0] if counted else 0
    overrides = await overrides_after(connection, 0, listed)
    return Modes(
        version=rules[0],
        updated_at=rules[1],
        rules=ModeRules(*rules[2:]),
        cohorts={
            name: Cohort(mode, n, members if n <= listed else None)
            for name, mode, n, members in cohorts
        },
        n_overrides=n_overrides,
        overrides=overrides if n_overrides <= listed else None,
    )


_OVERRIDES = """
SELECT id, mode_override FROM users
 WHERE mode_override IS NOT NULL AND id > %s ORDER BY id LIMIT %s
"""


async def overrides_after(connection: Connection, after: int, n: int) -> dict[int, Mode]:
    """Return the next `n` overrides by user id."""
    return dict(await (await connection.execute(_OVERRIDES, [after, n])).fetchall())


_MEMBERS = """
SELECT user_id FROM cohort_members WHERE cohort = %s AND user_id > %s ORDER BY user_id LIMIT %s
"""


async def members_after(connection: Connection, cohort: str, after: int, n: int) -> list[int]:
    """Return the next `n` members of a cohort by user id."""
    rows = await connection.execute(_MEMBERS, [cohort, after, n])
    return [user_id for (user_id,) in await rows.fetchall()]

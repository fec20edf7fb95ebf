"""How an author's posts reach followers: pushed into feeds, or pulled from the author's outbox.

Decided per post inside its transaction; switched by `fanout.switch`, one step at a time.
Both flags of an author change through `advance`, each step naming the state that it leaves, so
that two switches of one author can never overlap; under lag, `storage.pressure` lets readers pull
an author who is pushed all the while.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import numpy as np

from feed.order import Ids
from storage.connections import Connection
from storage.delivery_state import owes
from storage.outbox_events import Event, append_many

Delivery = Literal["push", "pull"]
Because = Literal["size", "lag", "cost"]
"""Why an author is pulled."""


# FOR SHARE: a switch back to push waits for posts in flight, so that its backfill sees them.
_WRITERS = """
SELECT author_id, writers_pull FROM author_delivery
WHERE author_id = ANY(%s) ORDER BY author_id FOR SHARE
"""


async def deliveries_of(connection: Connection, author_ids: Sequence[int]) -> dict[int, Delivery]:
    """Decide, for posts written in this transaction, how each author's are delivered."""
    if not await owes(connection):
        return dict.fromkeys(author_ids, "pull")
    rows = await connection.execute(_WRITERS, [sorted(set(author_ids))])
    pulled = {author_id for author_id, writers_pull in await rows.fetchall() if writers_pull}
    return {author: "pull" if author in pulled else "push" for author in author_ids}


async def delivery_of(connection: Connection, author_id: int) -> Delivery:
    """Decide how a post of this author, written in this transaction, is delivered."""
    return (await deliveries_of(connection, [author_id]))[author_id]


async def pulled_authors(connection: Connection) -> Ids:
    """Return the authors whom readers pull, sorted."""
    rows = await connection.execute(
        "SELECT author_id FROM author_delivery WHERE readers_pull ORDER BY author_id"
    )
    return np.array([author_id for (author_id,) in await rows.fetchall()], dtype=np.int64)


class State(NamedTuple):
    """An author's followers and place between push (False, False) and pull (True, True)."""

    follower_count: int
    readers_pull: bool
    writers_pull: bool
    because: Because
    changed_at: datetime | None  # None: never switched
    settled_s: float  # since changed_at; infinite: never switched
    pull_is_cheap: bool | None  # cheaper than push; None: not measured


_STATE = """
SELECT u.follower_count, coalesce(d.readers_pull, false), coalesce(d.writers_pull, false),
       coalesce(d.because, 'size'), d.changed_at,
       coalesce(extract(epoch FROM now() - d.changed_at)::float8, 'infinity'), c.pull_is_cheap
FROM users u
LEFT JOIN author_delivery d ON d.author_id = u.id
LEFT JOIN author_costs c ON c.author_id = u.id
WHERE u.id = %s
"""


async def state_of(connection: Connection, author_id: int) -> State | None:
    """Read where an author stands; None: there is no such user."""
    row = await (await connection.execute(_STATE, [author_id])).fetchone()
    return State(*row) if row else None


# clock_timestamp(), not now(): two changes in one transaction must differ.
_FIRST = """
INSERT INTO author_delivery (readers_pull, writers_pull, because, author_id, changed_at)
VALUES (%s, %s, %s, %s, clock_timestamp())
ON CONFLICT (author_id) DO NOTHING
RETURNING changed_at
"""
_ADVANCE = """
UPDATE author_delivery
SET readers_pull = %s, writers_pull = %s, because = %s, changed_at = clock_timestamp()
WHERE author_id = %s AND changed_at = %s
RETURNING changed_at
"""


async def advance(
    connection: Connection,
    author_id: int,
    *,
    since: datetime | None,
    readers_pull: bool,
    writers_pull: bool,
    because: Because = "size",
) -> datetime | None:
    """Move an author on from the state entered at `since`.

    Returns:
        When the new state was entered, or None: the author is no longer in the old one.
    """
    values = [readers_pull, writers_pull, because, author_id]
    if since is None:
        changed = await connection.execute(_FIRST, values)
    else:
        changed = await connection.execute(_ADVANCE, [*values, since])
    row = await changed.fetchone()
    return row[0] if row else None


# Who is half-way has a next step under way already, which looks at the count again; named anew
# only without a list of authors, should that step have been lost.
_CROSSED = """
SELECT u.id FROM users u LEFT JOIN author_delivery d ON d.author_id = u.id
WHERE (u.id = ANY(%(authors)s::bigint[]) OR %(authors)s::bigint[] IS NULL)
  AND CASE WHEN d.writers_pull THEN u.follower_count < %(push_below)s
           WHEN d.readers_pull AND d.because <> 'lag' THEN %(authors)s::bigint[] IS NULL
           ELSE u.follower_count >= %(pull_from)s END
ORDER BY u.id
"""


async def owe_switches(
    connection: Connection, author_ids: Sequence[int] | None, *, pull_from: int, push_below: int
) -> list[int]:
    """Append `author.crossed` for those of these authors, None: of all, whose count asks for it."""
    values = {
        "authors": None if author_ids is None else list(author_ids),
        "pull_from": pull_from,
        "push_below": push_below,
    }
    rows = await connection.execute(_CROSSED, values)
    crossed = [author_id for (author_id,) in await rows.fetchall()]
    await look_at(connection, crossed)
    return crossed


async def look_at(connection: Connection, author_ids: Sequence[int]) -> None:
    """Append `author.crossed` for each of these authors: whether to switch is looked at then."""
    events = [
        Event("follower_count", author, "author.crossed", {"author_id": author})
        for author in author_ids
    ]
    await append_many(connection, events)


# Also where readers stopped pulling: what a backfill merged may be lost. Readers pull first.
_RESTART = """
UPDATE author_delivery
SET readers_pull = true, because = 'size', changed_at = clock_timestamp()
WHERE NOT writers_pull AND author_id IN (
    SELECT (payload ->> 'author_id')::bigint FROM outbox_events
    WHERE (created_at >= %s OR id = ANY(%s)) AND type = 'author.backfill')
RETURNING author_id, changed_at
"""


async def restart_backfills(
    connection: Connection, since: datetime, events: Sequence[UUID]
) -> None:
    """Begin anew the backfills of these events and since a time, unless writers pull again."""
    rows = await connection.execute(_RESTART, [since, list(events)])
    await append_many(connection, [backfill(*row) for row in await rows.fetchall()])


def backfill(author_id: int, since: datetime) -> Event:
    """Make the event that pushes what was only pulled, for the state entered at `since`."""
    payload = {"author_id": author_id, "since": since.isoformat()}
    return Event("follower_count", author_id, "author.backfill", payload)

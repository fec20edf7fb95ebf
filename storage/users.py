"""Users: created by their first write, named; preferences and visits. Deleted: `storage.purge`."""

from collections.abc import Sequence
from dataclasses import dataclass

from feed.errors import NotAllowed, NotFound
from feed.query import Mode
from storage.connections import Connection

_ENSURE = "INSERT INTO users (id, name) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING"
_DELETED = "SELECT deleted_at IS NOT NULL FROM users WHERE id = %s"


async def ensure_user(connection: Connection, user_id: int) -> None:
    """Create the user who writes for the first time.

    Raises:
        NotAllowed: The account was deleted.
    """
    rows = await connection.execute(_DELETED, [user_id])
    row = await rows.fetchone()
    if row is None:
        await connection.execute(_ENSURE, [user_id, f"user {user_id}"])
    elif row[0]:
        raise NotAllowed("This account was deleted.")


_KNOWN = "SELECT id FROM users WHERE id = ANY(%s) AND deleted_at IS NULL"


async def known_users(connection: Connection, user_ids: Sequence[int]) -> set[int]:
    """Return those of these users who exist and were not deleted."""
    rows = await connection.execute(_KNOWN, [list(user_ids)])
    return {user_id for (user_id,) in await rows.fetchall()}


async def require_user(connection: Connection, user_id: int) -> None:
    """Insist that a user exists.

    Raises:
        NotFound: There is none, or the account was deleted.
    """
    if user_id not in await known_users(connection, [user_id]):
        raise NotFound("There is no such user.")


# A row is locked only when something changes, so that a repeated import is cheap.
_PUT = """
WITH given AS (
    SELECT id, name FROM unnest(%s::bigint[], %s::text[]) AS g (id, name)
), before AS (
    SELECT id, name, deleted_at FROM users WHERE id IN (SELECT id FROM given)
), written AS (
    INSERT INTO users AS u (id, name) SELECT id, name FROM given ORDER BY id
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, deleted_at = NULL
     WHERE u.name <> excluded.name OR u.deleted_at IS NOT NULL
    RETURNING id
)
SELECT given.id, before.id IS NULL OR before.deleted_at IS NOT NULL, written.id IS NOT NULL
  FROM given LEFT JOIN before USING (id) LEFT JOIN written USING (id)
"""


@dataclass(frozen=True)
class UserPut:
    """What became of one named user."""

    created: bool
    changed: bool


async def put_users(connection: Connection, names: dict[int, str]) -> dict[int, UserPut]:
    """Create or rename users; a deleted account begins again, empty."""
    rows = await connection.execute(_PUT, [list(names), list(names.values())])
    return {id: UserPut(created, changed) for id, created, changed in await rows.fetchall()}


async def put_user(connection: Connection, user_id: int, name: str) -> bool:
    """Create or rename one user; True: created."""
    return (await put_users(connection, {user_id: name}))[user_id].created


_GET_MODE = "SELECT feed_mode FROM users WHERE id = %s"
_SET_MODE = "UPDATE users SET feed_mode = %s WHERE id = %s"


async def get_feed_mode(connection: Connection, user_id: int) -> Mode | None:
    """Return the viewer's own choice; None: the product decides."""
    row = await (await connection.execute(_GET_MODE, [user_id])).fetchone()
    return row[0] if row else None


async def set_feed_mode(connection: Connection, user_id: int, mode: Mode | None) -> None:
    """Store the viewer's own choice."""
    await connection.execute(_SET_MODE, [mode, user_id])


_IS_DISCOVERABLE = "SELECT discoverable FROM users WHERE id = %s"
_SET_DISCOVERABLE = "UPDATE users SET discoverable = %s WHERE id = %s"


async def is_discoverable(connection: Connection, user_id: int) -> bool:
    """Say whether strangers may be shown an author's posts; they may unless the author minds."""
    row = await (await connection.execute(_IS_DISCOVERABLE, [user_id])).fetchone()
    return bool(row[0]) if row else True


async def set_discoverable(connection: Connection, user_id: int, discoverable: bool) -> None:
    """Store whether strangers may be shown an author's posts."""
    await connection.execute(_SET_DISCOVERABLE, [discoverable, user_id])


# A deleted account may still read, with a token that has not expired, and leaves no trace.
_STAMP = """
INSERT INTO user_activity AS a (user_id, last_seen_at)
SELECT %(user)s, now()
WHERE NOT EXISTS (SELECT FROM users WHERE id = %(user)s AND deleted_at IS NOT NULL)
ON CONFLICT (user_id) DO UPDATE SET last_seen_at = excluded.last_seen_at
WHERE a.last_seen_at < now() - interval '1 hour'
"""


async def stamp_visit(connection: Connection, user_id: int) -> None:
    """Note that a viewer was here; at most one write an hour."""
    await connection.execute(_STAMP, {"user": user_id})

"""What posts and events point at: does it exist, who wrote it, may this user touch it."""

from collections.abc import Sequence
from typing import NamedTuple

from storage.connections import Connection

Pair = tuple[int, int]
"""A user, and the post that the user points at."""

_TARGETS = """
SELECT DISTINCT asked.user_id, p.id, p.author_id, p.repost_of,
       EXISTS (SELECT FROM blocks b
                WHERE b.blocker_id = asked.user_id
                  AND b.blocked_id IN (p.author_id, original.author_id))
    OR EXISTS (SELECT FROM blocks b
                WHERE b.blocked_id = asked.user_id
                  AND b.blocker_id IN (p.author_id, original.author_id))
  FROM unnest(%s::bigint[], %s::bigint[]) AS asked (user_id, post_id)
  JOIN posts p ON p.id = asked.post_id
  LEFT JOIN posts original ON original.id = p.repost_of
 WHERE p.deleted_at IS NULL AND original.deleted_at IS NULL
"""


class Target(NamedTuple):
    """A post that exists; `blocked`: a block stands between the user and its authors."""

    post_id: int
    author_id: int
    repost_of: int | None
    blocked: bool


async def targets_of(connection: Connection, pairs: Sequence[Pair]) -> dict[Pair, Target]:
    """Look up the posts that users point at; a pair that is not in the answer has no such post."""
    columns = [[user for user, _ in pairs], [post for _, post in pairs]]
    rows = await connection.execute(_TARGETS, columns)
    return {(user, target[0]): Target(*target) for user, *target in await rows.fetchall()}


_BLOCKED = """
SELECT a, b FROM unnest(%s::bigint[], %s::bigint[]) AS asked (a, b)
 WHERE EXISTS (SELECT FROM blocks WHERE blocker_id = a AND blocked_id = b)
    OR EXISTS (SELECT FROM blocks WHERE blocker_id = b AND blocked_id = a)
"""


async def blocked_pairs(connection: Connection, users: Sequence[Pair]) -> set[Pair]:
    """Return those of these pairs of users between whom a block stands, either way."""
    columns = [[a for a, _ in users], [b for _, b in users]]
    rows = await connection.execute(_BLOCKED, columns)
    return {(a, b) for a, b in await rows.fetchall()}

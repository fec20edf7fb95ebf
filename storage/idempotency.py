"""Idempotency keys: the same key and request make the same post, for a day."""

from feed.errors import Conflict
from storage.connections import Connection

KEPT_S = 86_400

# The insert waits for a transaction that holds the same key, then sees what it committed.
_CLAIM = """
INSERT INTO idempotency_keys AS k (user_id, key, request_hash, post_id)
VALUES (%(user)s, %(key)s, %(hash)s, %(post)s)
ON CONFLICT (user_id, key) DO UPDATE
   SET request_hash = excluded.request_hash, post_id = excluded.post_id, created_at = now()
 WHERE k.created_at < now() - make_interval(secs => %(kept_s)s)
"""
_STORED = "SELECT request_hash, post_id FROM idempotency_keys WHERE user_id = %s AND key = %s"


async def claim(
    connection: Connection, user_id: int, key: str, *, request_hash: bytes, post_id: int
) -> int:
    """Claim a key for a post about to be written, in the same transaction.

    Returns:
        `post_id` when the claim is new; else the post that the key made before.

    Raises:
        Conflict: The key was used for another request.
    """
    values = {"user": user_id, "key": key, "hash": request_hash, "post": post_id}
    claimed = await connection.execute(_CLAIM, {**values, "kept_s": KEPT_S})
    if claimed.rowcount:
        return post_id
    row = await (await connection.execute(_STORED, [user_id, key])).fetchone()
    if row is None or bytes(row[0]) != request_hash:
        raise Conflict("This Idempotency-Key was used for another request.")
    return int(row[1])


_PRUNE = "DELETE FROM idempotency_keys WHERE created_at < now() - make_interval(secs => %s)"


async def prune(connection: Connection) -> int:
    """Forget keys that are past keeping; return how many went."""
    return (await connection.execute(_PRUNE, [KEPT_S])).rowcount

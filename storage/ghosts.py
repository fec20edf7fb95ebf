"""Removes ids of deleted posts from cached lists, so that they take no places there.

No read shows them anyway. What makes it safe is the row lock: a restore waits until the id is
removed, and its event pushes the post again.
"""

from collections.abc import Mapping, Sequence

from storage.connections import Postgres
from storage.feeds import Feeds

# In order of id, as deletes and restores lock them.
_DELETED = """
SELECT id FROM posts WHERE id = ANY(%s) AND deleted_at IS NOT NULL ORDER BY id FOR SHARE
"""


class Ghosts:
    """Sweeps lists of ids that somebody has found to be deleted."""

    def __init__(self, postgres: Postgres, lists: Feeds) -> None:
        """Ask `postgres` again, remove from `lists`."""
        self._postgres = postgres
        self._lists = lists

    async def sweep(self, found: Mapping[str, Sequence[int]]) -> int:
        """Remove from each list those of these ids that are deleted now; return how many went."""
        ids = sorted({id for each in found.values() for id in each})
        async with self._postgres.transaction() as connection:
            rows = await connection.execute(_DELETED, [ids])
            deleted = {id for (id,) in await rows.fetchall()}
            gone = {key: [id for id in each if id in deleted] for key, each in found.items()}
            return await self._lists.remove_each({key: each for key, each in gone.items() if each})

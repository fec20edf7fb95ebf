"""The audit: what admins changed, by whom and why; written in the transaction of the change."""

import json
from datetime import datetime
from typing import Any, NamedTuple

from feed.order import MAX_ID
from storage.connections import Connection


class AuditRow(NamedTuple):
    """One change; `actor` is a user id as text."""

    id: int
    at: datetime
    actor: str
    action: str
    detail: dict[str, Any]


_APPEND = """
INSERT INTO audit (at, actor, action, detail) VALUES (clock_timestamp(), %s, %s, %s) RETURNING id
"""


async def append_audit(
    connection: Connection, *, actor: str, action: str, detail: dict[str, Any]
) -> int:
    """Note a change; return the id of its row."""
    rows = await connection.execute(_APPEND, [actor, action, json.dumps(detail)])
    row = await rows.fetchone()
    assert row is not None  # RETURNING always gives the inserted row
    audit_id: int = row[0]
    return audit_id


_NEWEST = """
SELECT id, at, actor, action, detail FROM audit
 WHERE id < %(before)s ORDER BY id DESC LIMIT %(n)s
"""
_NEWEST_OF = """
SELECT id, at, actor, action, detail FROM audit
 WHERE action = %(action)s AND id < %(before)s ORDER BY id DESC LIMIT %(n)s
"""


async def newest_audit(
    connection: Connection, *, n: int, before: int | None = None, action: str | None = None
) -> list[AuditRow]:
    """Return the newest `n` rows below the id `before`, newest first; of one action or of all."""
    values = {"n": n, "before": before or MAX_ID, "action": action}
    rows = await connection.execute(_NEWEST_OF if action else _NEWEST, values)
    return [AuditRow(*row) for row in await rows.fetchall()]

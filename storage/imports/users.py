"""Imports users. A name already stored stays, unless it is the placeholder of a first write."""

from dataclasses import asdict

from storage.connections import Connection
from storage.imports.fields import Field, read_id, read_name, read_time
from storage.imports.kinds import Chunk, Step, Terms

_TWICE = """
WITH first AS (
    SELECT DISTINCT ON (id) id, line, name FROM staged_users ORDER BY id, line),
gone AS (
    DELETE FROM staged_users s USING first
     WHERE first.id = s.id AND first.line < s.line
    RETURNING s.line, s.id, first.line AS first_line, s.name <> first.name AS differs)
INSERT INTO refused
SELECT line, 'conflict', format('user %%s has another name on line %%s', id, first_line)
  FROM gone WHERE differs
"""

_FUTURE = """
WITH gone AS (
    DELETE FROM staged_users
     WHERE created_ms + %(shift_ms)s > %(now_ms)s + %(future_clamp_ms)s RETURNING line)
INSERT INTO refused SELECT line, 'future_time', 'created_at is in the future' FROM gone
"""

_DELETED = """
WITH gone AS (
    DELETE FROM staged_users s USING users u
     WHERE u.id = s.id AND u.deleted_at IS NOT NULL RETURNING s.line, s.id)
INSERT INTO refused SELECT line, 'deleted_user', format('user %%s was deleted', id) FROM gone
"""

_CONFLICT = """
WITH gone AS (
    DELETE FROM staged_users s USING users u
     WHERE u.id = s.id AND u.name <> s.name AND u.name <> 'user ' || u.id
    RETURNING s.line, s.id)
INSERT INTO refused
SELECT line, 'conflict', format('user %%s is already there with another name', id) FROM gone
"""

_WRITE = """
INSERT INTO users AS u (id, name, created_at)
SELECT id, name, to_timestamp(coalesce(created_ms + %(shift_ms)s, %(now_ms)s) / 1000.0)
  FROM staged_users WHERE place BETWEEN %(first)s AND %(last)s
 ORDER BY id
    ON CONFLICT (id) DO UPDATE SET name = excluded.name
 WHERE u.name <> excluded.name AND u.name = 'user ' || u.id
"""


async def _write(connection: Connection, chunk: Chunk, terms: Terms) -> int:
    """Write one chunk; return how many users are new or got their name."""
    result = await connection.execute(_WRITE, {**asdict(terms), **asdict(chunk)})
    return result.rowcount


USERS = Step(
    kind="users",
    fields=(
        Field("id", read_id),
        Field("name", read_name),
        Field("created_at", read_time, required=False),
    ),
    create="""
    CREATE TEMP TABLE staged_users
        (place bigint GENERATED ALWAYS AS IDENTITY, line bigint, id bigint, name text,
         created_ms bigint)""",
    copy="COPY staged_users (line, id, name, created_ms) FROM STDIN",
    prepare="CREATE INDEX ON staged_users USING brin (place); ANALYZE staged_users",
    checks=(_TWICE, _FUTURE, _DELETED, _CONFLICT),
    write=_write,
)

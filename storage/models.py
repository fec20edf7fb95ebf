"""The registry of heavy rankers: their texts, who is champion or shadow, and who was before.

Texts are only carried here; `rankers.artifact` reads them, and trusts neither.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from feed.errors import Conflict, NotFound
from storage.connections import Connection

State = Literal["registered", "shadow", "champion", "retired"]


class ModelRow(NamedTuple):
    """What is known of a registered model, without its text."""

    version: str
    state: State
    created_at: datetime
    manifest: Mapping[str, Any]
    figures: Mapping[str, Any]


class Texts(NamedTuple):
    """The two texts of a model, as `foryou train fit` wrote them."""

    manifest: str
    model: str


class Serving(NamedTuple):
    """Which versions are in force; None: the light ranker alone, and no shadow."""

    champion: str | None
    shadow: str | None


_PUT = """
INSERT INTO models (version, manifest, artifact, figures) VALUES (%s, %s, %s, %s)
    ON CONFLICT (version) DO UPDATE
       SET manifest = excluded.manifest,
           figures = CASE excluded.figures WHEN '{}' THEN models.figures ELSE excluded.figures END
     WHERE models.artifact = excluded.artifact
RETURNING xmax = 0
"""


async def put_model(
    connection: Connection, version: str, texts: Texts, figures: Mapping[str, Any]
) -> bool:
    """Register a model, or judge the same one anew; True: it is new.

    Raises:
        Conflict: Another model has this version.
    """
    values = [version, texts.manifest, texts.model.encode(), json.dumps(figures)]
    row = await (await connection.execute(_PUT, values)).fetchone()
    if row is None:
        raise Conflict(f"Another model is registered as {version}.")
    return bool(row[0])


_ROWS = "SELECT version, state, created_at, manifest, figures FROM models"


async def model_rows(connection: Connection) -> list[ModelRow]:
    """Return every model, the newest first."""
    rows = await connection.execute(f"{_ROWS} ORDER BY created_at DESC, version")
    return [ModelRow(*row) for row in await rows.fetchall()]


async def model_row(connection: Connection, version: str) -> ModelRow:
    """Return one model.

    Raises:
        NotFound: There is none of this version.
    """
    rows = await connection.execute(f"{_ROWS} WHERE version = %s", [version])
    row = await rows.fetchone()
    if row is None:
        raise NotFound(f"No model is registered as {version}.")
    return ModelRow(*row)


async def model_texts(connection: Connection, version: str) -> Texts:
    """Return the texts of a model.

    Raises:
        NotFound: There is none of this version.
    """
    query = "SELECT manifest::text, artifact FROM models WHERE version = %s"
    row = await (await connection.execute(query, [version])).fetchone()
    if row is None:
        raise NotFound(f"No model is registered as {version}.")
    return Texts(row[0], bytes(row[1]).decode())


_SERVING = """
SELECT min(version) FILTER (WHERE state = 'champion'), min(version) FILTER (WHERE state = 'shadow')
  FROM models WHERE state IN ('champion', 'shadow')
"""


async def serving(connection: Connection) -> Serving:
    """Return which models are in force."""
    row = await (await connection.execute(_SERVING)).fetchone()
    assert row is not None  # aggregates always give a row
    return Serving(*row)


async def lock_models(connection: Connection) -> None:
    """Let nobody else change who is in force until the transaction ends; readers read on."""
    await connection.execute("LOCK TABLE model_reigns IN SHARE ROW EXCLUSIVE MODE")


async def crown(connection: Connection, version: str | None) -> None:
    """Let a model rank from now on; None: the light ranker alone."""
    await connection.execute("INSERT INTO model_reigns (version) VALUES (%s)", [version])
    await _enthrone(connection, version)


_STANDING = "SELECT id, version FROM model_reigns WHERE NOT undone ORDER BY id DESC LIMIT 2"


async def uncrown(connection: Connection) -> str | None:
    """Undo the last change of who ranks; return who does now, None: the light ranker alone.

    Raises:
        Conflict: There is no change to undo.
    """
    reigns = await (await connection.execute(_STANDING)).fetchall()
    if not reigns:
        raise Conflict("There is nothing to roll back: the light ranker alone was there first.")
    await connection.execute("UPDATE model_reigns SET undone = true WHERE id = %s", [reigns[0][0]])
    before: str | None = reigns[1][1] if len(reigns) > 1 else None
    await _enthrone(connection, before)
    return before


async def set_aside(connection: Connection, version: str, state: State) -> None:
    """Make a model that does not rank the shadow, in place of the one before, or retired."""
    if state == "shadow":
        await connection.execute("UPDATE models SET state = 'retired' WHERE state = 'shadow'")
    await connection.execute("UPDATE models SET state = %s WHERE version = %s", [state, version])


async def _enthrone(connection: Connection, version: str | None) -> None:
    await connection.execute("UPDATE models SET state = 'retired' WHERE state = 'champion'")
    await connection.execute("UPDATE models SET state = 'champion' WHERE version = %s", [version])

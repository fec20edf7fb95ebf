"""How admins decide which model ranks (docs/training.md); for the scope `admin`."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import Field, StrictBool

from api.deps import Asking, Wired, query_is
from api.parameters import Text, time_text
from api.schemas import Request
from storage.models import ModelRow, model_rows
from training.registry import By, Change, promote, retire, roll_back, shadow


async def _admins_only(caller: Asking) -> None:
    caller.needs("admin")


router = APIRouter(
    prefix="/admin/models",
    tags=["models"],
    dependencies=[Depends(_admins_only), query_is()],
)

PathVersion = Annotated[str, Path(pattern=r"^[0-9a-f]{1,64}$")]
Why = Annotated[Text, Field(max_length=500)]


class Reasoned(Request):
    """Why a change is made."""

    why: Why | None = None


class Promotion(Reasoned):
    """A promotion; `force` overrules the gate, and then says why."""

    force: StrictBool = False


@router.get("")
async def read(services: Wired) -> dict[str, Any]:
    """List the registered models, the newest first."""
    async with services.postgres.connection() as connection:
        rows = await model_rows(connection)
    return {"items": [model_document(row) for row in rows]}


@router.post("/rollback")
async def undo(caller: Asking, services: Wired, fields: Reasoned | None = None) -> dict[str, Any]:
    """Undo the last change of who ranks; 409: there is none."""
    async with services.postgres.transaction() as connection:
        change = await roll_back(connection, _by(caller, fields))
    return change_document(change)


@router.post("/{version}/promote")
async def crown(
    version: PathVersion, caller: Asking, services: Wired, fields: Promotion | None = None
) -> dict[str, Any]:
    """Let a model rank on every node within seconds; 409: the gate refuses it, and says why."""
    fields = fields or Promotion()
    async with services.postgres.transaction() as connection:
        change = await promote(
            connection,
            version,
            _by(caller, fields),
            force=fields.force,
            deadline_s=services.settings.heavy_deadline_ms / 1000,
        )
    return change_document(change)


@router.post("/{version}/shadow")
async def follow(
    version: PathVersion, caller: Asking, services: Wired, fields: Reasoned | None = None
) -> dict[str, Any]:
    """Let a model score beside the one that ranks, off the path of answers."""
    async with services.postgres.transaction() as connection:
        change = await shadow(connection, version, _by(caller, fields))
    return change_document(change)


@router.post("/{version}/retire")
async def leave(
    version: PathVersion, caller: Asking, services: Wired, fields: Reasoned | None = None
) -> dict[str, Any]:
    """Take a model out of service; without a champion the light ranker serves alone."""
    async with services.postgres.transaction() as connection:
        change = await retire(connection, version, _by(caller, fields))
    return change_document(change)


def model_document(row: ModelRow) -> dict[str, Any]:
    """Write a model as the api and `foryou models --json` give it."""
    manifest = row.manifest
    return {
        "version": row.version,
        "state": row.state,
        "kind": manifest["kind"],
        "created_at": manifest["created_at"],
        "registered_at": time_text(row.created_at),
        "features": manifest["features"],
        "schema_hash": manifest["schema_hash"],
        "window": manifest["window"],
        "counts": manifest["counts"],
        "params": manifest["params"],
        "lift": manifest["metrics"].get("lift"),
        "against": row.figures.get("against"),
        "code_version": manifest["code_version"],
    }


def change_document(change: Change) -> dict[str, Any]:
    """Write a change of the registry; null is the light ranker alone."""
    return {
        "action": change.action,
        "version": change.version,
        "before": change.before,
        "overruled": change.overruled,
        "audit_id": str(change.audit_id),
    }


def _by(caller: Any, fields: Reasoned | None) -> By:
    return By(str(caller.user_id), fields.why if fields else None)

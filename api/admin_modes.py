"""How admins decide who gets which mode (docs/modes.md), and the audit; for the scope `admin`."""

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Response

from api.deps import Asking, Services, Wired, query_is
from api.mode_schemas import (
    CohortName,
    CohortPut,
    ModesPut,
    OverridePut,
    Version,
    Why,
    change_document,
    counts_document,
    modes_document,
)
from api.parameters import PageLimit, PathId, ShortText, parse_id, time_text
from feed.errors import CursorInvalid, Invalid
from feed.mode import decide_mode, percent_bucket
from storage.audit import newest_audit
from storage.mode_changes import make_change
from storage.mode_counts import count_modes
from storage.mode_plans import ModeChange, difference_of, plan_change
from storage.modes import load_mode_inputs, load_modes, members_after, overrides_after
from storage.users import require_user

LISTED = 100  # members of a cohort, and overrides, shown in the one document
ETAG = re.compile(r'(?:W/)?"?([0-9]{1,18})"?')


async def _admins_only(caller: Asking) -> None:
    caller.needs("admin")


router = APIRouter(prefix="/admin", tags=["modes"], dependencies=[Depends(_admins_only)])

CHANGING = [query_is("dry_run")]
REMOVING = [query_is("dry_run", "why", "version")]
PAGED = [query_is("cursor", "limit")]
DryRun = Annotated[bool, Query(description="Say what would change, and change nothing")]
PathName = Annotated[CohortName, Path()]
Cursor = Annotated[str | None, Query(max_length=200)]


async def _matched(if_match: Annotated[str | None, Header()] = None) -> int | None:
    """Return the version that `If-Match` names."""
    if if_match is None or if_match.strip() == "*":
        return None
    match = ETAG.fullmatch(if_match.strip())
    if match is None:
        raise Invalid('If-Match holds the ETag of GET /admin/modes, a version like "7".')
    return int(match[1])


Matched = Annotated[int | None, Depends(_matched)]


async def _reason(
    matched: Matched,
    why: Annotated[Why | None, Query()] = None,
    version: Annotated[Version | None, Query()] = None,
) -> tuple[str | None, int | None]:
    """Return why something is removed and the version it was thought out for."""
    return why, version or matched


Reason = Annotated[tuple[str | None, int | None], Depends(_reason)]


@router.get("/modes", dependencies=[query_is()])
async def read(services: Wired, response: Response) -> dict[str, Any]:
    """Read all that decides modes; `members` and `overrides` are null when they are many."""
    async with services.postgres.connection() as connection:
        modes = await load_modes(connection, listed=LISTED)
    response.headers["ETag"] = f'"{modes.version}"'
    return modes_document(modes)


@router.put("/modes", dependencies=CHANGING)
async def write(
    fields: ModesPut, caller: Asking, services: Wired, matched: Matched, dry_run: DryRun = False
) -> dict[str, Any]:
    """Change what is named, all or nothing; with `dry_run`, say whose mode would change."""
    edit = _Edit(fields.change, fields.why, fields.version or matched)
    return await edit.done(services, caller.user_id, dry_run=dry_run)


@router.get("/modes/cohorts/{name}", dependencies=PAGED)
async def members(
    name: PathName, services: Wired, cursor: Cursor = None, limit: PageLimit = 20
) -> dict[str, Any]:
    """List the members of a cohort by id."""
    limit = min(limit, services.settings.page_limit_max)
    async with services.postgres.connection() as connection:
        found = await members_after(connection, name, _place(cursor) or 0, limit + 1)
    return _page([str(id) for id in found], [str(id) for id in found], limit)


@router.put("/modes/cohorts/{name}", dependencies=CHANGING)
async def put_cohort(
    name: PathName,
    fields: CohortPut,
    caller: Asking,
    services: Wired,
    matched: Matched,
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Make or change a cohort; its members leave the cohort they were in."""
    edit = _Edit(ModeChange(cohorts={name: fields.change}), fields.why, fields.version or matched)
    return await edit.done(services, caller.user_id, dry_run=dry_run)


@router.delete("/modes/cohorts/{name}", dependencies=REMOVING)
async def delete_cohort(
    name: PathName, caller: Asking, services: Wired, reason: Reason, dry_run: DryRun = False
) -> dict[str, Any]:
    """Remove a cohort; its members are decided like everybody. Once gone, this changes nothing."""
    edit = _Edit(ModeChange(cohorts={name: None}), *reason)
    return await edit.done(services, caller.user_id, dry_run=dry_run)


@router.get("/modes/overrides", dependencies=PAGED)
async def overrides(
    services: Wired, cursor: Cursor = None, limit: PageLimit = 20
) -> dict[str, Any]:
    """List the overrides by user id."""
    limit = min(limit, services.settings.page_limit_max)
    async with services.postgres.connection() as connection:
        found = await overrides_after(connection, _place(cursor) or 0, limit + 1)
    items = [{"user_id": str(id), "mode": mode} for id, mode in found.items()]
    return _page(items, [str(id) for id in found], limit)


@router.put("/modes/overrides/{user_id}", dependencies=CHANGING)
async def put_override(
    user_id: PathId,
    fields: OverridePut,
    caller: Asking,
    services: Wired,
    matched: Matched,
    dry_run: DryRun = False,
) -> dict[str, Any]:
    """Choose a mode for one user, who may still choose another; 404: there is no such user."""
    async with services.postgres.connection() as connection:
        await require_user(connection, user_id)
    change = ModeChange(overrides={user_id: fields.mode})
    edit = _Edit(change, fields.why, fields.version or matched)
    return await edit.done(services, caller.user_id, dry_run=dry_run)


@router.delete("/modes/overrides/{user_id}", dependencies=REMOVING)
async def delete_override(
    user_id: PathId, caller: Asking, services: Wired, reason: Reason, dry_run: DryRun = False
) -> dict[str, Any]:
    """Take back the mode that was chosen for a user."""
    edit = _Edit(ModeChange(overrides={user_id: None}), *reason)
    return await edit.done(services, caller.user_id, dry_run=dry_run)


@router.get("/modes/users/{user_id}", dependencies=[query_is()])
async def decided(user_id: PathId, services: Wired) -> dict[str, Any]:
    """Say which mode a user gets who asks for none, and all that decides it."""
    async with services.postgres.connection() as connection:
        rules, choices = await load_mode_inputs(connection, user_id)
    mode, reason = decide_mode(rules, choices, user_id=user_id, requested=None)
    return {
        "user_id": str(user_id),
        "mode": mode,
        "mode_reason": reason,
        **asdict(choices),
        "rollout_bucket": percent_bucket("rollout", user_id),
        "holdout_bucket": percent_bucket("holdout", user_id),
    }


@router.get("/audit", dependencies=[query_is("cursor", "limit", "action")])
async def audit(
    services: Wired,
    cursor: Cursor = None,
    limit: PageLimit = 20,
    action: Annotated[ShortText | None, Query()] = None,
) -> dict[str, Any]:
    """List what admins changed, newest first."""
    limit, before = min(limit, services.settings.page_limit_max), _place(cursor)
    async with services.postgres.connection() as connection:
        found = await newest_audit(connection, n=limit + 1, before=before, action=action)
    items = [{**row._asdict(), "id": str(row.id), "at": time_text(row.at)} for row in found]
    return _page(items, [str(row.id) for row in found], limit)


@dataclass(frozen=True)
class _Edit:
    """One change by one admin, tried or made."""

    change: ModeChange
    why: str | None
    version: int | None

    async def done(self, services: Services, actor_id: int, *, dry_run: bool) -> dict[str, Any]:
        async with services.postgres.transaction() as connection:
            plan = await plan_change(
                connection, self.change, version=self.version, lock=not dry_run
            )
            difference = await difference_of(connection, plan)
            document = {"dry_run": dry_run, **change_document(plan, difference)}
            if dry_run:
                counts = counts_document(await count_modes(connection, plan))
                return {**document, "version": plan.version, **counts}
            if not difference:
                return {**document, "version": plan.version, "audit_id": None}
            audit_id = await make_change(
                connection, plan, difference, actor=str(actor_id), why=self.why
            )
        return {**document, "version": plan.version + 1, "audit_id": str(audit_id)}


def _place(cursor: str | None) -> int | None:
    """Read the id after which a list goes on."""
    try:
        return None if cursor is None else parse_id(cursor)
    except ValueError:
        raise CursorInvalid("This cursor was not given out for this list.") from None


def _page(items: list[Any], ids: list[str], limit: int) -> dict[str, Any]:
    """Give a page of what was read with one row to spare."""
    more = len(items) > limit
    return {"items": items[:limit], "next_cursor": ids[limit - 1] if more else None}

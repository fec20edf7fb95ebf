"""Writes, reads, edits, deletes and restores posts."""

import re
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import APIRouter, Header, Response

from api.deps import Asking, Now, Services, Wired, query_is
from api.parameters import PathId, epoch_ms, time_text
from api.schemas import PostEdit, PostFields, post_document
from feed.errors import Invalid, NotAllowed, NotFound
from storage import idempotency, posts, receipts
from storage.authored import Post, authored_post
from storage.connections import Connection
from storage.page import visible_posts
from storage.targets import targets_of
from storage.users import ensure_user

router = APIRouter(tags=["posts"], dependencies=[query_is()])

KEY = re.compile(r"[\x21-\x7e]{1,255}")
IdempotencyKey = Annotated[str | None, Header()]


@router.post("/posts", status_code=201)
async def write(
    fields: PostFields,
    caller: Asking,
    services: Wired,
    now: Now,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Write a post; with an Idempotency-Key, the same request gives the same post for a day."""
    if idempotency_key is not None and not KEY.fullmatch(idempotency_key):
        raise Invalid("An Idempotency-Key has 1 to 255 printable ASCII characters.")
    post_id = services.ids.next(epoch_ms(now))
    async with services.postgres.transaction() as connection:
        await ensure_user(connection, caller.user_id)
        if idempotency_key is not None:
            claimed = await idempotency.claim(
                connection,
                caller.user_id,
                idempotency_key,
                request_hash=_hash(fields),
                post_id=post_id,
            )
            if claimed != post_id:
                return await _own(connection, caller.user_id, claimed)
        await _insert(connection, services, fields, caller.user_id, post_id=post_id, now=now)
        return await _own(connection, caller.user_id, post_id)


@router.get("/posts/{post_id}")
async def read(post_id: PathId, caller: Asking, services: Wired) -> dict[str, Any]:
    """Read a post that the caller may see."""
    async with services.postgres.connection() as connection:
        return await _visible(connection, caller.user_id, post_id)


@router.get("/posts/{post_id}/delivery")
async def delivery(post_id: PathId, caller: Asking, services: Wired) -> dict[str, Any]:
    """Say how far one's own post got; with the scope `admin`, anyone's."""
    async with services.postgres.connection() as connection:
        found = await receipts.delivered(connection, post_id)
    if found is None or (found.author_id != caller.user_id and "admin" not in caller.scopes):
        raise NotFound("There is no such post.")
    return {
        "delivery": found.delivery,
        "feeds": found.n_feeds,
        "inactive": found.n_inactive,
        "pending": found.pending,
        "parked": found.parked,
        "last_at": time_text(found.last_at) if found.last_at else None,
    }


@router.patch("/posts/{post_id}")
async def edit(
    post_id: PathId, fields: PostEdit, caller: Asking, services: Wired, now: Now
) -> dict[str, Any]:
    """Replace the body of one's own post."""
    async with services.postgres.transaction() as connection:
        try:
            own = await authored_post(connection, caller.user_id, post_id)
            if own and not _says_something(fields.body, own):
                raise Invalid("A post without a body needs media or repost_of.")
            if own and own.repost_of and own.body and not (fields.body or own.media):
                raise Invalid("A quote without words would be a repost: delete it, and repost.")
            await posts.edit_post(connection, caller.user_id, post_id, body=fields.body, now=now)
        except NotAllowed:
            await _visible(connection, caller.user_id, post_id)
            raise
        return await _own(connection, caller.user_id, post_id)


@router.delete("/posts/{post_id}", status_code=204)
async def delete(post_id: PathId, caller: Asking, services: Wired) -> Response:
    """Delete one's own post; it leaves every feed at once."""
    async with services.postgres.transaction() as connection:
        try:
            await posts.delete_post(connection, caller.user_id, post_id)
        except NotAllowed:
            await _visible(connection, caller.user_id, post_id)
            raise
    return Response(status_code=204)


@router.post("/posts/{post_id}/restore")
async def restore(post_id: PathId, caller: Asking, services: Wired) -> dict[str, Any]:
    """Undo the delete of one's own post."""
    async with services.postgres.transaction() as connection:
        await ensure_user(connection, caller.user_id)
        try:
            own = await authored_post(connection, caller.user_id, post_id)
            if own and not _says_something(own.body, own):
                raise NotFound("This post was emptied with its account.")
            await posts.restore_post(connection, caller.user_id, post_id)
        except NotAllowed:
            await _visible(connection, caller.user_id, post_id)
            raise
        return await _own(connection, caller.user_id, post_id)


async def _insert(
    connection: Connection,
    services: Services,
    fields: PostFields,
    author_id: int,
    *,
    post_id: int,
    now: datetime,
) -> None:
    await _check_targets(connection, author_id, fields)
    delivery = await posts.delivery_of(connection, author_id)
    new = posts.NewPost(
        id=post_id,
        author_id=author_id,
        body=fields.body,
        media=fields.media_rows,
        format=fields.kind_of_format,
        lang=fields.lang,
        repost_of=fields.repost_of,
        reply_to=fields.reply_to,
        created_at=now,
        received_at=now,
        effective_ms=epoch_ms(now),
        delivery=delivery,
    )
    if not await posts.insert_post(connection, new):
        raise RuntimeError(f"the new id {post_id} is taken")  # the product brought it; try again


async def _check_targets(connection: Connection, author_id: int, fields: PostFields) -> None:
    """Refuse to point at a post that does not exist, or beyond a block; which, is not told."""
    named = {"repost_of": fields.repost_of, "reply_to": fields.reply_to}
    pairs = {name: (author_id, post_id) for name, post_id in named.items() if post_id}
    if pairs:
        targets = await targets_of(connection, list(pairs.values()))
        for name, pair in pairs.items():
            if pair not in targets or targets[pair].blocked:
                raise Invalid(f"{name}: there is no such post.")


async def _visible(connection: Connection, viewer_id: int, post_id: int) -> dict[str, Any]:
    ids, anyone = np.array([post_id], dtype=np.int64), np.array([False])
    rows = await visible_posts(connection, viewer_id, ids, anyone)
    if not rows:
        raise NotFound("There is no such post.")
    return post_document(rows[0])


async def _own(connection: Connection, author_id: int, post_id: int) -> dict[str, Any]:
    post = await authored_post(connection, author_id, post_id)
    if post is None:
        raise NotFound("There is no such post.")
    return post_document(post)


def _says_something(body: str, post: Post) -> bool:
    return bool(body or post.media or post.repost_of)


def _hash(fields: PostFields) -> bytes:
    document = fields.model_dump(mode="json")
    return sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).digest()

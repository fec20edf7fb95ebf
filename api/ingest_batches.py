"""Applies one batch of ingested lines of one kind, set-wise, in the transaction of its caller.

Each function returns one verdict a line, in order.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from api.deps import Services
from api.events import event_of
from api.parameters import epoch_ms
from api.schemas import DeleteLine, EdgeLine, EventLine, PostLine, UserLine
from storage import graph, posts
from storage.authored import Identity, identities_of
from storage.connections import Connection
from storage.engagements import record
from storage.targets import Target, blocked_pairs, targets_of
from storage.users import known_users, put_users


class Refused(NamedTuple):
    """Why a line was not taken."""

    code: str
    detail: str


Verdict = Literal["accepted", "unchanged"] | Refused

UNKNOWN_USER = Refused("unknown_user", "There is no such user; ingest users first.")
UNKNOWN_POST = Refused("unknown_post", "There is no such post.")
BLOCKED = Refused("forbidden", "A block stands between these users.")
TAKEN = Refused("conflict", "Another post has this id.")


async def users(
    connection: Connection, services: Services, lines: Sequence[UserLine], now: datetime
) -> list[Verdict]:
    """Create or rename users; of several lines for one user the last name stays."""
    put = await put_users(connection, {line.id: line.name for line in lines})
    last = {line.id: n for n, line in enumerate(lines)}
    return [
        "accepted" if put[line.id].changed and n == last[line.id] else "unchanged"
        for n, line in enumerate(lines)
    ]


async def edges(
    connection: Connection, services: Services, lines: Sequence[EdgeLine], now: datetime
) -> list[Verdict]:
    """Follow; a repeated line changes nothing."""
    wanted = [(line.follower_id, line.followee_id) for line in lines]
    known = await known_users(connection, sorted({id for edge in wanted for id in edge}))
    blocked = await blocked_pairs(connection, wanted)
    refused: dict[graph.Edge, Refused] = {e: BLOCKED for e in wanted if e in blocked}
    refused |= {e: UNKNOWN_USER for e in wanted if not known.issuperset(e)}
    new = await graph.follow_many(
        connection, [e for e in dict.fromkeys(wanted) if e not in refused]
    )
    return _once(wanted, new, refused)


async def undone_edges(
    connection: Connection, services: Services, lines: Sequence[EdgeLine], now: datetime
) -> list[Verdict]:
    """Follow no longer; what was not followed changes nothing."""
    wanted = [(line.follower_id, line.followee_id) for line in lines]
    return _once(wanted, await graph.unfollow_many(connection, list(dict.fromkeys(wanted))), {})


async def deletes(
    connection: Connection, services: Services, lines: Sequence[DeleteLine], now: datetime
) -> list[Verdict]:
    """Delete posts of anyone; what was deleted already changes nothing."""
    wanted = [line.post_id for line in lines]
    known = await identities_of(connection, wanted)
    gone = await posts.delete_posts(connection, list(dict.fromkeys(wanted)))
    return _once(wanted, gone, {id: UNKNOWN_POST for id in wanted if id not in known})


async def events(
    connection: Connection, services: Services, lines: Sequence[EventLine], now: datetime
) -> list[Verdict]:
    """Record events of many viewers."""
    known = await known_users(connection, sorted({line.viewer_id for line in lines}))
    kept = [line for line in lines if line.viewer_id in known]
    outcomes = iter(
        await record(connection, [event_of(line.viewer_id, line) for line in kept], now)
    )
    verdict_of: dict[str, Verdict] = {
        "accepted": "accepted",
        "duplicate": "unchanged",
        "unknown_post": UNKNOWN_POST,
    }
    return [
        verdict_of[next(outcomes)] if line.viewer_id in known else UNKNOWN_USER for line in lines
    ]


async def new_posts(
    connection: Connection, services: Services, lines: Sequence[PostLine], now: datetime
) -> list[Verdict]:
    """Write posts; an id that is there with the same author and body changes nothing."""
    made = [line.id or services.ids.next(epoch_ms(now)) for line in lines]
    known = await known_users(connection, sorted({line.author_id for line in lines}))
    pairs = [(line.author_id, to) for line in lines for to in (line.repost_of, line.reply_to) if to]
    targets = await targets_of(connection, pairs)
    before = await identities_of(connection, made)
    clamp = timedelta(seconds=services.settings.future_clamp_s)
    batch = _Posts(known, targets, before, latest=now + clamp)
    verdicts = [batch.judge(id, line) for id, line in zip(made, lines, strict=True)]
    authors = sorted({line.author_id for line in batch.kept.values()})
    how = await posts.deliveries_of(connection, authors)
    rows = [
        _row(id, line, how[line.author_id], batch.root_of(line.repost_of), now)
        for id, line in batch.kept.items()
    ]
    written = await posts.insert_posts(connection, rows)
    # An id that was taken between our look and our write: say so, it is rare.
    lost = batch.kept.keys() - written
    return [
        TAKEN if id in lost and verdict == "accepted" else verdict
        for id, verdict in zip(made, verdicts, strict=True)
    ]


class _Posts:
    """Judges the posts of one batch in order, so that a line may point at one before it."""

    def __init__(
        self,
        known: set[int],
        targets: dict[tuple[int, int], Target],
        before: dict[int, Identity],
        *,
        latest: datetime,
    ) -> None:
        self.kept: dict[int, PostLine] = {}
        self._known = known
        self._targets = targets
        self._before = before
        self._latest = latest

    def judge(self, post_id: int, line: PostLine) -> Verdict:
        """Keep the line to be written under this id, or say why not."""
        there = self._before.get(post_id) or self._kept_identity(post_id)
        if there:
            return "unchanged" if there == Identity(line.author_id, line.body) else TAKEN
        if line.author_id not in self._known:
            return UNKNOWN_USER
        if line.created_at and line.created_at > self._latest:
            return Refused("in_future", "created_at is too far in the future.")
        for name, to in (("repost_of", line.repost_of), ("reply_to", line.reply_to)):
            if to and not self._reachable(line.author_id, to):
                return Refused("unknown_post", f"{name}: there is no such post.")
        self.kept[post_id] = line
        return "accepted"

    def root_of(self, repost_of: int | None) -> int | None:
        """Follow plain reposts of this batch to what they show; the store follows those before."""
        while repost_of in self.kept and self.kept[repost_of].is_plain_repost:
            repost_of = self.kept[repost_of].repost_of
        return repost_of

    def _kept_identity(self, post_id: int) -> Identity | None:
        line = self.kept.get(post_id)
        return Identity(line.author_id, line.body) if line else None

    def _reachable(self, author_id: int, to: int) -> bool:
        target = self._targets.get((author_id, to))
        return to in self.kept or (target is not None and not target.blocked)


def _row(
    post_id: int, line: PostLine, delivery: Any, repost_of: int | None, now: datetime
) -> posts.NewPost:
    created_at = line.created_at or now
    return posts.NewPost(
        id=post_id,
        author_id=line.author_id,
        body=line.body,
        media=line.media_rows,
        format=line.kind_of_format,
        lang=line.lang,
        repost_of=repost_of,
        reply_to=line.reply_to,
        created_at=created_at,
        received_at=now,
        effective_ms=epoch_ms(min(created_at, now)),
        delivery=delivery,
    )


def _once(
    wanted: Iterable[Any], changed: Iterable[Any], refused: dict[Any, Refused]
) -> list[Verdict]:
    """Give each key its verdict; the first line of a changed key is the one that changed it."""
    left = set(changed)
    verdicts: list[Verdict] = []
    for key in wanted:
        if key in refused:
            verdicts.append(refused[key])
        elif key in left:
            left.remove(key)
            verdicts.append("accepted")
        else:
            verdicts.append("unchanged")
    return verdicts


Batch = Callable[[Connection, Services, Any, datetime], Awaitable[list[Verdict]]]
BATCHES: dict[str, Batch] = {
    "user": users,
    "post": new_posts,
    "follow": edges,
    "unfollow": undone_edges,
    "delete": deletes,
    "event": events,
}

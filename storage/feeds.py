"""Cached lists of post ids in Redis: pushed feeds and author outboxes, one shape for both.

A list is a sorted set of decimal ids scored by effective milliseconds, with one sentinel member
that is always the lowest and whose score is the floor. The list is complete strictly above its
floor. Without a sentinel there is no list: missing is not empty. While a list is rebuilt its
sentinel carries the builder's token, and fan-out already pushes into it.

This is the only module that touches these sorted sets; the scripts are in `storage/lua`.
The protocol is checked step by step in `tests/properties`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np
from redis.commands.core import AsyncScript
from redis.exceptions import ResponseError

from feed.errors import Unavailable
from feed.order import Ids, newest_first
from storage.connections import Guard, RedisClient, translated_errors
from storage.keys import ALIVE, FEED_PATTERN, OUTBOX_PATTERN, chain, of_user, snapshots_of

SLACK = 16  # a list may outgrow its cap by a sixteenth of it
PUSHED_AT_ONCE = 200  # lists: the server answers nobody else meanwhile, for some milliseconds
ALIVE_S = 1  # no longer than it takes to ask
READY = b"floor"
BUILDING = b"building:"


def most_entries(cap: int) -> int:
    """Return how many entries a list may hold before it is trimmed to `cap`.

    >>> most_entries(500)
    532
    """
    return cap + -(-cap // SLACK)


@dataclass(frozen=True)
class CachedList:
    """A list as read: ids and effective times (n,), newest first, complete above `floor_ms`.

    `floor_ms` is None for a list that was never trimmed.
    """

    ids: Ids
    ms: Ids
    floor_ms: int | None


class Feeds:
    """Reads and changes cached lists by key (`storage.keys.feed`, `storage.keys.outbox`)."""

    def __init__(self, redis: RedisClient, *, cap: int, guard: Guard = translated_errors) -> None:
        """Use `redis`; lists are trimmed to `cap` entries once they are longer than `most`."""
        self.cap = cap
        self.most = most_entries(cap)
        self._redis = redis
        self._guard = guard
        self._push = _script(redis, "push")
        self._begin = _script(redis, "begin")
        self._merge = _script(redis, "merge")
        self._remove = _script(redis, "remove")
        self._touch = _script(redis, "touch")

    async def read(self, keys: Sequence[str]) -> list[CachedList | None]:
        """Read whole lists in one round trip; None: missing, still being built, or no list."""
        if not keys:
            return []
        with self._guard():
            async with self._redis.pipeline(transaction=False) as pipe:
                for key in keys:
                    # As text, flat: the driver's own pairs would be taken apart again (`_parse`).
                    pipe.execute_command("ZRANGE", key, 0, -1, "WITHSCORES")
                answers = await pipe.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, Exception) and not _is_no_list(answer):
                    raise answer
        return [None if isinstance(raw, Exception) else _parse(raw, self.cap) for raw in answers]

    async def touch(self, ttls_s: Mapping[str, int]) -> None:
        """Extend the life of lists after a visit, each by its own, unless they are being built."""
        if ttls_s:
            with self._guard():
                await self._touch(keys=list(ttls_s), args=[READY, *ttls_s.values()])

    async def push(self, keys: Sequence[str], post_id: int, ms: int) -> int:
        """Push one post into every list that exists; return how many took it."""
        taken = 0
        for first in range(0, len(keys), PUSHED_AT_ONCE):
            some = keys[first : first + PUSHED_AT_ONCE]
            with self._guard():
                taken += int(await self._push(keys=some, args=[post_id, ms, self.cap, self.most]))
        return taken

    async def begin(self, key: str, token: str, *, ttl_s: int) -> bool:
        """Mark a missing list as being built under `token`; False when it is there already."""
        with self._guard():
            sentinel = BUILDING + token.encode()
            return bool(await self._begin(keys=[key], args=[sentinel, ttl_s]))

    async def finish(
        self, key: str, token: str, ids: Ids, ms: Ids, floor_ms: int | None, *, ttl_s: int
    ) -> bool:
        """Merge what was read from the truth and mark the list ready.

        Returns:
            False when the list is no longer the one begun under `token`; nothing changed then.
        """
        sentinel = BUILDING + token.encode()
        return await self._merged(key, sentinel, READY, ttl_s, ids, ms, floor_ms)

    async def merge(self, key: str, ids: Ids, ms: Ids, floor_ms: int | None) -> bool:
        """Merge one author's posts (n,), complete above `floor_ms`, into a list if it exists."""
        return await self._merged(key, b"", b"", 0, ids, ms, floor_ms)

    async def remove(self, key: str, ids: Ids) -> int:
        """Remove these ids from a list; return how many were there."""
        if not len(ids):
            return 0
        with self._guard():
            return int(await self._remove(keys=[key], args=ids.tolist()))

    async def remove_each(self, removed: Mapping[str, Sequence[int]]) -> int:
        """Remove from each list its ids, in one round trip; return how many were there."""
        if not removed:
            return 0
        with self._guard():
            async with self._redis.pipeline(transaction=False) as pipe:
                for key, ids in removed.items():
                    pipe.zrem(key, *ids)
                return sum(await pipe.execute())

    async def entries(self, key: str) -> Ids:
        """Return the ids in a list, also while it is being built; none when it is missing."""
        with self._guard():
            members = await self._redis.zrange(key, 0, -1)
        return np.array([int(m) for m in members if m.isdigit()], dtype=np.int64)

    async def present(self, keys: Sequence[str]) -> list[bool]:
        """Say which lists exist, being built included, in one round trip."""
        if not keys:
            return []
        with self._guard():
            async with self._redis.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.exists(key)
                return [bool(found) for found in await pipe.execute()]

    async def drop(self, key: str) -> bool:
        """Drop one list; False: it was missing already."""
        with self._guard():
            return bool(await self._redis.unlink(key))

    async def forget_user(self, user_id: int, shown: Sequence[tuple[str, str]]) -> int:
        """Drop everything that is cached of a user: lists, snapshots, what was seen and shown.

        `shown` holds the id and the nonce of each snapshot of which the user was served something.
        """
        with self._guard():
            opened = await self._redis.zrange(snapshots_of(user_id), 0, -1)
            snapshots = {id.decode() for id in opened} | {id for id, _ in shown}
            chains = [chain(user_id, id, nonce) for id, nonce in shown]
            return int(await self._redis.unlink(*of_user(user_id, snapshots), *chains))

    async def takes_writes(self) -> bool:
        """Say whether the server can be reached now, and is neither full nor read only."""
        try:
            with self._guard():
                return bool(await self._redis.set(ALIVE, b"", ex=ALIVE_S))
        except Unavailable:
            return False

    async def forget_lists(self) -> None:
        """Drop every pushed feed and every author outbox, as `forget` does."""
        await self.forget(FEED_PATTERN)
        await self.forget(OUTBOX_PATTERN)

    async def forget(self, pattern: str) -> int:
        """Drop every list whose key matches; they come back when they are read. Return how many."""
        dropped = 0
        with self._guard():
            async for key in self._redis.scan_iter(match=pattern, count=1000):
                dropped += int(await self._redis.unlink(key))
        return dropped

    async def _merged(
        self,
        key: str,
        expected: bytes,
        after: bytes,
        ttl_s: int,
        ids: Ids,
        ms: Ids,
        floor_ms: int | None,
    ) -> bool:
        floor = "-inf" if floor_ms is None else floor_ms
        entries = np.column_stack((ms, ids)).ravel().tolist()
        args = [expected, after, ttl_s, self.cap, floor, *entries]
        with self._guard():
            return bool(await self._merge(keys=[key], args=args))


def _script(redis: RedisClient, name: str) -> AsyncScript:
    text = resources.files("storage.lua").joinpath(f"{name}.lua").read_text(encoding="utf-8")
    return redis.register_script(text)


def _is_no_list(error: Exception) -> bool:
    """Say whether a key holds something else: then the list is missing, and is built anew."""
    return isinstance(error, ResponseError) and str(error).startswith("WRONGTYPE")


def _parse(raw: list[bytes], cap: int) -> CachedList | None:
    """Read member, score, member, score, ... of a sorted set, its sentinel first; at most `cap`."""
    if not raw or raw[0] != READY:
        return None
    floor = None if raw[1] == b"-inf" else int(raw[1])
    # One pass in C over the text of all of them: a third of the time of an int() each.
    numbers = np.fromstring(b" ".join(raw[2:]), dtype=np.int64, sep=" ")
    ids, ms = numbers[::2], numbers[1::2]
    rows = newest_first(ms, ids)
    ids, ms = ids[rows], ms[rows]
    if len(ids) > cap:  # a push has not trimmed it yet: read it as if it had, ties and all
        floor = int(ms[cap])
        kept = ms > floor
        ids, ms = ids[kept], ms[kept]
    return CachedList(ids, ms, floor)

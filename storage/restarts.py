"""Notices that the cache server restarted or failed over, which loses part of the lists silently.

A list from an old dump or a lagging replica looks complete and is not. So there is a note beside
the lists, in the same dump and the same replica: under which run of the server they were written,
and up to when what happened is in them. `fanout.recovery` reads it and delivers the rest again.
"""

from datetime import datetime
from typing import Any, NamedTuple

from redis.commands.core import AsyncScript

from storage import keys
from storage.connections import RedisClient, translated_errors

# Writes the note, if the server is still in the run that the caller knows: it may have restarted
# since the caller looked, and what was delivered before then is not in it.
# KEYS: the note. ARGV: run id, note, whether the run must be the noted one. Returns 1 when written.
_WRITE = """
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local noted = redis.call('GET', KEYS[1]) or ''
if run_id ~= ARGV[1] or (ARGV[3] == '1' and string.sub(noted, 1, #run_id) ~= run_id) then
    return 0
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""


class Run(NamedTuple):
    """The run of the server now, the one under which lists were written, and what is in them.

    `noted` is None when there is no note: the lists, if any, are of an unknown run. Every event
    created before `delivered_until` is in the lists; None: nobody knows.
    """

    id: str
    noted: str | None
    delivered_until: datetime | None


class Restarts:
    """Reads and writes the note beside the lists."""

    def __init__(self, redis: RedisClient) -> None:
        """Watch `redis`, where the lists are."""
        self._redis = redis
        self._write: AsyncScript = redis.register_script(_WRITE)

    async def look(self) -> Run:
        """Ask the server for its run, and read the note."""
        with translated_errors():
            info: Any = await self._redis.info("server")
            note: bytes | None = await self._redis.get(keys.RUN_ID)
        noted, _, until = (note or b"").decode().partition(" ")
        return Run(str(info["run_id"]), noted or None, _time(until))

    async def note(self, run_id: str, delivered_until: datetime | None) -> bool:
        """Note that the lists are of this run from now on; False: it is over already."""
        return await self._written(run_id, delivered_until, must_be_noted=False)

    async def mark(self, run_id: str, delivered_until: datetime) -> bool:
        """Note what is in the lists of this run; False: it is not the noted run any more."""
        return await self._written(run_id, delivered_until, must_be_noted=True)

    async def _written(self, run_id: str, until: datetime | None, *, must_be_noted: bool) -> bool:
        note = f"{run_id} {until.isoformat()}" if until else run_id
        with translated_errors():
            args: list[str | int] = [run_id, note, int(must_be_noted)]
            return bool(await self._write(keys=[keys.RUN_ID], args=args))


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None

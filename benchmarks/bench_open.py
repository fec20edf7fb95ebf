"""How many ranked feeds a second does one api process open, with 500 candidates each?

Ceiling: a bare Starlette handler that makes the same round trips to the same servers, returns the
same bytes and ranks nothing. Both are asked over HTTP on loopback, in turns, by a few connections.
"""

from benchmarks.feed_requests import FEED, measure
from benchmarks.load import Target
from benchmarks.options import Options
from benchmarks.result import Result


async def run(options: Options) -> Result:
    """Open the feeds of all readers, again and again."""
    return await measure("open", options, _opens)


async def _opens(port: int, readers: range) -> list[Target]:
    return [Target(f"{FEED}?mode=ranked", reader) for reader in readers]

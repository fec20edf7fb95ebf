"""How many pages of chronological feeds does one api process give a second?

Every reader's first and second page. Ceiling: a bare Starlette handler that makes the same round
trips to the same servers and returns the same bytes. Both are asked over HTTP on loopback, in
turns, by a few connections.
"""

from benchmarks.feed_requests import FEED, measure, next_pages
from benchmarks.load import Target
from benchmarks.options import Options
from benchmarks.result import Result


async def run(options: Options) -> Result:
    """Ask for the first two pages of all readers, again and again."""
    return await measure("chronological", options, _pages)


async def _pages(port: int, readers: range) -> list[Target]:
    opens = [Target(f"{FEED}?mode=chronological", reader) for reader in readers]
    return [*opens, *await next_pages(port, opens, pages=1)]

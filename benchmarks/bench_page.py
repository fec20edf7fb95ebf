"""How many next pages of open ranked feeds does one api process give a second?

Ceiling: a bare Starlette handler that makes the same round trips to the same servers and returns
the same bytes. Both are asked over HTTP on loopback, in turns, by a few connections.
"""

from benchmarks.feed_requests import FEED, measure, next_pages
from benchmarks.load import Target
from benchmarks.options import Options
from benchmarks.result import Result

PAGES = 3


async def run(options: Options) -> Result:
    """Ask for pages two to four of all readers, again and again."""
    return await measure("page", options, _pages)


async def _pages(port: int, readers: range) -> list[Target]:
    opens = [Target(f"{FEED}?mode=ranked", reader) for reader in readers]
    return await next_pages(port, opens, pages=PAGES)

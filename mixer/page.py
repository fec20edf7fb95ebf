"""A page of a feed, as the recipe gives it to the api."""

from dataclasses import dataclass
from typing import Literal

from feed.query import Mode
from feed.telemetry import Trace
from snapshots.cursor import Cursor
from snapshots.snapshot import Snapshot
from storage.page import PostRow

EmptyBecause = Literal["no_follows", "no_posts", "all_filtered"]


@dataclass(frozen=True)
class Item:
    """One post on a page: where it came from, its position, who reposted it (newest first)."""

    post: PostRow
    source: str
    position: int
    reposted_by: tuple[PostRow, ...] = ()


@dataclass(frozen=True)
class Page:
    """What one request is answered with; `next` is None exactly when nothing more exists.

    `cursor` is the place this page begins at. `empty_because` is set on the first page of a feed
    that has nothing to show at all.
    """

    items: list[Item]
    next: Cursor | None
    mode: Mode
    cursor: Cursor
    trace: Trace
    snapshot: Snapshot | None = None
    renewed: bool = False
    empty_because: EmptyBecause | None = None

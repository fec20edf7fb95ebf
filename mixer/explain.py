"""Why a post stands where it does in a slate, or is not in it; from the slate's trace.

A viewer is told nothing of a post that the page query refuses now, or that a filter which rests on
blocks had dropped: both read like a post that does not exist. Who asks in full is told all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from feed.candidates import SOURCES, Candidates
from feed.errors import NotFound
from feed.order import Key
from mixer.replay import Recipe, Replay, is_same, replayed
from mixer.rules.weighing import factor_column
from mixer.safety import VisiblePosts
from rankers.heavy import NAME as HEAVY
from rankers.light import MS_PER_HOUR
from snapshots.snapshot import Head, Snapshot
from snapshots.traces import SlateTrace
from storage.page import PostRow
from storage.standing import Standing

Status = Literal["in_slate", "not_in_slate", "not_available"]

NOT_AVAILABLE = "Nothing can be said about this post."

FEATURES = {
    "likes": ("likes", "likes"),
    "comments": ("comments", "comments"),
    "reposts": ("reposts", "reposts"),
    "affinity": ("affinity", "of 1"),
    "author_age_d": ("author_age", "days"),
    "seen": ("seen", "times, fading"),
    "author_seen": ("author_seen", "times, fading"),
}
"""From the column to what it is called, and in what it is counted."""

DROPPED = {
    "deleted": "it did not exist then",
    "hidden_authors": "its author was blocked or muted, or had blocked the viewer",
    "unfollowed": "its author was not followed",
    "doubles": "somebody in the network had posted or reposted the same",
    "not_served": "an earlier page of this scroll had shown it",
}
"""From the filter to why it drops a post."""

REVEALING = ("hidden_authors",)
"""Filters that rest on blocks."""


class Feature(NamedTuple):
    """One thing that was known of a post, as a number."""

    name: str
    value: float
    unit: str


class Move(NamedTuple):
    """A rule that left a row at another place than it found it; places from 0."""

    rule: str
    before: int
    after: int


class Multiplier(NamedTuple):
    """A rule that weighed a row."""

    rule: str
    factor: float


@dataclass(frozen=True)
class Explanation:
    """What is told of one post and one slate of `size` rows; `because` is a sentence.

    What is not known, or not to be told, is None or empty.
    """

    post_id: int
    head: Head
    size: int
    status: Status
    because: str
    source: str | None = None
    position: int | None = None
    features: Sequence[Feature] = ()
    light: float | None = None
    heavy: float | None = None
    final: float | None = None
    multipliers: Sequence[Multiplier] = ()
    moves: Sequence[Move] = ()


class Traces(Protocol):
    """Where traces are read (`snapshots.traces.TraceStore`)."""

    async def read(self, viewer_id: int, snapshot_id: str) -> tuple[Snapshot, SlateTrace] | None:
        """Return a snapshot with its trace; None when either is gone."""
        ...


class Standings(Protocol):
    """Where it is read how a post stands to a viewer (`storage.standing`)."""

    async def of(self, viewer_id: int, post_id: int) -> Standing | None:
        """Return it; None when there is no such post."""
        ...


class Explain:
    """Answers for one post of one slate."""

    def __init__(
        self, traces: Traces, posts: VisiblePosts, standings: Standings, recipe: Recipe
    ) -> None:
        """Replay with `recipe`; `posts` says what the viewer may see now."""
        self._traces = traces
        self._posts = posts
        self._standings = standings
        self._recipe = recipe

    async def to_viewer(self, viewer_id: int, snapshot_id: str, post_id: int) -> Explanation:
        """Explain to the viewer, who learns nothing of what cannot be seen.

        Raises:
            NotFound: The slate or its trace is gone.
            Unavailable: A store cannot be reached.
        """
        told = await self._told(viewer_id, snapshot_id, post_id)
        row = told.visible.get(post_id)
        if row is None or told.is_delicate():
            return told.plainly("not_available", NOT_AVAILABLE)
        return told.explanation(Key(row.ms, row.id), in_network=row.in_network)

    async def in_full(self, viewer_id: int, snapshot_id: str, post_id: int) -> Explanation:
        """Explain to an admin.

        Raises:
            NotFound: The slate or its trace is gone.
            Unavailable: A store cannot be reached.
        """
        told = await self._told(viewer_id, snapshot_id, post_id)
        standing = await self._standings.of(viewer_id, post_id)
        if standing is None:
            return told.plainly("not_available", "There is no such post.")
        place = Key(standing.ms, post_id)
        explained = told.explanation(place, in_network=standing.in_network)
        refused = _refused(standing, told.visible.get(post_id))
        if not refused:
            return explained
        because = f"{explained.because} The viewer may not see it now: {refused}."
        return replace(explained, because=because)

    async def _told(self, viewer_id: int, snapshot_id: str, post_id: int) -> "_Told":
        snapshot, trace = await kept(self._traces, viewer_id, snapshot_id)
        replay = replayed(trace, self._recipe)
        if not is_same(snapshot, replay):
            raise NotFound("This feed was ordered by another version of the service.")
        row = _row_of(snapshot, replay.rows, post_id)
        group = snapshot.group(row) if row is not None else []
        ids = np.array(list(dict.fromkeys([post_id, *group])), dtype=np.int64)
        seen = await self._posts.visible(viewer_id, ids, _must_follow(trace.weighed, ids))
        return _Told(snapshot, trace, replay, post_id, row, {post.id: post for post in seen})


async def kept(traces: Traces, viewer_id: int, snapshot_id: str) -> tuple[Snapshot, SlateTrace]:
    """Return a snapshot with its trace.

    Raises:
        NotFound: The slate or its trace is gone.
    """
    found = await traces.read(viewer_id, snapshot_id)
    if found is None:
        raise NotFound("How this feed was ordered is not known any more.")
    return found


@dataclass(frozen=True)
class _Told:
    """All that is known for an explanation; `row` is the one that shows the post, if one does."""

    snapshot: Snapshot
    trace: SlateTrace
    replay: Replay
    post_id: int
    row: int | None
    visible: dict[int, PostRow]

    def dropped(self, name: str) -> set[int]:
        return set(self.trace.dropped.get(name, np.empty(0)).tolist())

    def is_delicate(self) -> bool:
        """Say whether an answer would tell of blocks, or name a post that cannot be seen."""
        if self.row is not None:
            return not self.visible.keys() & set(self.snapshot.group(self.row))
        return any(self.post_id in self.dropped(each) for each in REVEALING)

    def explanation(self, place: Key, *, in_network: bool) -> Explanation:
        """Explain a post at this place in the order of time."""
        if self.row is not None:
            return self._of_row(self.row)
        for name in self.trace.dropped:
            if self.post_id in self.dropped(name):
                because = DROPPED.get(name, f"it was dropped by {name}")
                return self.plainly("not_in_slate", f"It was not ranked: {because}.")
        return self.plainly("not_in_slate", self._no_candidate(place, in_network))

    def plainly(self, status: Status, because: str) -> Explanation:
        """Say only that, and why."""
        head, size = self.snapshot.head, len(self.snapshot)
        return Explanation(self.post_id, head, size, status, because)

    def _no_candidate(self, place: Key, in_network: bool) -> str:
        head = self.snapshot.head
        if place.ms > head.created_ms:
            return "It was written after this feed was opened."
        if not in_network:
            return "Its author is not followed, and it was not among the posts found elsewhere."
        if head.oldest and place < head.oldest:
            return (
                f"It is older than the newest {len(self.trace.weighed)} posts, which were ranked; "
                "it comes below them, newest first."
            )
        return "It was not there yet: it arrived, or its author was followed, after the open."

    def _of_row(self, row: int) -> Explanation:
        group = self.snapshot.group(row)
        shown = next((post for post in group if post in self.visible), group[0])
        given = self.trace.weighed
        if shown != self.post_id:
            because = f"Post {shown} at place {row + 1} shows the same original."
            return self._known(given, "not_in_slate", because)
        if shown != group[0]:
            because = f"It stands at place {row + 1} for all posts that show the same original."
            return self._known(given, "in_slate", because, row)
        rows = self.replay.rows
        moves = _moves(self.replay, self.post_id)
        return self._known(
            given,
            "in_slate",
            self._place(row, moves),
            row,
            final=_number(rows, row, "score"),
            multipliers=_multipliers(self.replay, row),
            moves=moves,
        )

    def _known(
        self,
        given: Candidates,
        status: Status,
        because: str,
        position: int | None = None,
        **more: Any,
    ) -> Explanation:
        """Add what was known of the post itself, if it was ranked."""
        head, size = self.snapshot.head, len(self.snapshot)
        if len(at := np.flatnonzero(given.ids == self.post_id)):
            scored = self.replay.stages[0][1]
            more["features"] = _features(given, int(at[0]), head.created_ms)
            more["source"] = SOURCES[given["source"][at[0]]]
            row = int(np.flatnonzero(scored.ids == self.post_id)[0])
            more["light"] = _number(scored, row, "score")
            more["heavy"] = _number(scored, row, HEAVY) or None
        return Explanation(self.post_id, head, size, status, because, position=position, **more)

    def _place(self, row: int, moves: Sequence[Move]) -> str:
        place = f"place {row + 1} of {len(self.snapshot)}"
        _, first = next(self.replay.places(self.post_id))
        by = "By time alone" if "score" not in self.replay.rows.columns else "By its score alone"
        if not moves:
            return f"{by} it stands at {place}, and no rule has changed that."
        return f"{by} it would stand at place {first + 1}; the rules put it at {place}."


def _row_of(snapshot: Snapshot, rows: Candidates, post_id: int) -> int | None:
    """Return the row that may be shown by this post, or shows it through a repost."""
    if len(own := np.flatnonzero(snapshot.ids == post_id)):
        return int(own[0])
    if len(folded := np.flatnonzero(snapshot.folded == post_id)):
        return int(np.searchsorted(snapshot.starts, folded[0], side="right")) - 1
    shows = rows.columns.get("original", rows.ids)
    return int(through[0]) if len(through := np.flatnonzero(shows == post_id)) else None


def _must_follow(weighed: Candidates, ids: Any) -> Any:
    """Mark the posts (n,) that were ranked as in-network: they go when nobody follows any more."""
    inside = weighed.ids
    if "out_of_network" in weighed.columns:
        inside = inside[~weighed["out_of_network"]]
    return np.isin(ids, inside)


def _moves(replay: Replay, post_id: int) -> list[Move]:
    places = list(replay.places(post_id))
    return [Move(name, a, b) for (_, a), (name, b) in pairwise(places) if a != b]


def _multipliers(replay: Replay, row: int) -> list[Multiplier]:
    factors = [
        (rule.name, _number(replay.rows, row, factor_column(rule.name)))
        for rule in replay.ranking.rules
    ]
    return [Multiplier(name, factor) for name, factor in factors if factor not in (None, 1.0)]


def _features(given: Candidates, row: int, now_ms: int) -> list[Feature]:
    age_h = max(now_ms - int(given.ms[row]), 0) / MS_PER_HOUR
    known = [(*called, _number(given, row, column)) for column, called in FEATURES.items()]
    return [
        Feature("age", age_h, "hours"),
        *(Feature(name, value, unit) for name, unit, value in known if value is not None),
    ]


def _number(rows: Candidates, row: int, name: str) -> float | None:
    return float(rows[name][row]) if name in rows.columns else None


def _refused(standing: Standing, visible: PostRow | None) -> str:
    """Say why the viewer may not see a post now, or nothing."""
    if visible is not None:
        return ""
    why = {
        "it was deleted": standing.deleted,
        "the viewer has blocked its author": standing.blocked,
        "its author has blocked the viewer": standing.blocks_viewer,
        "the viewer has muted its author": standing.muted,
        "the viewer has hidden it": standing.hidden,
        "the viewer does not follow its author": not standing.in_network,
    }
    reasons = [reason for reason, holds in why.items() if holds]
    return ", ".join(reasons) or "somebody or something else that it involves may not be seen"

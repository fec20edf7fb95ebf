"""Does a ranking again from a trace, stage by stage, and compares two orders. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from feed.candidates import Candidates
from feed.order import Ids
from feed.profile import Profile
from feed.telemetry import Trace
from mixer.pipeline import Ranking, stages
from mixer.ranked import frozen
from snapshots.snapshot import Snapshot, pack
from snapshots.traces import SlateTrace

Recipe = Callable[[Profile], Ranking]
"""From a profile to what orders the home feed (`mixer.home_feed.ranking`)."""


@dataclass(frozen=True)
class Replay:
    """A ranking done again: the rows as each stage left them, the scorer first."""

    ranking: Ranking
    stages: list[tuple[str, Candidates]]

    @property
    def rows(self) -> Candidates:
        """The slate."""
        return self.stages[-1][1]

    def places(self, post_id: int) -> Iterator[tuple[str, int]]:
        """Name each stage with the row at which it left a post, as long as the post is a row."""
        for name, rows in self.stages:
            if len(found := np.flatnonzero(rows.ids == post_id)):
                yield name, int(found[0])


def replayed(trace: SlateTrace, recipe: Recipe, profile: Profile | None = None) -> Replay:
    """Rank the rows of a trace again, under another profile if one is given.

    The candidates stay those of the snapshot, but for discoveries where a profile has none.
    """
    ranking = recipe(profile or trace.profile)
    rows = trace.weighed
    if profile and not profile.out_of_network.enabled and "out_of_network" in rows.columns:
        rows = rows.take(~rows["out_of_network"])
    done = stages(ranking, rows, trace.head.created_ms, Trace(), trace.skipped)
    return Replay(ranking, list(done))


def is_same(snapshot: Snapshot, replay: Replay) -> bool:
    """Say whether a replay gives a snapshot's slate, byte for byte."""
    return pack(frozen(snapshot.head, replay.rows)) == pack(snapshot)


@dataclass(frozen=True)
class Difference:
    """How one order differs from another.

    `moves` are (post, from, to), those of the first page first; `distance` is the share of pairs
    that stand the other way round, 0 for the same order and 1 for its reverse. `enters` and
    `leaves` are posts of the first page; `gone` are in the first order only, on any page.
    """

    moves: list[tuple[int, int, int]] = field(default_factory=list)
    distance: float = 0.0
    enters: list[int] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)


def compared(before: Candidates, after: Candidates, page: int) -> Difference:
    """Compare two orders of the same originals; a row is known by the original that it shows."""
    was, now = _originals(before), _originals(after)
    rows = {original: row for row, original in enumerate(now)}
    names = dict(zip(was, before.ids.tolist(), strict=True))
    pairs = [(row, rows[each]) for row, each in enumerate(was) if each in rows]
    first, then = set(was[:page]), set(now[:page])
    return Difference(
        moves=[(names[was[a]], a, b) for a, b in pairs if a != b],
        distance=discordance(np.array([b for _, b in pairs], dtype=np.int64)),
        enters=[names[each] for each in now[:page] if each not in first],
        leaves=[names[each] for each in was[:page] if each not in then],
        gone=[names[each] for each in was if each not in rows],
    )


def discordance(rows: Ids) -> float:
    """Return the share of pairs of `rows` (n,) in which the later is the smaller.

    Kendall, A new measure of rank correlation (1938): (1 - tau) / 2.

    >>> discordance(np.array([0, 2, 1])), discordance(np.array([2, 1, 0]))
    (0.3333333333333333, 1.0)
    """
    n = len(rows)
    if n < 2:
        return 0.0
    return float((np.triu(rows[:, None] > rows[None, :]).sum()) / (n * (n - 1) / 2))


def _originals(rows: Candidates) -> list[int]:
    shown: Ids = rows.columns.get("original", rows.ids)
    return [int(each) for each in shown]

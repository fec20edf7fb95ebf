"""One ranked scroll as a pure model: snapshot, refill, retry, expiry and renewal, tail.

Lists in, pages out. The promise (P2), along one chain of cursors: no post comes twice; every post
that existed at the open and stayed visible comes exactly once; a cursor strictly advances; a retry
starts at the same place and never loses what the first answer held. The service must behave like
this model; `test_paging_model.py` breaks it on purpose, `test_scrolls.py` holds the service
against the same histories.
"""

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from random import Random

CANDIDATES = 8  # newest posts in a slate
LIMIT = 3  # posts on a page
SCAN_BOUND = 5  # rows looked at to fill one page

Entry = tuple[int, int]  # (ms, id); larger is newer


class Fault(Enum):
    """A way to get it wrong that looks right."""

    RENEWS_AFTER_ALL_SERVED = auto()  # instead of up to the presented cursor: a lost answer is lost
    NO_NONCE = auto()  # another slate under the same id passes for the expired one
    TAIL_FORGETS = auto()  # the tail repeats what an earlier slate of the chain held
    RANKING_DROPS = auto()  # the slate is cut by rank, not by time
    SHORT_PAGE_ENDS = auto()  # a page shortened by safety passes for the last one


@dataclass(frozen=True)
class Cursor:
    """A place in a chain: a position in a slate, or a key in the tail below it.

    `base` is how many posts the chain was served before this slate began.
    """

    snapshot: str
    nonce: float
    position: int
    base: int
    tail_key: Entry | None = None


@dataclass(frozen=True)
class Snapshot:
    """A frozen order. `oldest` is the last candidate by time; None: it holds everything."""

    slate: list[int]
    oldest: Entry | None
    nonce: float


Page = tuple[list[int], Cursor | None]


@dataclass
class Feed:
    """The posts, the snapshots, and what each chain of cursors was served."""

    rng: Random
    fault: Fault | None = None
    now_ms: int = 100
    posts: dict[int, int] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    served: dict[tuple[str, float], list[int]] = field(default_factory=dict)

    def write(self) -> None:
        """Write a post, often in the same millisecond as the last."""
        self.posts[len(self.posts) + 1] = self.now_ms
        self.now_ms += self.rng.choice([0, 0, 1])

    def newest(self) -> list[Entry]:
        """Return the visible posts, newest first."""
        visible = ((ms, post) for post, ms in self.posts.items() if post not in self.hidden)
        return sorted(visible, reverse=True)

    def open(self) -> Page:
        """Freeze the slate and answer its first page."""
        snapshot = self.frozen("open", [])
        return self.page(Cursor("open", snapshot.nonce, 0, 0))

    def page(self, cursor: Cursor) -> Page:
        """Answer the page at a cursor; the answer may be asked for again, or get lost."""
        if cursor.tail_key is not None:
            return self.tail(cursor)
        snapshot = self.snapshots.get(cursor.snapshot)
        if snapshot is None or snapshot.nonce != cursor.nonce:
            cursor = self.renewed(cursor)
            snapshot = self.snapshots[cursor.snapshot]
        end = self.scanned(snapshot.slate, cursor.position)
        self.note(cursor, snapshot.slate, end)
        out = [post for post in snapshot.slate[cursor.position : end] if post not in self.hidden]
        return out, self.following(cursor, snapshot, end, len(out))

    def frozen(self, snapshot_id: str, before: list[int]) -> Snapshot:
        """Freeze the newest candidates without what the chain was served `before`.

        Created once: a retry gets the same. The order is the ranker's, here random.
        """
        if snapshot_id not in self.snapshots:
            candidates = self.newest()[:CANDIDATES]
            slate = [post for _, post in candidates if post not in before]
            self.rng.shuffle(slate)
            if self.fault is Fault.RANKING_DROPS:
                slate = slate[: CANDIDATES // 2]
            nonce = 0.0 if self.fault is Fault.NO_NONCE else self.rng.random()
            oldest = candidates[-1] if len(candidates) == CANDIDATES else None
            self.snapshots[snapshot_id] = Snapshot(slate, oldest, nonce)
            self.served[snapshot_id, nonce] = list(before)
        return self.snapshots[snapshot_id]

    def renewed(self, cursor: Cursor) -> Cursor:
        """Move to a new slate without what this chain was served up to the presented cursor.

        Its id follows from the old snapshot and the position, so that a retry finds it.
        """
        served = self.served[cursor.snapshot, cursor.nonce]
        if self.fault is not Fault.RENEWS_AFTER_ALL_SERVED:
            served = served[: cursor.base + cursor.position]
        snapshot_id = f"{cursor.snapshot}/{cursor.nonce}/{cursor.position}"
        snapshot = self.frozen(snapshot_id, served)
        return Cursor(snapshot_id, snapshot.nonce, 0, len(served))

    def scanned(self, slate: list[int], position: int) -> int:
        """Return where a page from `position` ends: full, out of slate, or at the scan bound."""
        end, n_visible = position, 0
        while end < min(len(slate), position + SCAN_BOUND) and n_visible < LIMIT:
            n_visible += slate[end] not in self.hidden
            end += 1
        return end

    def note(self, cursor: Cursor, slate: list[int], end: int) -> None:
        """Remember what was looked at; a retry adds only what lies beyond the first answer."""
        served = self.served[cursor.snapshot, cursor.nonce]
        served += slate[len(served) - cursor.base : end]

    def following(self, cursor: Cursor, snapshot: Snapshot, end: int, n_out: int) -> Cursor | None:
        """Return the next cursor: on in the slate, into the tail, or None at the very end."""
        if end < len(snapshot.slate):
            return replace(cursor, position=end)
        short = self.fault is Fault.SHORT_PAGE_ENDS and n_out < LIMIT
        if snapshot.oldest is None or short:
            return None
        tail = replace(cursor, position=0, base=cursor.base + end, tail_key=snapshot.oldest)
        return tail if self.below(tail) else None

    def tail(self, cursor: Cursor) -> Page:
        """Answer a chronological page below the slate's oldest candidate."""
        rows = self.below(cursor)
        out = rows[:LIMIT]
        more = replace(cursor, tail_key=out[-1]) if len(rows) > LIMIT else None
        return [post for _, post in out], more

    def below(self, cursor: Cursor) -> list[Entry]:
        """Return the visible posts below the cursor's key that the chain was not served."""
        assert cursor.tail_key is not None
        served = self.served[cursor.snapshot, cursor.nonce][: cursor.base]
        if self.fault is Fault.TAIL_FORGETS:
            served = []
        older = (entry for entry in self.newest() if entry < cursor.tail_key)
        return [entry for entry in older if entry[1] not in served]

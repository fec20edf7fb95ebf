"""One reader's scroll over HTTP, and what must hold of each answer (DESIGN: P1, P2, P3, P6).

A client sees positions, snapshot ids and cursors only; so does this. What a reader may see, and
must, comes from the oracle.
"""

import math
from asyncio import gather
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from tests.oracle import Entry
from tests.properties.crowd import Crowd

DISCOVERIES = {"popular", "network_likes"}
LIMITS = (1, 1, 2, 2, 3, 3, 5, 50)
NOBODYS_POST = 4_242_424_242
TOP = Entry(2**63 - 1, 2**63 - 1)


class Item(NamedTuple):
    """One item of a page; `shows` is the post that it shows: for a plain repost, the original."""

    id: int
    shows: int
    position: int
    in_network: bool
    source: str
    reposters: frozenset[int]


@dataclass(eq=False)
class Slate:
    """What a client has seen of one frozen slate; another one under the same id is another."""

    id: str
    weights: str
    written: frozenset[int]  # before it was frozen
    rows: dict[int, Item] = field(default_factory=dict)  # as each position was shown last
    places: dict[int, int] = field(default_factory=dict)  # what is shown, and at which position


@dataclass(frozen=True)
class Place:
    """Where a cursor goes on, as far as its client can tell, and how things stood when it was made.

    `passed` is the last position shown of the slate; `below` the last post in order of time, None
    when nobody can tell; `visible` the reader's feed.
    """

    slate: Slate | None
    passed: int
    below: Entry | None
    visible: frozenset[int]
    n_taken: int


@dataclass(frozen=True)
class Answer:
    """One answer, and the reader's feed when it was given."""

    limit: int
    items: Sequence[Item]
    next: str | None
    slate: Slate | None
    visible: frozenset[int]

    @property
    def shown(self) -> list[int]:
        """What the items show."""
        return [item.shows for item in self.items]


class Scroll:
    """A chain of cursors: the pages that its reader took, one after the other."""

    def __init__(self, crowd: Crowd, reader: int, mode: str) -> None:
        self.reader = reader
        self.gone: set[int] = set()
        self._mode = mode
        self._crowd = crowd
        self._rng: Random = crowd.rng
        self._nodes = crowd.nodes
        self._taken: list[Answer] = []
        self._places: dict[str, Place] = {}
        self._answers: dict[str, Answer] = {}
        self._untaken: set[int] = set()
        self._at_open: set[int] = set()
        self._opened_ms: int | None = None
        self._session = ""

    @property
    def ended(self) -> bool:
        """Whether the last page that was taken has no next one."""
        return self._taken[-1].next is None

    async def open(self) -> None:
        """Open the feed, and half of the time look through its slate ahead of the scroll."""
        self._at_open = {entry.id for entry in await self._crowd.feed(self.reader)}
        self._crowd.watchers.append(self)
        self._count("sessions")
        await self._take()
        await self._look_ahead()

    async def step(self) -> None:
        """Go on in one of the ways of clients: on, twice, back, or all at once."""
        rng, n = self._rng, len(self._taken)
        how = rng.random()
        if how < 0.1:
            self._untake(await self._ask(rng.randrange(1, n + 1)))  # an answer that got lost
        elif how < 0.2:
            await self._ask_at_once()
        elif how < 0.27 and n > 1:
            self._go_back(rng.randrange(max(1, n - 4), n))
        elif how < 0.34:
            await self._check_others()
        elif how < 0.4:
            await self._check_updates()
        elif how < 0.48:
            await self._check_explained()
        else:
            await self._take()
            await self._look_ahead()

    async def end(self) -> None:
        """Assert that nothing was lost, and ask for some pages of long ago."""
        shows = self._crowd.shows
        got = {each for answer in self._taken for each in answer.shown}
        # Which of two answers to one cursor counts, only the client knows: what one of them showed,
        # and was gone in the other, is not promised again through another repost.
        doubtful = {shows[post] for post in self.gone} & self._untaken
        lost = {self._key(post) for post in self._at_open - self.gone} - got - doubtful
        assert not lost, f"lost {lost}"
        for n in self._rng.sample(range(1, len(self._taken)), min(2, len(self._taken) - 1)):
            await self._ask(n)
        self._crowd.watchers.remove(self)

    # ------------------------------------------------------------------ what a client does

    async def _take(self) -> None:
        """Take the next page, or the first."""
        answer = await self._ask(len(self._taken))
        cursors = {each.next for each in self._taken}
        assert answer.next is None or answer.next not in cursors, "a cursor came back"
        self._taken.append(answer)
        self._count("pages")

    async def _look_ahead(self) -> None:
        if not self.ended and self._rng.random() < 0.25:
            self._untake(await self._ask(len(self._taken), 50))

    async def _ask_at_once(self) -> None:
        """Ask for some pages at the same time, one of them twice, and take it."""
        n = len(self._taken)
        others = [self._rng.randrange(1, n + 1) for _ in range(2)]
        limit = self._rng.choice(LIMITS)
        for answer in await gather(*(self._ask(each, limit) for each in (n, n, *others))):
            self._untake(answer)
        await self._take()

    def _go_back(self, n: int) -> None:
        """Forget later pages, and go on from an earlier one."""
        self._count("back")
        for answer in self._taken[n:]:
            self._untake(answer)
        del self._taken[n:]
        self._tell(f"goes back to page {n}")

    def _untake(self, answer: Answer) -> None:
        self._untaken.update(answer.shown)

    async def _ask(self, n: int, limit: int | None = None) -> Answer:
        """Ask for page n, and check the answer; the pages before it were taken."""
        before = self._taken[:n]
        cursor = before[-1].next if before else None
        place = self._places[cursor] if cursor else None
        limit = limit or self._rng.choice(LIMITS)
        node = self._rng.choice(self._nodes.clients)
        query = {"mode": self._mode, "limit": limit, "cursor": cursor}
        answered = await self._nodes.get(node, "/feed", self.reader, **query)
        assert answered.status_code == 200, answered.text
        page = answered.json()
        feed = await self._crowd.feed(self.reader)
        answer = self._read(page, limit, place, feed)
        self._tell(f"page {n}, {limit} posts: {page['state']}, {answer.items} {_end(answer)}")
        await self._check(answer, place, feed, before)
        if cursor is not None and place is not None and self._mode == "ranked":
            if answer.slate or self._is_open(place.slate):
                self._check_again(answer, self._answers.get(cursor))
            self._answers[cursor] = answer
        return answer

    # ------------------------------------------------------------------ how an answer is read

    def _read(
        self, page: dict[str, Any], limit: int, place: Place | None, feed: list[Entry]
    ) -> Answer:
        assert (page["mode"], page["degraded"]) == (self._mode, [])
        self._session = self._session or page["session_id"]
        assert page["session_id"] == self._session
        slate = self._slate(page["snapshot"], place)
        if place is None and page["snapshot"]:
            self._opened_ms = _ms(page["snapshot"]["created_at"])
        items = [_item(item) for item in page["items"]]
        visible = frozenset(entry.id for entry in feed)
        answer = Answer(limit, items, page["next_cursor"], slate, visible)
        if answer.next is not None:
            self._places[answer.next] = self._place(answer, place, feed)
        return answer

    def _slate(self, told: dict[str, Any] | None, place: Place | None) -> Slate | None:
        """Return the slate that an answer names; it is the cursor's own unless that is lost."""
        if told is None:
            return None
        own = place.slate if place else None
        assert self._mode == "ranked" and (place is None or own is not None), "a slate in the tail"
        is_open = own is not None and self._is_open(own)
        assert told["renewed"] == (place is not None and not is_open), f"renewed: {told['renewed']}"
        written = frozenset(self._crowd.author)
        slate: Slate = self._crowd.slates.setdefault(
            told["id"], Slate(told["id"], told["weights_version"], written)
        )
        assert slate.weights == told["weights_version"], "ranked by other weights"
        assert not is_open or slate is own, "another slate, though the own one is there"
        self._count("renewed" if told["renewed"] else "pages of slates")
        return slate

    def _place(self, answer: Answer, place: Place | None, feed: list[Entry]) -> Place:
        entries = {entry.id: entry for entry in feed}
        below, passed = place.below if place else TOP, -1
        if place and place.slate is answer.slate:
            passed = place.passed
        if answer.items:
            passed = answer.items[-1].position
            below = entries.get(answer.items[-1].id)
        if len(answer.items) < answer.limit and answer.slate is None:
            below = None  # so many rows were looked at
        return Place(answer.slate, passed, below, answer.visible, self._crowd.n_taken)

    # ------------------------------------------------------------------ what must hold

    async def _check(
        self, answer: Answer, place: Place | None, feed: list[Entry], before: Sequence[Answer]
    ) -> None:
        await self._check_allowed(answer)
        got = {each for earlier in before for each in earlier.shown}
        ids = {item.id for earlier in before for item in earlier.items}
        again = ids & {item.id for item in answer.items}
        if self._mode == "ranked":  # chronological shows every repost
            again |= got & set(answer.shown)
        assert not again, f"again {again}"
        assert len(answer.items) <= answer.limit
        positions = [item.position for item in answer.items]
        assert all(a < b for a, b in pairwise(positions)), positions
        if answer.slate is not None:
            self._check_frozen(answer, answer.slate, place)
        else:
            self._check_order(answer, place, feed)
        if place is not None:
            self._check_more(answer, place)

    async def _check_allowed(self, answer: Answer) -> None:
        """P3: all may be seen now, is from the network or a discovery, and says which."""
        others = {item.id for item in answer.items} - answer.visible
        if others:
            assert self._mode == "ranked", f"not to be seen: {others}"
            leaked = others - await self._crowd.may_see(self.reader, others)
            assert not leaked, f"leaked {leaked}"
            self._count("discoveries", len(others))
        for item in answer.items:
            assert item.in_network == (item.id not in others), item
            assert item.in_network or item.source in DISCOVERIES, item
            assert item.reposters <= self._reposters(item, answer), f"named {item.reposters}"

    def _check_frozen(self, answer: Answer, slate: Slate, place: Place | None) -> None:
        """A position shows the same for ever, nothing new comes in, and nothing is passed over."""
        for item in answer.items:
            assert slate.rows.get(item.position, item).shows == item.shows, "another order"
            assert slate.places.setdefault(item.shows, item.position) == item.position, "moved"
            assert item.id in slate.written or not item.in_network, "a new post was inserted"
            slate.rows[item.position] = item
        is_own = place is not None and place.slate is slate
        passed = place.passed if place and is_own else -1
        positions = [item.position for item in answer.items]
        assert not positions or positions[0] > passed, "back in the slate"
        is_full = len(positions) == answer.limit
        until = positions[-1] if is_full else math.inf if self._scans_all else -1
        for position, row in slate.rows.items():
            if is_own and place and passed < position < until and row.id in place.visible:
                assert position in positions or row.id not in answer.visible, f"{row} passed over"

    def _check_order(self, answer: Answer, place: Place | None, feed: list[Entry]) -> None:
        """By time, each below what came before; strict and complete in chronological mode."""
        entries = {entry.id: entry for entry in feed}
        order = [entries[item.id] for item in answer.items]
        assert order == sorted(order, reverse=True), "not newest first"
        below = place.below if place else TOP
        if place and place.slate and self._is_open(place.slate):
            rows = [row for row in place.slate.rows.values() if row.source not in DISCOVERIES]
            below = min((entries[row.id] for row in rows if row.id in entries), default=None)
        elif place and place.slate:
            below = None
        assert below is None or all(entry < below for entry in order), f"not below {below}"
        if self._mode == "chronological" and below and self._crowd.settled:
            wanted = [entry for entry in feed if entry < below]
            assert order == wanted[: len(order)], f"{order} instead of {wanted}"
            if self._scans_all:
                assert len(order) == min(answer.limit, len(wanted)), "a short page"
                assert (answer.next is None) == (len(order) == len(wanted)), "the end is not there"

    def _check_more(self, answer: Answer, place: Place) -> None:
        """A cursor says that there is more: the next page has it, unless it was taken away."""
        renewed = place.slate is not answer.slate
        if (
            self._scans_all
            and place.n_taken == self._crowd.n_taken
            and not (renewed and self._discovered)
        ):
            assert answer.items, "a cursor, though nothing is left"

    def _check_again(self, answer: Answer, earlier: Answer | None) -> None:
        """The same cursor gives the same page, but for what came or went since."""
        if earlier is None or earlier.slate is not answer.slate:
            return
        self._count("asked again")
        changed = {self._key(post) for post in earlier.visible ^ answer.visible}
        discovered = {
            item.shows for each in (earlier, answer) for item in each.items if not item.in_network
        }
        was, now = (
            [each for each in one.shown if each not in changed | discovered]
            for one in (earlier, answer)
        )
        n = min(len(was), len(now))
        assert was[:n] == now[:n], f"{now} instead of {was}"
        if self._scans_all and len(answer.items) < answer.limit:
            assert len(now) >= len(was), f"only {now} instead of {was}"

    # ------------------------------------------------------------------ what else is asked

    async def _check_others(self) -> None:
        """P6: nobody reads with another's cursor or snapshot, nor with one that was changed."""
        (other,) = set(self._crowd.readers) - {self.reader}
        told = [each for each in self._taken if each.next is not None]
        if not told:
            return
        answer, node = self._rng.choice(told), self._rng.choice(self._nodes.clients)
        cursor, other_mode = answer.next or "", {"ranked", "chronological"} - {self._mode}
        refused = {
            "cursor_invalid": (other, self._mode, cursor),
            "cursor_mode_mismatch": (self.reader, other_mode.pop(), cursor),
        }
        for code, (reader, mode, text) in refused.items():
            got = await self._nodes.get(node, "/feed", reader, mode=mode, cursor=text)
            assert (got.status_code, got.json()["code"]) == (400, code)
        got = await self._nodes.get(node, "/feed/updates", other, cursor=cursor)
        assert got.status_code == 400, got.text
        if answer.slate is not None:
            path = f"/feed/explain/{next(iter(answer.slate.places), NOBODYS_POST)}"
            got = await self._nodes.get(node, path, other, snapshot=answer.slate.id)
            assert got.status_code == 404, got.text
        self._count("refused")

    async def _check_updates(self) -> None:
        """New posts are counted, as far as they may be seen, and never come by themselves."""
        cursor, opened_ms = self._taken[-1].next, self._opened_ms
        if cursor is None or opened_ms is None:
            return
        node = self._rng.choice(self._nodes.clients)
        got = (await self._nodes.get(node, "/feed/updates", self.reader, cursor=cursor)).json()
        authors = [
            self._crowd.author[entry.id]
            for entry in await self._crowd.feed(self.reader)
            if entry.ms > opened_ms and self._crowd.author[entry.id] != self.reader
        ]
        assert got["new_count"] == len(authors), got
        assert {int(each["id"]) for each in got["authors"]} <= set(authors)
        self._count("updates")

    async def _check_explained(self) -> None:
        """Of a post that may not be seen, no more is said than of one that does not exist."""
        slates = [each.slate for each in self._taken if each.slate]
        if not slates or not self._crowd.author:
            return
        slate, post = self._rng.choice(slates), self._rng.choice([*self._crowd.author])
        if self.gone and self._rng.random() < 0.5:
            post = self._rng.choice(sorted(self.gone))
        await self._nodes.side_effects()  # the trace is written beside the page
        node = self._rng.choice(self._nodes.clients)
        told, nothing = [
            await self._nodes.get(node, f"/feed/explain/{each}", self.reader, snapshot=slate.id)
            for each in (post, NOBODYS_POST)
        ]
        assert told.status_code == nothing.status_code
        if told.status_code == 404:
            return
        if not await self._crowd.may_see(self.reader, {post}):
            said = {**told.json(), "post_id": None}
            assert said == {**nothing.json(), "post_id": None}, f"told of {post}: {said}"
        elif told.json()["status"] == "in_slate" and self._is_open(slate):
            position = slate.places.get(self._key(post), told.json()["position"])
            assert told.json()["position"] == position
        self._count("explained")

    # ------------------------------------------------------------------ how

    @property
    def _scans_all(self) -> bool:
        """Whether a page looks at so many rows that none can be empty but the last."""
        return self._nodes.scans > 100

    def _is_open(self, slate: Slate | None) -> bool:
        """Whether this slate is not lost; true of none."""
        return slate is None or self._crowd.slates.get(slate.id) is slate

    @property
    def _discovered(self) -> bool:
        rows = [row for answer in self._taken if answer.slate for row in answer.slate.rows.values()]
        return any(row.source in DISCOVERIES for row in rows)

    def _reposters(self, item: Item, answer: Answer) -> set[int]:
        """Return who has reposted what an item shows, in posts that the reader may see."""
        shows, author = self._crowd.shows, self._crowd.author
        posts = answer.visible - {item.shows}
        return {author[post] for post in posts if shows[post] == item.shows}

    def _key(self, post: int) -> int:
        return self._crowd.shows.get(post, post)

    def _count(self, what: str, n: int = 1) -> None:
        self._nodes.counts[what] += n

    def _tell(self, what: str) -> None:
        self._crowd.told.append(f"{self.reader} {self._mode}: {what}")


def _end(answer: Answer) -> str:
    return "the end" if answer.next is None else ""


def _item(item: dict[str, Any]) -> Item:
    plain = item["repost_of"] and not item["body"] and not item["media"]
    return Item(
        id=int(item["id"]),
        shows=int(item["repost_of"] if plain else item["id"]),
        position=item["position"],
        in_network=item["in_network"],
        source=item["source"],
        reposters=frozenset(int(each["id"]) for each in item["reposted_by"]),
    )


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)

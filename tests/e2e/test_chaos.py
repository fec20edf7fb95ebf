"""Chaos: workers, relay and Redis are killed every few seconds, while posts are written and read.

When all is quiet again nothing is missing and nothing doubled, for any follower. And all the while
a client asks for what was just deleted, blocked, muted, hidden or unfollowed, and never gets it.
TEST_CHAOS_S says for how many seconds; TEST_CHAOS_SEED chooses what is killed and done.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event, Lock
from typing import Any

import httpx
import psycopg
import pytest

from tests.deeds import DEEDS, Deed, Scene
from tests.e2e.product import PATIENT_ENVIRON, Product, eventually, run
from tests.oracle import HOME_FEED

pytestmark = pytest.mark.e2e

SECONDS = float(os.environ.get("TEST_CHAOS_S", "120"))
SEED = int(os.environ.get("TEST_CHAOS_SEED", "0"))
POSTS = 5_000
USERS = range(1, 41)
FOLLOWS = 8  # of each; some authors get more than PULL_FROM followers, some fewer
PULL_FROM, PUSH_BELOW = 9, 7
VICTIMS = ("worker-fast", "worker-slow", "relay", "valkey")
BETWEEN_KILLS_S = (1.5, 3.5)
LOOKED_AT_S = (0.1, 0.5)  # a scroll, before the next one
WRITERS, READERS, CANARIES = 4, 2, 2
MODES: tuple[str, ...] = ("ranked", "chronological")
QUIET_WITHIN_S = 120.0


@pytest.fixture
def chaotic(folder: Path) -> Iterator[Product]:
    """A product of its own, in which every other author is pulled."""
    environ = PATIENT_ENVIRON | {
        "FORYOU_PULL_FROM_FOLLOWERS": str(PULL_FROM),
        "FORYOU_PUSH_BELOW_FOLLOWERS": str(PUSH_BELOW),
        "FORYOU_SWITCH_GRACE_S": "2",
        "FORYOU_LEASE_S": "5",
    }
    with Product(folder / "data", "--no-sample", **environ) as product:
        yield product


@pytest.mark.longest
@pytest.mark.timeout(SECONDS + 600)
def test_after_chaos_every_feed_is_the_oracles_and_nothing_leaked(chaotic: Product) -> None:
    chaos = Chaos(chaotic, random.Random(SEED))
    chaos.people_come()
    chaos.rage()
    assert chaos.counts["asked for what is gone, had it"], "the canary is blind"
    assert chaos.counts["posts"] == POSTS
    eventually(chaos.is_quiet, QUIET_WITHIN_S)
    assert chaos.differences() == Counter()
    checked = run(
        "check",
        "--json",
        timeout_s=300,
        FORYOU_POSTGRES_URL=chaotic.info["postgres_url"],
        FORYOU_REDIS_URL=chaotic.info["redis_url"],
    )
    assert checked.returncode == 0, f"{checked.stdout}\n{checked.stderr}"


@dataclass
class Chaos:
    """Everybody who writes, reads, asks and kills at the same time."""

    product: Product
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    _over: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)
    _deeds: list[Deed] = field(default_factory=list)

    def people_come(self) -> None:
        """Make users who follow each other, some authors far more followed than others."""
        users = [{"kind": "user", "id": str(user), "name": f"u{user}"} for user in USERS]
        weights = [1 / (1 + user % 10) for user in USERS]
        follows = {
            (user, author)
            for user in USERS
            for author in self.rng.choices(USERS, weights, k=2 * FOLLOWS)[:FOLLOWS]
            if author != user
        }
        self.product.ingest(users)
        self.product.ingest(
            {"kind": "follow", "follower_id": str(user), "followee_id": str(author)}
            for user, author in sorted(follows)
        )

    def rage(self) -> None:
        """Do everything at once until the time is over and every post is written."""
        numbers = count()
        began = time.monotonic()

        def write(rng: random.Random) -> None:
            while (number := next(numbers)) < POSTS and not self._over.is_set():
                time.sleep(max(0.0, began + number * SECONDS / POSTS - time.monotonic()))
                self.product.post(rng.choice(USERS), f"post {number}")
                self._count("posts")

        with ThreadPoolExecutor(WRITERS + READERS + CANARIES + 1) as pool:
            writers = [self._started(pool, write) for _ in range(WRITERS)]
            others = [
                *(self._started(pool, self._until_over(self._read)) for _ in range(READERS)),
                *(
                    self._started(pool, self._until_over(partial(self._ask_for_what_is_gone, some)))
                    for some in (USERS[n::CANARIES] for n in range(CANARIES))
                ),
                self._started(pool, self._until_over(self._kill)),
            ]
            try:
                while not all(each.done() for each in writers):
                    for each in [*writers, *others]:
                        if each.done():
                            each.result()
                    time.sleep(0.2)
            finally:
                self._over.set()
            for each in [*writers, *others]:
                each.result()

    def is_quiet(self) -> bool:
        """Say whether nothing is owed any more; nothing may have been given up."""
        with psycopg.connect(self.product.info["postgres_url"]) as connection:
            owed = connection.execute("SELECT state, error FROM deliveries").fetchall()
        parked = [error for state, error in owed if state == "parked"]
        assert not parked, parked
        return not owed

    def differences(self) -> Counter[str]:
        """Compare every feed, read to its end, with the oracle."""
        found: Counter[str] = Counter()
        with psycopg.connect(self.product.info["postgres_url"]) as connection:
            for user in USERS:
                rows = connection.execute(HOME_FEED, {"viewer": user}).fetchall()
                wanted = [str(post) for _, post in rows]
                got = self.product.walk(user, "chronological")
                found["missing"] += len(set(wanted) - set(got))
                found["extra"] += len(set(got) - set(wanted))
                found["doubled"] += len(got) - len(set(got))
                found["out of order"] += got != wanted and sorted(got) == sorted(wanted)
        return +found  # without zeros

    # ------------------------------------------------------------------ what they do

    def _kill(self, rng: random.Random) -> None:
        victim = rng.choice(VICTIMS)
        with suppress(KeyError, ProcessLookupError):  # it is being started again
            self.product.signal(victim, signal.SIGKILL)
            self._count(f"killed {victim}")
        self._over.wait(rng.uniform(*BETWEEN_KILLS_S))

    def _read(self, rng: random.Random) -> None:
        """Scroll a few pages; nothing may come twice."""
        seen: list[str] = []
        pages = self.product.pages(rng.choice(USERS), rng.choice(MODES))
        for page, _ in zip(pages, range(6), strict=False):
            seen += [item["id"] for item in page["items"]]
        assert len(seen) == len(set(seen)), "a post came twice in one scroll"
        self._count("scrolls")
        self._over.wait(rng.uniform(*LOOKED_AT_S))

    def _ask_for_what_is_gone(self, users: Sequence[int], rng: random.Random) -> None:
        """Take something away, ask for it at once in every way, and give it back.

        Nobody else does so among these users.
        """
        reader, author, reposter = rng.sample(users, 3)
        original = self.product.post(author, "soon gone")
        repost = self.product.post(reposter, "", repost_of=original)
        for each in (author, reposter):
            self._call("PUT", f"/follows/{each}", reader)
        whose = rng.choice(((author, original), (reposter, repost)))
        canary = Canary(self.product, self._next_deed(), Scene(reader, whose[0], int(whose[1])))
        canary.look_around()
        self.product.post(whose[0], "newer than the open scrolls")
        self._call(*canary.deed.done(canary.scene))
        canary.check_gone()
        self._call(*canary.deed.undone(canary.scene))
        self._count(
            f"asked for what is gone, {'had' if canary.had_it else 'without having had'} it"
        )

    # ------------------------------------------------------------------ how

    def _call(self, method: str, path: str, user: int, body: Any = None) -> None:
        answer = self.product.call(method, path, user, json=body)
        assert answer.status_code in (200, 202, 204), f"{method} {path}: {answer.text}"

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def _next_deed(self) -> Deed:
        """Give each deed its turn before any comes again."""
        with self._lock:
            if not self._deeds:
                self._deeds = self.rng.sample(DEEDS, len(DEEDS))
            return self._deeds.pop()

    def _until_over(self, does: Callable[[random.Random], None]) -> Callable[[random.Random], None]:
        def again(rng: random.Random) -> None:
            while not self._over.is_set():
                does(rng)

        return again

    def _started(
        self, pool: ThreadPoolExecutor, does: Callable[[random.Random], None]
    ) -> "Future[None]":
        return pool.submit(does, random.Random(self.rng.random()))


@dataclass
class Canary:
    """A reader who scrolls, and goes on asking for what one deed has just taken away."""

    product: Product
    deed: Deed
    scene: Scene
    had_it: bool = False
    _cursors: list[tuple[str, str]] = field(default_factory=list)
    _snapshots: set[str] = field(default_factory=set)

    def look_around(self) -> None:
        """Open both feeds, and keep the cursors of two short pages and of a long one."""
        for mode in MODES:
            cursor = None
            for limit in (2, 2, 50):
                page = self._page(mode, limit, cursor)
                self.had_it |= any(self._is_taken(item) for item in page["items"])
                cursor = page["next_cursor"]
                if cursor is None:
                    break
                self._cursors.append((mode, cursor))

    def check_gone(self) -> None:
        """Assert that no page, new or old, has it, and that nothing else tells of it."""
        for mode, cursor in [*((mode, None) for mode in MODES), *self._cursors]:
            page = self._page(mode, 50, cursor)
            leaks = [item for item in page["items"] if self._is_taken(item)]
            assert not leaks, f"{self.deed} leaked {leaks[0]} to {self.scene} in {mode}"
        self._check_updates()
        for snapshot in self._snapshots:
            self._check_explained(snapshot)

    def _check_updates(self) -> None:
        """Who is gone does not count among those who wrote since a feed was opened."""
        for mode, cursor in self._cursors:
            if self.deed.takes != "post":
                told = self._get("/feed/updates", cursor=cursor).json()
                authors = [int(each["id"]) for each in told["authors"]]
                assert self.scene.author not in authors, f"{self.deed} leaked in updates, {mode}"

    def _check_explained(self, snapshot: str) -> None:
        """Nothing is said of the post; without Redis, or when the slate is lost, of none."""
        answer = self._get(f"/feed/explain/{self.scene.post}", snapshot=snapshot)
        assert answer.status_code in (200, 404, 503), answer.text
        told = answer.json().get("status")
        assert told in ("not_available", 404, 503), f"{self.deed} leaked in explain: {answer.text}"

    def _page(self, mode: str, limit: int, cursor: str | None) -> dict[str, Any]:
        given = {"mode": mode, "limit": limit, "cursor": cursor}
        answer = self._get("/feed", **{name: each for name, each in given.items() if each})
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        if page["snapshot"]:
            self._snapshots.add(page["snapshot"]["id"])
        return page

    def _get(self, path: str, **parameters: Any) -> httpx.Response:
        return self.product.call("GET", path, self.scene.reader, params=parameters)

    def _is_taken(self, item: dict[str, Any]) -> bool:
        """Say whether an item shows, or names, what the deed takes away."""
        original = item["original"] or item
        if self.deed.takes == "post":
            return str(self.scene.post) in (item["id"], original["id"])
        named = [item["author"], *item["reposted_by"]]
        if self.deed.takes == "author":
            named.append(original["author"])
        return str(self.scene.author) in [each["id"] for each in named]

"""Cached feeds as a pure model: sentinel, floor, building marker, reconcile, push and pull.

Every `yield` is a point where any other task may run. The promise (P1): when every task has ended,
a chronological read equals the oracle, whatever ran between what. And at any moment a pulled post
that its author's outbox holds is visible to every follower. `test_feed_model.py` breaks the model
on purpose; `test_feed_histories.py` holds the real stores against the same kind of histories.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random

CAP = 4
AUTHORS = (10, 11, 12)
VIEWERS = (1, 2)

Entry = tuple[int, int]  # (ms, id); larger is newer
Task = Iterator[None]


class Fault(Enum):
    """A way to get it wrong that looks right."""

    NO_MARKER = auto()  # a rebuild overwrites what fan-out pushed while it read
    SPLIT_TIE = auto()  # trimming cuts between two posts of one millisecond
    OVERLAPPING_SWITCHES = auto()  # two switches of one author at once
    NO_GRACE = auto()  # writers stop pushing before readers know
    NO_BACKFILL = auto()  # back to push without the posts that were only pulled


@dataclass
class Post:
    """A post, and how it is delivered: decided once, when it is written."""

    author: int
    ms: int
    pulled: bool
    deleted: bool = False


@dataclass
class List:
    """A cached feed, complete strictly above its floor; `token` is its builder's, 0: ready."""

    floor: int = -1
    entries: dict[int, int] = field(default_factory=dict)
    token: int = 0


@dataclass
class World:
    """The truth, the caches made from it, and the tasks that are under way."""

    rng: Random
    fault: Fault | None = None
    now_ms: int = 0
    n_tokens: int = 0
    posts: dict[int, Post] = field(default_factory=dict)
    follows: set[tuple[int, int]] = field(default_factory=set)
    writers_pull: set[int] = field(default_factory=set)
    readers_pull: set[int] = field(default_factory=set)
    feeds: dict[int, List] = field(default_factory=dict)
    outboxes: dict[int, dict[int, int]] = field(default_factory=dict)
    locks: set[Hashable] = field(default_factory=set)
    tasks: list[Task] = field(default_factory=list)

    # ------------------------------------------------------------------ the truth

    def visible(self, viewer: int, post: Post) -> bool:
        """Say whether a viewer may see a post."""
        return (viewer, post.author) in self.follows and not post.deleted

    def oracle(self, viewer: int) -> list[Entry]:
        """Return what a viewer must see, newest first."""
        shown = ((p.ms, i) for i, p in self.posts.items() if self.visible(viewer, p))
        return sorted(shown, reverse=True)

    def followers(self, author: int) -> list[int]:
        """Return who follows an author."""
        return [viewer for viewer, followee in self.follows if followee == author]

    # ------------------------------------------------------------------ scripts: one step each

    def push(self, viewer: int, post_id: int) -> None:
        """Push a post into a feed that exists."""
        cached, ms = self.feeds.get(viewer), self.posts[post_id].ms
        if cached is not None and ms > cached.floor:
            cached.entries[post_id] = ms
            self.trim(cached)

    def trim(self, cached: List) -> None:
        """Raise the floor to the newest entry beyond the cap; what is at or below it goes."""
        if len(cached.entries) <= CAP:
            return
        order = sorted(((ms, post) for post, ms in cached.entries.items()), reverse=True)
        floor = order[CAP][0]
        kept = [entry for entry in order if entry[0] > floor]
        if self.fault is Fault.SPLIT_TIE:
            kept, floor = order[:CAP], floor - 1
        cached.entries = {post: ms for ms, post in kept}
        cached.floor = max(cached.floor, floor)

    # ------------------------------------------------------------------ tasks

    def fan_out(self, post_id: int) -> Task:
        """Write the author's outbox, and push to the followers unless the post is pulled."""
        post = self.posts[post_id]
        self.outboxes.setdefault(post.author, {})[post_id] = post.ms
        yield
        if post.pulled:
            return
        followers = self.followers(post.author)
        yield
        self.rng.shuffle(followers)
        for viewer in followers:
            self.push(viewer, post_id)
            yield

    def rebuild(self, viewer: int) -> Task:
        """Bring a missing feed back from the truth."""
        if viewer in self.feeds:
            return
        self.n_tokens += 1
        token = self.n_tokens
        if self.fault is not Fault.NO_MARKER:
            self.feeds[viewer] = List(token=token)
        yield
        found = self.oracle(viewer)
        yield
        if self.fault is Fault.NO_MARKER:
            self.feeds[viewer] = List(token=token)
        cached = self.feeds.get(viewer)
        if cached is None or cached.token != token:
            return
        cached.entries.update((post, ms) for ms, post in found)
        self.trim(cached)
        cached.token = 0

    def reconcile(self, viewer: int, author: int) -> Task:
        """Bring one pair in line with the truth, re-read under a lock."""
        yield from self.locked((viewer, author))
        yield
        follows = (viewer, author) in self.follows
        rows = {i: p.ms for i, p in self.posts.items() if p.author == author and not p.deleted}
        yield
        cached = self.feeds.get(viewer)
        if cached is not None and follows:
            cached.entries.update((i, ms) for i, ms in rows.items() if ms > cached.floor)
            self.trim(cached)
        elif cached is not None:
            mine = [i for i in cached.entries if self.posts[i].author == author]
            for post_id in mine:
                del cached.entries[post_id]
        self.locks.discard((viewer, author))
        yield

    def switch(self, author: int, to_pull: bool) -> Task:
        """Change how an author's posts are delivered, one switch of an author at a time."""
        if self.fault is not Fault.OVERLAPPING_SWITCHES:
            yield from self.locked(author)
        if to_pull != (author in self.writers_pull):
            yield from self.to_pull(author) if to_pull else self.to_push(author)
        self.locks.discard(author)

    def to_pull(self, author: int) -> Task:
        """Readers learn first, then writers stop pushing."""
        first, then = self.readers_pull, self.writers_pull
        if self.fault is Fault.NO_GRACE:
            first, then = then, first
        first.add(author)
        yield
        yield
        then.add(author)
        yield

    def to_push(self, author: int) -> Task:
        """Writers push again, every feed gets what it missed, and only then readers stop."""
        self.writers_pull.discard(author)
        yield
        if self.fault is not Fault.NO_BACKFILL:
            for viewer in self.followers(author):
                yield from self.reconcile(viewer, author)
        if author not in self.writers_pull:
            self.readers_pull.discard(author)
        yield

    def locked(self, name: Hashable) -> Task:
        """Wait for a lock and take it."""
        while name in self.locks:
            yield
        self.locks.add(name)

    # ------------------------------------------------------------------ reading

    def read(self, viewer: int) -> list[Entry]:
        """Return the chronological feed: cached, pulled, and the truth at and below the floor."""
        cached = self.feeds.get(viewer)
        if cached is None:
            return self.oracle(viewer)
        found = {i for i, ms in cached.entries.items() if ms > cached.floor}
        found |= {i for author in self.readers_pull for i in self.outboxes.get(author, {})}
        found |= {i for i, post in self.posts.items() if post.ms <= cached.floor}
        shown = (i for i in found if self.visible(viewer, self.posts[i]))
        return sorted(((self.posts[i].ms, i) for i in shown), reverse=True)

    # ------------------------------------------------------------------ what happens

    def step(self) -> bool:
        """Let one task do one step; False when there is none."""
        if not self.tasks:
            return False
        task = self.rng.choice(self.tasks)
        if next(task, "ended") == "ended":
            self.tasks.remove(task)
        return True

    def happen(self) -> None:
        """Let one thing happen, and start the task that follows from it."""
        rng, pair = self.rng, (self.rng.choice(VIEWERS), self.rng.choice(AUTHORS))
        viewer, author = pair
        weights = (35, 10, 7, 6, 17, 4, 2, 7, 7)
        match rng.choices(range(len(weights)), weights)[0]:
            case 0:
                self.write(author)
            case 1:
                self.follows.add(pair)
                self.tasks.append(self.reconcile(*pair))
            case 2:
                self.follows.discard(pair)
                self.tasks.append(self.reconcile(*pair))
            case 3 if self.posts:
                self.delete_or_restore(rng.choice(list(self.posts)))
            case 4:
                self.tasks.append(self.rebuild(viewer))
            case 5:
                self.feeds.pop(viewer, None)
            case 6:
                self.feeds.clear()
            case 7:
                self.tasks.append(self.switch(author, True))
            case 8:
                self.tasks.append(self.switch(author, False))

    def write(self, author: int) -> None:
        """Write a post: often in the last one's millisecond, sometimes with an older time."""
        self.now_ms += self.rng.choice([0, 0, 1, 1, 2])
        back = self.rng.randrange(5) if self.rng.random() < 0.1 else 0
        post_id = self.rng.randrange(1, 10**9)  # ids come in any order
        pulled = author in self.writers_pull
        self.posts[post_id] = Post(author, max(0, self.now_ms - back), pulled)
        self.tasks.append(self.fan_out(post_id))

    def delete_or_restore(self, post_id: int) -> None:
        """Delete a post, or bring it back to where it belongs."""
        post = self.posts[post_id]
        post.deleted = not post.deleted
        if not post.deleted:
            for viewer in self.followers(post.author):
                self.tasks.append(self.reconcile(viewer, post.author))

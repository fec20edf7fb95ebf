"""Histories: what people and machines do to the real stores, in an order that a seed invents.

A history is a list of events. What changes the truth, and every worker, is a task that runs step by
step between the other tasks (`stepping`); losses of cached lists happen at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import permutations
from random import Random
from typing import Any

from feed.errors import NotAllowed, NotFound
from feed.query import Mode
from mixer.page import Page
from snapshots.cursor import Cursor
from storage import graph, keys, outbox_events, posts, pressure, purge, users
from storage.author_delivery import delivery_of
from storage.connections import Connection
from storage.deliveries import Lane, lease
from tests import oracle
from tests.properties.service import A_MOMENT_S, Service
from tests.properties.stepping import Steps

PEOPLE = (2**62, 7, 1_000_003)  # everybody reads and writes; ids are the product's
EPOCH = datetime(2026, 1, 2, tzinfo=UTC)
SCROLL_LIMIT = 2  # short pages: much can happen before the last
STEPS_UNTIL_LOOK = 20  # at rest, until the relay looks for what is owed
FEW, MANY = 5, 1_000_000  # followers: below and above every threshold
LANES: tuple[Lane, ...] = ("fast", "slow")
WHOLE = 100  # a page that holds a whole feed
LOCKED_AFTER_S = 0.1  # what has not ended by then waits for a lock that another task holds

# How often each kind of event happens. Losses heal what went wrong before, so they are rare.
WEIGHTS = {
    "write": 24,
    "write_backdated": 4,
    "repost": 3,
    "quote": 1.5,
    "reply": 2,
    "delete": 4,
    "restore": 4,
    "follow": 5,
    "unfollow": 3,
    "block": 1.5,
    "unblock": 2,
    "mute": 1,
    "unmute": 1.5,
    "hide": 1,
    "unhide": 1,
    "leave": 0.3,
    "grow": 3,
    "shrink": 3,
    "press": 1.5,
    "relieve": 1,
    "pull_all": 0.5,
    "push_again": 2,
    "deliver": 24,
    "kill_worker": 2,
    "keep_house": 3,
    "rebuild_feed": 9,
    "rebuild_outbox": 3,
    "scroll": 2,
    "read": 6,
    "open_feed": 4,
    "turn_page": 8,
    "lose_feed": 2,
    "lose_outbox": 1,
    "lose_everything": 0.5,
    "dump": 2,
    "fail_over": 1,
    "go_inactive": 0.5,
}
# A history has some kinds often and others never: faults come of few things that meet often.
# Groce, Zhang, Eide, Chen, Regehr: Swarm Testing, ISSTA 2012.
FACTORS = (0, 1, 1, 4)
ALWAYS = ("write", "deliver", "push_again")


# Races that the protocol is made for, which chance alone comes upon too rarely. "!": tasks
# that do not dawdle go on before the next event.
MOTIFS = (
    "rebuild_feed! write! deliver! write",
    "write! deliver! unfollow! deliver! follow! deliver! unfollow! deliver! follow! deliver!",
    "unfollow! deliver! write! rebuild_feed! follow! deliver! write",
    "write deliver rebuild_feed lose_feed write rebuild_feed deliver write",
    "unfollow write deliver rebuild_feed follow deliver",
    "write deliver unfollow deliver follow deliver",
    "unfollow deliver write follow deliver unfollow deliver follow deliver",
    "write deliver block deliver unblock deliver",
    "unfollow deliver write follow deliver write deliver",
    "read! grow! deliver! write! deliver! deliver!",
    "grow! deliver! deliver! write! read! shrink! deliver! deliver! write! deliver!",
    "write grow deliver write deliver write deliver",
    "grow deliver deliver write deliver shrink deliver write deliver deliver write",
    "grow deliver deliver write shrink deliver grow deliver write deliver shrink deliver write",
    "grow deliver deliver write write shrink deliver rebuild_feed deliver write deliver",
    "grow deliver deliver write write delete shrink deliver restore deliver deliver",
    "grow deliver deliver write unfollow shrink deliver follow deliver write",
    "grow deliver deliver write rebuild_outbox write deliver write",
    "write write write write write deliver write_backdated rebuild_feed write deliver",
    "press write deliver read deliver relieve deliver keep_house write",
    "dump write deliver unfollow write deliver fail_over keep_house deliver read",
    "write deliver keep_house dump follow write deliver kill_worker fail_over write keep_house",
    "pull_all write rebuild_feed push_again write deliver push_again rebuild_feed write",
)
MOTIF_CHANCE = 0.1
HURRY = 40  # so many steps are taken without idling
EVERYTHING = 10  # or more, as the second number of `deliver`
BY_AUTHORS = ("write", "write_backdated", "grow", "shrink", "rebuild_outbox")
BY_MACHINES = ("deliver", "kill_worker", "keep_house", "delete", "restore")


@dataclass(frozen=True)
class Event:
    """One thing that happens: its kind, two people or posts by number, and the steps after it."""

    kind: str
    a: int
    b: int
    steps: int


def invented(seed: int, n_events: int) -> list[Event]:
    """Invent a history: the same for the same seed."""
    rng = Random(seed)
    weights = {
        kind: weight if kind in ALWAYS else weight * rng.choice(FACTORS)
        for kind, weight in WEIGHTS.items()
    }
    history: list[Event] = []
    while len(history) < n_events:
        if rng.random() < MOTIF_CHANCE:
            history += _motif(rng)
        else:
            (kind,) = rng.choices(list(weights), list(weights.values()))
            history.append(Event(kind, *(rng.randrange(12) for _ in range(3))))
    return history[:n_events]


def _motif(rng: Random) -> list[Event]:
    """Let one author and one reader do what races; what machines do is chosen anew each time."""
    author, reader = rng.sample(range(len(PEOPLE)), 2)
    author_of_reader = author - (author > reader)  # among the others
    events = []
    for word in rng.choice(MOTIFS).split():
        kind = word.rstrip("!")
        steps = HURRY if kind != word else rng.choice((0, 0, 3, 9))
        if kind in BY_AUTHORS:
            events.append(Event(kind, author, rng.randrange(3), steps))
        elif kind in BY_MACHINES:
            b = EVERYTHING if steps == HURRY else rng.randrange(12)
            events.append(Event(kind, rng.randrange(12), b, steps))
        else:
            events.append(Event(kind, reader, author_of_reader, steps))
    return events


@dataclass
class Scroll:
    """One person's scroll: where it goes on, and what came so far."""

    person: int
    next: Cursor | None
    got: list[int]


Write = Callable[..., Awaitable[Any]]


class World:
    """One history under way: the people, the tasks, and what must hold."""

    def __init__(self, service: Service, steps: Steps, limit: int) -> None:
        """Play on a service whose stores take `steps`; read `limit` posts a page."""
        self._limit = limit
        self._service = service
        self._steps = steps
        self._ms = 1_000
        self._posts: list[int] = []
        self._done: dict[str, list[tuple[Any, ...]]] = {}
        self._scrolls: list[Scroll] = []
        self._workers: list[asyncio.Task[None]] = []
        self._dumped: dict[bytes, bytes] | None = None
        self._outdated = False  # the server may hold lists of before
        self._n_changes = 0  # of what people may see, other than by new posts

    async def begin(self) -> None:
        """Empty the stores; let everybody be there, follow everybody and have a feed."""
        async with self._service.postgres.transaction() as connection:
            await connection.execute(FORGET_EVERYTHING, prepare=False)
            await connection.execute(PEOPLE_ARRIVE, [list(PEOPLE), FEW])
            await graph.follow_many(connection, list(permutations(PEOPLE, 2)))
            await connection.execute("DELETE FROM deliveries")  # there are no feeds yet
        self._service.redis.lose_everything()
        await self._service.housekeeping.check_restart()
        await self._service.housekeeping.mark()
        for person in PEOPLE:
            await self._service.rebuild_feed(person)

    async def happen(self, event: Event) -> None:
        """Let one thing happen, and some tasks go on."""
        await getattr(self, f"_{event.kind}")(event)
        if event.steps == HURRY:
            return await self._steps.hurry(HURRY)
        for _ in range(event.steps):
            await self._steps.step()
        return None

    async def come_to_rest(self) -> None:
        """Let every task end and every delivery be done."""
        await self._work_off()
        await self._service.housekeeping.check_restart()
        self._outdated = False
        await self._work_off()
        await self._service.housekeeping.mark()
        await self._service.under_lag.step()

    async def _work_off(self) -> None:
        jobs: dict[asyncio.Task[None], list[int]] = {}
        for _ in range(2_000):
            jobs = {job: ids for job, ids in jobs.items() if not job.done()}
            taken = {id for ids in jobs.values() for id in ids}
            if left := [id for id in await self._due(*LANES) if id not in taken]:
                jobs[self._work(self._service.deliver(left))] = left
            for _ in range(STEPS_UNTIL_LOOK):
                await self._steps.step(idle=False)
            if not left and not await self._steps.step(idle=False):
                await self._service.effects.drain()
                self._steps.check()
                if not await self._owed():
                    return
                await self._time_passes()
        raise AssertionError(f"deliveries never end: {await self._owed()}")

    async def deliver_everything_again(self) -> None:
        """Owe every delivery of this history once more."""
        async with self._service.postgres.connection() as connection:
            await connection.execute(OWE_AGAIN)
        await self.come_to_rest()

    # ------------------------------------------------------------------ promises

    async def check_complete(self) -> None:
        """Assert P1: at rest, pages to the end give the oracle's list, each post once, in order."""
        for person in PEOPLE:
            wanted = [entry.id for entry in await self._oracle(person)]
            got = await self._service.scroll(person, "chronological", self._limit)
            assert got == wanted, f"{person} reads {got} instead of {wanted}"
            look = await self._service.check.check(person)
            assert not look.harms, f"foryou check: {sorted(look.faults)}"

    async def _check_page(self, person: int, reading: Awaitable[Page]) -> Page:
        """Assert P3: nothing is served that the viewer may not see now, whatever caches hold."""
        before = await self._oracle(person)
        page = await self._undisturbed(reading)
        # Both, since a task that waited for a lock may go on while the page is read.
        allowed = {entry.id for entry in before + await self._oracle(person)}
        served = {item.post.id for item in page.items}
        assert served <= allowed, f"{person} is served {served - allowed}"
        return page

    async def _undisturbed(self, reading: Awaitable[Page]) -> Page:
        """Answer a request and do at once what it leaves to do, before anything else goes on."""
        before = asyncio.all_tasks()
        page = await reading
        left = asyncio.all_tasks() - before
        while left:
            _, left = await asyncio.wait(left, timeout=LOCKED_AFTER_S)
            if left:
                await self._steps.step(idle=False)
        return page

    async def _read_delivered(self, person: int) -> None:
        """Assert that a page holds what was delivered before it was asked for, or looked for.

        What is in the slow lane counts as delivered when readers pull its author; not for a
        request that did not know this yet.
        """
        wanted: set[int] = set()
        looks = [WHEN_ASKED, WHEN_LOOKED_FOR]

        async def look(*, at_lists: bool) -> None:
            if len(looks) == 2 or (looks and at_lists):
                rows = await self._steps.watch.execute(looks.pop(0), {"viewer": person})
                wanted.update(id for (id,) in await rows.fetchall())

        before = await self._situation()
        self._steps.before_steps(look)
        request = object()
        self._service.in_flight.add(request)
        try:
            page = await self._service.open(person, "chronological", WHOLE)
        finally:
            self._service.in_flight.discard(request)
        looks.clear()
        if lacks := wanted - set(_ids(page)):
            assert self._outdated or before != await self._situation(), f"{person} lacks {lacks}"

    async def _situation(self) -> tuple[Any, ...]:
        """Return what stays the same unless somebody changes what people may see."""
        rows = await self._steps.watch.execute("SELECT state, changed_at FROM delivery_state")
        return self._n_changes, await rows.fetchone()

    async def _oracle(self, person: int) -> list[oracle.Entry]:
        async with self._service.postgres.connection() as connection:
            return await oracle.home_feed(connection, person)

    # ------------------------------------------------------------------ people

    async def _write(self, event: Event) -> None:
        self._ms += event.b % 3
        self._post(event, ms=self._ms)

    async def _write_backdated(self, event: Event) -> None:
        self._post(event, ms=self._ms - event.b)

    async def _repost(self, event: Event) -> None:
        self._ms += event.b % 2
        self._post(event, ms=self._ms, repost_of=self._some_post(event.b))

    async def _quote(self, event: Event) -> None:
        self._post(event, ms=self._ms, repost_of=self._some_post(event.b), body="words")

    async def _reply(self, event: Event) -> None:
        self._post(event, ms=self._ms, reply_to=self._some_post(event.b))

    async def _delete(self, event: Event) -> None:
        await self._do("delete", posts.delete_post, None, self._some_post(event.a))

    async def _restore(self, event: Event) -> None:
        await self._undo("delete", posts.restore_post, event)

    async def _follow(self, event: Event) -> None:
        await self._undo("unfollow", graph.follow, event)

    async def _unfollow(self, event: Event) -> None:
        await self._do("unfollow", graph.unfollow, *_pair(event))

    async def _block(self, event: Event) -> None:
        await self._do("block", graph.block, *_pair(event))

    async def _unblock(self, event: Event) -> None:
        await self._undo("block", graph.unblock, event)

    async def _mute(self, event: Event) -> None:
        await self._do("mute", graph.mute, *_pair(event))

    async def _unmute(self, event: Event) -> None:
        await self._undo("mute", graph.unmute, event)

    async def _hide(self, event: Event) -> None:
        await self._do("hide", graph.hide, _person(event.a), self._some_post(event.b))

    async def _unhide(self, event: Event) -> None:
        await self._undo("hide", graph.unhide, event)

    async def _leave(self, event: Event) -> None:
        """Delete the account, and come back as a new one."""
        self._change(_left, _person(event.a), EPOCH)
        self._change(users.put_user, _person(event.a), "back")

    async def _go_inactive(self, event: Event) -> None:
        """Stay away until the feed has expired, and then so long that fan-out leaves one out."""
        await self._steps.finish()
        await self._lose_feed(event)
        async with self._service.postgres.connection() as connection:
            await connection.execute(GO_INACTIVE, [_person(event.a)])

    # ------------------------------------------------------------------ machines

    async def _grow(self, event: Event) -> None:
        self._change(_counted, _person(event.a), MANY)

    async def _shrink(self, event: Event) -> None:
        self._change(_counted, _person(event.a), FEW)

    async def _press(self, event: Event) -> None:
        """Let delivery be so late that those with few followers wait, too."""
        self._change(pressure.press, FEW)

    async def _relieve(self, event: Event) -> None:
        self._change(pressure.press, None)

    async def _pull_all(self, event: Event) -> None:
        """Let a process start that wants the whole product to be pulled."""
        self._steps.start(self._service.pulling.begin())

    async def _push_again(self, event: Event) -> None:
        """Let a process go on with its start that wants deliveries."""
        self._steps.start(self._service.housekeeping.begin())

    async def _keep_house(self, event: Event) -> None:
        """Do one of the things that a relay does each second."""
        house = self._service.housekeeping
        does = (house.check_restart, house.mark, self._service.under_lag.step)
        self._work(does[event.a % len(does)]())

    async def _deliver(self, event: Event) -> None:
        """Work on some of what is due, whoever else is at it: leases expire."""
        if event.steps % 4 == 0:
            await self._time_passes()
        everything = event.b >= EVERYTHING
        if due := await self._due(*LANES if everything else (LANES[event.a % 4 == 0],)):
            first = 0 if everything else event.a % len(due)
            n = len(due) if everything else 1 + event.b % 3
            self._work(self._service.deliver(due[first : first + n]), dawdle=event.a % 3 == 0)

    async def _kill_worker(self, event: Event) -> None:
        self._workers = [worker for worker in self._workers if not worker.done()]
        if self._workers:
            await self._steps.kill(self._workers[event.a % len(self._workers)])

    async def _rebuild_feed(self, event: Event) -> None:
        await self._lose_feed(event)
        self._work(self._service.rebuild_feed(_person(event.a)), dawdle=event.b % 2 == 0)

    async def _rebuild_outbox(self, event: Event) -> None:
        await self._lose_outbox(event)
        self._work(self._service.rebuild_outbox(_person(event.a)), dawdle=event.b % 2 == 0)

    async def _scroll(self, event: Event) -> None:
        """Scroll step by step between the others: what it leaves behind must do no harm."""
        self._steps.start(self._service.scroll(_person(event.a), _mode(event), self._limit))

    async def _read(self, event: Event) -> None:
        """Read step by step: what was delivered before is there."""
        self._steps.start(self._read_delivered(_person(event.a)), dawdle=True)

    async def _open_feed(self, event: Event) -> None:
        person = _person(event.a)
        opening = self._service.open(person, _mode(event), SCROLL_LIMIT)
        page = await self._check_page(person, opening)
        self._scrolls.append(Scroll(person, page.next, _ids(page)))

    async def _turn_page(self, event: Event) -> None:
        """Go on with a scroll that was begun some time ago."""
        on = [scroll for scroll in self._scrolls if scroll.next is not None]
        if not on:
            return await self._open_feed(event)
        scroll = on[-1 - event.a % len(on)]
        assert scroll.next is not None
        page = await self._check_page(scroll.person, self._service.next(scroll.next, SCROLL_LIMIT))
        again = set(_ids(page)) & set(scroll.got)
        assert not again, f"{scroll.person} is served {again} again"
        scroll.next = page.next
        scroll.got += _ids(page)
        return None

    async def _lose_feed(self, event: Event) -> None:
        await self._service.redis.delete(keys.feed(_person(event.a)))

    async def _lose_outbox(self, event: Event) -> None:
        await self._service.redis.delete(keys.outbox(_person(event.a)))

    async def _lose_everything(self, event: Event) -> None:
        self._service.redis.lose_everything()

    async def _dump(self, event: Event) -> None:
        self._dumped = self._service.redis.dumped()

    async def _fail_over(self, event: Event) -> None:
        """Go on with another server, on which the lists are as they were a while ago."""
        if self._dumped is not None:
            self._outdated = True
            self._service.redis.fail_over(self._dumped)

    # ------------------------------------------------------------------ how

    def _post(self, event: Event, *, ms: int, **more: Any) -> None:
        # Ids in any order, as a product brings them: the order of posts must not follow theirs.
        post_id = 1 + (len(self._posts) * 7_919 + event.b * 104_729) % 1_000_003
        if post_id not in self._posts:
            self._posts.append(post_id)
            self._change(written, post_id, _person(event.a), ms, more)

    async def _do(self, kind: str, write: Write, *what: Any) -> None:
        """Do something that can be undone."""
        if what[-1] is not None:
            self._done.setdefault(kind, []).append(what)
            self._change(write, *what)

    async def _undo(self, kind: str, write: Write, event: Event, *how: Any) -> None:
        """Undo one of the things of this kind that were done."""
        if done := self._done.get(kind):
            self._change(write, *done.pop(event.a % len(done)), *how)

    def _change(self, write: Write, *values: Any) -> None:
        self._steps.start(self._changed(write, *values))

    async def _changed(self, write: Write, *values: Any) -> None:
        # A post that is not committed yet cannot be deleted: there is no such post.
        with suppress(NotFound, NotAllowed):
            async with self._service.postgres.transaction() as connection:
                await write(connection, *values)
            self._n_changes += write not in (written, _counted, pressure.press)

    def _work(
        self, work: Coroutine[Any, Any, None], *, dawdle: bool = False
    ) -> "asyncio.Task[None]":
        self._workers.append(self._steps.start(work, dawdle=dawdle))
        return self._workers[-1]

    async def _due(self, *lanes: Lane) -> list[int]:
        """Lease what is due, as the relay does, for no more than a moment."""
        async with self._service.postgres.connection() as connection:
            leased = [
                await lease(connection, lane, limit=100, lease_s=A_MOMENT_S) for lane in lanes
            ]
        return [each.id for some in leased for each in some]

    async def _time_passes(self) -> None:
        """Let every wait be over."""
        async with self._service.postgres.connection() as connection:
            await connection.execute(TIME_PASSES)

    async def _owed(self) -> list[int]:
        """Return what is owed; nothing has failed but for a server."""
        async with self._service.postgres.connection() as connection:
            rows = await (await connection.execute(OWED)).fetchall()
        errors = [error for _, error in rows if error and not error.startswith("Unavailable")]
        assert not errors, errors
        return [delivery for delivery, _ in rows]

    def _some_post(self, number: int) -> int | None:
        return self._posts[-1 - number % len(self._posts)] if self._posts else None


# Far quicker than TRUNCATE, which makes new files and has every plan made anew.
FORGET_EVERYTHING = """
DELETE FROM deliveries;
DELETE FROM outbox_events;
DELETE FROM delivery_receipts;
DELETE FROM author_delivery;
DELETE FROM served;
DELETE FROM affinity;
DELETE FROM engagement_deltas;
DELETE FROM hidden_posts;
DELETE FROM mutes;
DELETE FROM blocks;
DELETE FROM follower_deltas;
DELETE FROM follows;
DELETE FROM post_stats;
DELETE FROM posts;
DELETE FROM user_activity;
DELETE FROM users;
UPDATE delivery_state SET state = 'hybrid' WHERE state <> 'hybrid';
UPDATE delivery_pressure SET threshold = NULL WHERE threshold IS NOT NULL;
"""
PEOPLE_ARRIVE = """
WITH person AS (SELECT unnest(%s::bigint[]) AS id), named AS (
    INSERT INTO users (id, name, follower_count) SELECT id, 'user ' || id, %s FROM person
)
INSERT INTO user_activity (user_id, last_seen_at) SELECT id, now() FROM person
"""
GO_INACTIVE = (
    "UPDATE user_activity SET last_seen_at = now() - interval '31 days' WHERE user_id = %s"
)
OWED = "SELECT id, error FROM deliveries ORDER BY id"
# A backfill names a state of its author that is over; a switch that is owed begins a new one.
# What a worker holds is left: this is no step, and would wait for a worker that waits for it.
TIME_PASSES = """
UPDATE deliveries SET due_at = now() WHERE id IN (
    SELECT id FROM deliveries WHERE due_at > now() FOR UPDATE SKIP LOCKED)
"""
OWE_AGAIN = """
INSERT INTO deliveries (event_id) SELECT id FROM outbox_events WHERE type <> 'author.backfill'
"""
# What a reader must get: what was delivered, and, since they are read from Postgres, the own posts.
# Of authors who are PULLED no delivery but the first counts.
SEEN = f"""
SELECT p.id FROM ({oracle.HOME_FEED}) AS feed (ms, id) JOIN posts p ON p.id = feed.id
WHERE CASE WHEN p.author_id = %(viewer)s THEN OWN ELSE NOT EXISTS (
    SELECT FROM deliveries d JOIN outbox_events e ON e.id = d.event_id
    WHERE (e.type IN ('post.created', 'post.restored') AND e.payload ->> 'post_id' = p.id::text
           AND (d.lane = 'fast' OR p.author_id <> ALL (PULLED)))
       OR (e.type = 'relation.changed' AND e.payload ->> 'viewer_id' = %(viewer)s::text
           AND e.payload ->> 'author_id' = p.author_id::text)
) END
"""  # noqa: S608
WHEN_ASKED = SEEN.replace("OWN", "true").replace(
    "(PULLED)", "(ARRAY(SELECT author_id FROM author_delivery WHERE readers_pull))"
)
WHEN_LOOKED_FOR = SEEN.replace("OWN", "false").replace("(PULLED)", "('{}'::bigint[])")


async def written(
    connection: Connection, post_id: int, author_id: int, ms: int, more: dict[str, Any]
) -> None:
    """Write a post as the api does; `more` names its parents, or has its words."""
    await users.ensure_user(connection, author_id)
    at = EPOCH + timedelta(milliseconds=ms)
    post = posts.NewPost(
        id=post_id,
        author_id=author_id,
        created_at=at,
        received_at=at,
        effective_ms=ms,
        delivery=await delivery_of(connection, author_id),
        **{"body": "", **more},
    )
    await posts.insert_post(connection, post)


async def _counted(connection: Connection, author_id: int, followers: int) -> None:
    """Fold a new follower count, as housekeeping does, and say that it crossed a threshold."""
    await connection.execute(
        "UPDATE users SET follower_count = %s WHERE id = %s", (followers, author_id)
    )
    await outbox_events.append(
        connection, "follower_count", author_id, "author.crossed", {"author_id": author_id}
    )


async def _left(connection: Connection, person: int, now: datetime) -> None:
    await purge.delete_user(connection, person, actor_id=person, now=now)


def _ids(page: Page) -> list[int]:
    return [item.post.id for item in page.items]


def _person(number: int) -> int:
    return PEOPLE[number % len(PEOPLE)]


def _pair(event: Event) -> tuple[int, int]:
    """Return two different people."""
    one = _person(event.a)
    others = [person for person in PEOPLE if person != one]
    return one, others[event.b % len(others)]


def _mode(event: Event) -> Mode:
    return "ranked" if event.b % 3 else "chronological"

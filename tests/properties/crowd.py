"""Some people over HTTP who write, like, leave, block, hide and undo it, while others scroll.

Everything is chosen by a seed. The oracle is asked before and after what takes posts away, so that
each scroll knows which posts its reader could see all the time.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any, Protocol
from uuid import UUID

from tests import oracle
from tests.deeds import DEEDS, Call, Deed, Scene
from tests.properties.nodes import Nodes

N_PEOPLE = 7
SIZES_AT_OPEN = (0, 3, 9, 14, 20, 30)
MANY = 1_000  # followers: from here up an author is pulled
HOURS = 20  # posts of the beginning are so old, at most
DONE = (200, 202, 204)
REFUSED = (403, 404, 422)  # somebody left or is blocked; nobody can do some things to themselves

# How often each kind of thing happens between two pages.
WEIGHTS = {
    "write": 6,
    "repost": 3,
    "reply": 1,
    "import_old": 2,
    "like": 3,
    "look": 2,
    "take_away": 5,
    "give_back": 5,
    "follow": 1,
    "opt_out": 0.5,
    "leave": 0.15,
    "settle": 6,
    "swap": 2,
    "expire": 3,
    "evict": 1.5,
    "flush": 1.5,
}
# Some kinds are often in one crowd and never in another: faults come of few things that meet often.
FACTORS = (0, 1, 1, 4)
ALWAYS = ("settle", "give_back")
MEANWHILE = (0, 0, 1, 1, 2, 3)  # things between two pages


class Watcher(Protocol):
    """Whoever must know which of a reader's posts were gone for a while."""

    reader: int
    gone: set[int]


class Crowd:
    """People with ids of their own; the first two read."""

    def __init__(self, nodes: Nodes, seed: int) -> None:
        self.nodes = nodes
        self.rng = Random(f"{nodes.kind} {seed}")
        self.people = range(seed * 100 + 1, seed * 100 + 1 + N_PEOPLE)
        self.readers = self.people[:2]
        self.author: dict[int, int] = {}
        self.shows: dict[int, int] = {}
        self.watchers: list[Watcher] = []
        self.told: list[str] = []
        self.slates: dict[str, Any] = {}  # those that were seen and are not lost
        self.n_taken = 0
        self._done: list[tuple[Deed, Scene]] = []
        self._left: set[int] = set()
        self._settled = True
        self._ids = count(seed * 100_000 + 1)
        self._start = datetime.now(UTC) - timedelta(hours=HOURS + 1)
        self._weights = {
            kind: weight if kind in ALWAYS else weight * self.rng.choice(FACTORS)
            for kind, weight in WEIGHTS.items()
        }

    @property
    def settled(self) -> bool:
        """Whether everything that was written is delivered, as far as readers need that."""
        return self._settled or self.nodes.settings.delivery == "pull"

    async def begin(self) -> None:
        """Let people come, follow, write before and after the readers' lists are made, and like."""
        rng, n = self.rng, self.rng.choice(SIZES_AT_OPEN)
        await self.nodes.first.people(*self.people)
        await self._follow_some()
        if rng.random() < 0.4:
            await self.nodes.delivery.cross(MANY, rng.choice(self.people[2:]))
        await self._write_old(n // 2)
        await self.nodes.settle()
        for reader in self.readers:
            if rng.random() < 0.7:
                await self.nodes.get(self.nodes.first, "/feed", reader)
        await self.nodes.side_effects()
        await self._write_old(n - n // 2)
        for _ in range(rng.randrange(4)):
            await self._like()
        await self.settle()

    async def meanwhile(self) -> None:
        """Let some things happen."""
        for _ in range(self.rng.choice(MEANWHILE)):
            (kind,) = self.rng.choices(list(self._weights), list(self._weights.values()))
            self.nodes.counts[kind] += 1
            await getattr(self, f"_{kind}", self.settle)()

    async def feed(self, reader: int) -> list[oracle.Entry]:
        """Return what a reader must see now, newest first."""
        async with self.nodes.delivery.postgres.connection() as connection:
            return await oracle.home_feed(connection, reader)

    async def may_see(self, reader: int, ids: set[int]) -> set[int]:
        """Return those of these posts that may be shown to a reader, as discoveries at least."""
        async with self.nodes.delivery.postgres.connection() as connection:
            return await oracle.may_see(connection, reader, ids)

    # ------------------------------------------------------------------ people

    async def _write(self) -> None:
        author = self._somebody()
        post = int(await self.nodes.first.post(author, "words"))
        self._wrote(post, author, post)

    async def _repost(self) -> None:
        if self.author:
            quotes = self.rng.random() < 0.3  # a quote shows its own words
            parent = self._some_post()
            await self._ingest_post(repost_of=parent, body="a quote" if quotes else "")

    async def _reply(self) -> None:
        if self.author:
            await self._ingest_post(reply_to=self._some_post(), body="an answer")

    async def _import_old(self) -> None:
        """Bring a post of some hours ago: it is where its time says, if that is still ahead."""
        await self._ingest_post(body="old", created_at=self._long_ago())

    async def _like(self) -> None:
        """Let everybody like one post, and answer it somewhere else; it counts at once."""
        if self.author:
            post = self._some_post()
            lines = [
                self._event(person, kind, post)
                for person in self.people
                for kind in ("like", "comment")
            ]
            await self.nodes.first.ingest(*lines)
            await self.nodes.aggregate()
            self._tell(f"all like {post}")

    async def _look(self) -> None:
        """Have some posts on a reader's screen."""
        if self.author:
            reader, n = self.rng.choice(self.readers), min(3, len(self.author))
            posts = self.rng.sample(sorted(self.author), n)
            await self.nodes.first.ingest(
                *(self._event(reader, "impression", post) for post in posts)
            )

    async def _take_away(self) -> None:
        """Delete or hide a post, or break with its author."""
        if not self.author:
            return
        post, reader = self._some_post(), self.rng.choice(self.readers)
        scene, deed = Scene(reader, self.author[post], post), self.rng.choice(DEEDS)
        if await self._watched(deed.done(scene)):
            self._done.append((deed, scene))
            self._tell(f"{deed.name} {scene}")

    async def _give_back(self) -> None:
        if self._done:
            deed, scene = self._done.pop(self.rng.randrange(len(self._done)))
            await self._call(deed.undone(scene))
            self._tell(f"no more {deed.name} {scene}")

    async def _follow(self) -> None:
        reader, author = self.rng.choice(self.readers), self.rng.choice(self.people)
        await self._call(Call("PUT", f"/follows/{author}", reader))
        self._tell(f"{reader} follows {author}")

    async def _opt_out(self) -> None:
        choice = {"discoverable": self.rng.random() < 0.5}
        await self._call(Call("PUT", "/preferences/discovery", self._somebody(), choice))

    async def _leave(self) -> None:
        """Delete an account; nobody comes back."""
        person = self.rng.choice(self.people[2:])
        if len(self._left | {person}) <= 2 and person not in self._left:
            self._left.add(person)
            await self._watched(Call("DELETE", f"/users/{person}", person))
            self._tell(f"{person} leaves")

    # ------------------------------------------------------------------ machines

    async def settle(self) -> None:
        """Let everything be delivered."""
        await self.nodes.settle()
        self._settled = True
        self._tell("all is delivered")

    async def _swap(self) -> None:
        self.nodes.swap_profile(self.rng.randrange(3))

    async def _expire(self) -> None:
        await self.nodes.side_effects()
        await self.nodes.expire()
        self._lose("expired", set(self.slates))

    async def _evict(self) -> None:
        await self.nodes.side_effects()
        self._lose("evicted", await self.nodes.evict(self.rng))

    async def _flush(self) -> None:
        await self.nodes.side_effects()
        await self.nodes.flush()
        self._lose("flushed", set(self.slates))

    # ------------------------------------------------------------------ how

    def _lose(self, how: str, snapshots: set[str]) -> None:
        for snapshot in snapshots:
            self.slates.pop(snapshot, None)
        self._tell(how)

    async def _follow_some(self) -> None:
        edges = [
            (reader, author)
            for reader in self.readers
            for author in self.rng.sample(self._others(reader), self.rng.randrange(1, N_PEOPLE - 1))
        ]
        await self.nodes.first.ingest(
            *({"kind": "follow", "follower_id": a, "followee_id": b} for a, b in edges)
        )

    async def _write_old(self, n: int) -> None:
        lines = []
        for _ in range(n):
            more: dict[str, Any] = {"body": "words"}
            if self.author and self.rng.random() < 0.3:
                quote = self.rng.choice(("", "", "a quote"))
                more = {"repost_of": self._some_post(), "body": quote}
            elif self.author and self.rng.random() < 0.15:
                more["reply_to"] = self._some_post()
            lines.append(self._line(created_at=self._long_ago(), **more))
        assert not (await self.nodes.first.ingest(*lines))["rejected"]

    async def _ingest_post(self, **fields: Any) -> None:
        """Write a post; somebody who is blocked cannot repost it, nor anybody what is deleted."""
        line = self._line(**fields)
        if not (await self.nodes.first.ingest(line))["accepted"]:
            del self.author[line["id"]], self.shows[line["id"]]

    def _line(self, **fields: Any) -> dict[str, Any]:
        author, post = self._somebody(), next(self._ids)
        if self.rng.random() < 0.3:
            post += 50_000  # ids say nothing of the order
        plain = "repost_of" in fields and not fields["body"]
        self._wrote(post, author, self.shows[fields["repost_of"]] if plain else post)
        return {"kind": "post", "author_id": author, "id": post, **fields}

    def _wrote(self, post: int, author: int, shows: int) -> None:
        self.author[post], self.shows[post] = author, shows
        self._settled = False
        self._tell(f"{author} writes {post}" + (f" showing {shows}" if shows != post else ""))

    def _event(self, person: int, kind: str, post: int) -> dict[str, Any]:
        return {
            "kind": "event",
            "viewer_id": str(person),
            "event_id": str(UUID(int=self.rng.getrandbits(128), version=4)),
            "type": kind,
            "post_id": str(post),
            "at": datetime.now(UTC).isoformat(),
        }

    async def _watched(self, call: Call) -> bool:
        """Do what may take posts away, and let the scrolls know which."""
        before = [{entry.id for entry in await self.feed(each.reader)} for each in self.watchers]
        self.n_taken += 1
        done = await self._call(call)
        for each, had in zip(self.watchers, before, strict=True):
            each.gone |= had - {entry.id for entry in await self.feed(each.reader)}
        return done

    async def _call(self, call: Call) -> bool:
        """Call either node; return whether it was done."""
        node: Callable[..., Awaitable[Any]] = self.rng.choice(self.nodes.clients).call
        answer = await node(call.method, call.path, call.user, call.body)
        assert answer.status_code in DONE + REFUSED, f"{call}: {answer.text}"
        self._settled = False
        return answer.status_code in DONE

    def _others(self, person: int) -> list[int]:
        return [other for other in self.people if other != person]

    def _somebody(self) -> int:
        return self.rng.choice([person for person in self.people if person not in self._left])

    def _some_post(self) -> int:
        return self.rng.choice(list(self.author))

    def _long_ago(self) -> str:
        ago = timedelta(hours=self.rng.randrange(HOURS), milliseconds=self.rng.randrange(2))
        return (self._start + ago).isoformat()

    def _tell(self, what: str) -> None:
        self.told.append(what)

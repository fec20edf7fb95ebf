"""A reader scrolls, while others write, Redis is emptied and processes are killed."""

import itertools
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from uuid import uuid4

import pytest

from tests.e2e.product import Product, eventually, in_network

pytestmark = pytest.mark.e2e

worlds = itertools.count(1)


@dataclass(frozen=True)
class World:
    """A small network of its own: a reader, whom it follows, and the feed that is right."""

    reader: int
    followed: list[int]
    expected: list[str]


@pytest.fixture
def world(product: Product) -> World:
    """Make twelve authors, six of them followed, and 300 posts, three to a millisecond."""
    reader = 9_000_000 + 1_000 * next(worlds)
    authors = [reader + n for n in range(1, 13)]
    followed = authors[::2]
    now_ms = int(time.time() * 1000)
    posts = [
        (reader * 1_000 + n, authors[n * 7 % 12], now_ms - 600_000 - n // 3) for n in range(300)
    ]
    users = [{"kind": "user", "id": str(user), "name": f"u{user}"} for user in (reader, *authors)]
    follows = [
        {"kind": "follow", "follower_id": str(reader), "followee_id": str(author)}
        for author in followed
    ]
    product.ingest([*users, *follows, *(_post(*post) for post in posts)])
    order = sorted(posts, key=lambda post: (post[2], post[0]), reverse=True)
    expected = [str(post_id) for post_id, author, _ in order if author in followed]
    world = World(reader, followed, expected)
    eventually(lambda: set(product.walk(reader, "chronological")) == set(expected))
    return world


def _post(post_id: int, author: int, ms: int) -> dict[str, str]:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000))
    return {
        "kind": "post",
        "id": str(post_id),
        "author_id": str(author),
        "body": f"post {post_id}",
        "created_at": f"{seconds}.{ms % 1000:03d}Z",
    }


def test_a_chronological_scroll_is_the_oracles_list_in_its_order(
    product: Product, world: World
) -> None:
    assert product.walk(world.reader, "chronological", limit=7) == world.expected


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
def test_a_scroll_gives_every_post_once_while_posts_are_written(
    product: Product, world: World, mode: str
) -> None:
    seen: list[str] = []
    for n, page in enumerate(product.pages(world.reader, mode, limit=20)):
        seen += in_network(page)
        product.post(world.followed[n % 6], f"between two pages: {n}")
    assert len(seen) == len(set(seen))
    assert set(world.expected) <= set(seen)


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
def test_an_emptied_redis_between_two_pages_loses_and_repeats_nothing(
    product: Product, world: World, mode: str
) -> None:
    seen: list[str] = []
    for n, page in enumerate(product.pages(world.reader, mode, limit=20)):
        seen += in_network(page)
        if n in (1, 4):
            product.flush_redis()
    assert len(seen) == len(set(seen))
    assert set(seen) == set(world.expected)
    assert set(product.walk(world.reader, mode)) == set(world.expected)


def test_a_thousand_posts_arrive_once_though_worker_and_relay_are_killed_amid_them(
    product: Product, world: World
) -> None:
    written: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        for n, post in enumerate(
            pool.map(lambda n: product.post(world.followed[n % 6], f"n {n}"), range(1_000))
        ):
            written.append(post)
            if n in (300, 600):
                product.signal("worker-fast", signal.SIGKILL)
                product.signal("relay", signal.SIGKILL)
    everything = {*written, *world.expected}
    eventually(lambda: everything <= set(product.walk(world.reader, "chronological")), 60)
    for mode in ("chronological", "ranked"):
        seen = product.walk(world.reader, mode)
        assert len(seen) == len(set(seen))
        assert set(seen) == everything


@pytest.mark.parametrize("mode", ["ranked", "chronological"])
def test_an_author_sees_the_own_post_at_once_though_every_worker_stands_still(
    product: Product, world: World, mode: str
) -> None:
    author = world.followed[0]
    product.walk(author, mode)
    stopped = {name: product.pids()[name] for name in ("worker-fast", "worker-slow", "relay")}
    try:
        for name in stopped:
            product.signal(name, signal.SIGSTOP)
        post = product.post(author, "mine")
        assert post in product.walk(author, mode)
    finally:
        for name in stopped:
            product.signal(name, signal.SIGCONT)


def test_a_like_moves_a_post_in_the_next_open_and_never_inside_an_open_snapshot(
    product: Product, world: World
) -> None:
    pages = product.pages(world.reader, "ranked", limit=20)
    before = in_network(next(pages))
    again = product.walk(world.reader, "ranked")
    liked = again[-1]
    like = {"event_id": str(uuid4()), "type": "like", "post_id": liked, "at": _now()}
    for fan in world.followed:
        answer = product.call("POST", "/events", fan, json={"events": [like]})
        assert answer.status_code == 202 and answer.json()["accepted"] == 1, answer.text
    eventually(lambda: product.walk(world.reader, "ranked").index(liked) < again.index(liked))
    for page in pages:
        before += in_network(page)
    assert before == again


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())

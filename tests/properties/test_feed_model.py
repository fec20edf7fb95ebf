"""The model of cached feeds keeps promise P1, and every deliberate fault is caught."""

from random import Random

import pytest

from tests.properties.feed_model import VIEWERS, Fault, World

EVENTS = 60


def check_pulled_posts(world: World) -> None:
    """Assert that a pulled post in its author's outbox is visible to every follower at once."""
    for viewer in VIEWERS:
        shown = {post_id for _, post_id in world.read(viewer)}
        for author in world.writers_pull:
            for post_id in world.outboxes.get(author, {}):
                post = world.posts[post_id]
                if post.pulled and world.visible(viewer, post):
                    assert post_id in shown, "a pulled post is not visible"


def check_history(seed: int, fault: Fault | None = None) -> None:
    world = World(Random(seed), fault)
    for _ in range(EVENTS):
        world.happen()
        for _ in range(world.rng.randrange(4)):
            world.step()
            check_pulled_posts(world)
    while world.step():
        pass
    for viewer in VIEWERS:
        assert world.read(viewer) == world.oracle(viewer)


def test_at_rest_a_read_equals_the_oracle() -> None:
    for seed in range(1_000):
        check_history(seed)


@pytest.mark.parametrize("fault", Fault)
def test_every_fault_is_caught(fault: Fault) -> None:
    with pytest.raises(AssertionError):
        for seed in range(1_000):
            check_history(seed, fault)

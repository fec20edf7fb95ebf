"""Why an item is here, in plain words."""

from datetime import UTC, datetime
from typing import Any

import pytest

from api.reasons import reason
from mixer.page import Item
from storage.page import PostRow

VIEWER, NAMES = 1, {1: "Me", 2: "Ada", 3: "Bob", 4: "Cy", 5: "Di"}


def row(author: int, **fields: Any) -> PostRow:
    given = {
        "id": 7, "author_id": author, "author_name": NAMES[author], "body": "words",
        "format": "text", "media": [], "lang": None, "created_at": datetime.now(UTC),
        "edited_at": None, "repost_of": None, "reply_to": None, "likes": 0, "comments": 0,
        "reposts": 0, "liked": False, "seen": False, "ms": 0, "in_network": True,
        "original_author_id": None, "original_author_name": None, "original_body": None,
        "original_format": None, "original_media": None, "original_created_at": None,
    }  # fmt: skip
    return PostRow(**{**given, **fields})


def reposts(*authors: int) -> tuple[PostRow, ...]:
    return tuple(row(author, body="", repost_of=9) for author in authors)


OUTSIDE = {"in_network": False}


@pytest.mark.parametrize(
    ("post", "source", "reposted_by", "sentence"),
    [
        (row(1), "own_posts", (), "Your own post"),
        (row(2), "pushed_feed", (), "You follow Ada"),
        (row(2), "author_outbox", (), "You follow Ada"),
        (row(2), "below_floor", (), "You follow Ada"),
        (row(2, repost_of=9), "pushed_feed", (), "You follow Ada"),  # a quote has its own words
        (row(2, **OUTSIDE), "popular", (), "Popular right now"),
        (row(2, **OUTSIDE), "network_likes", (), "Liked by people you follow"),
        (row(2), "popular", (), "You follow Ada"),  # since the feed was opened
        *[
            (reposts(by[0])[0], "pushed_feed", reposts(*by), sentence)
            for by, sentence in [
                ((2,), "Ada reposted this"),
                ((3, 2), "Bob and Ada reposted this"),
                ((2, 3, 4), "Ada, Bob and 1 other reposted this"),
                ((2, 3, 4, 5), "Ada, Bob and 2 others reposted this"),
                ((2, 2), "Ada reposted this"),
                ((2, 1), "You and Ada reposted this"),
                ((1,), "You reposted this"),
            ]
        ],
        (reposts(2)[0], "below_floor", (), "Ada reposted this"),  # in order of time
    ],
)
def test_each_item_says_why_it_is_here(
    post: PostRow, source: str, reposted_by: tuple[PostRow, ...], sentence: str
) -> None:
    assert reason(Item(post, source, 0, reposted_by), VIEWER) == sentence

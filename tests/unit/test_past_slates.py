"""A past becomes slates that people could have seen: nothing sampled, nothing known too early."""

from pathlib import Path

import numpy as np
import pytest

from feed.errors import Invalid
from feed.order import Ids
from feed.settings import Settings
from training.history import ANONYMOUS, read_history
from training.past_slates import Slates, slates
from training.tally import Tally

POSTS = """id,author_id,created_at,body,repost_of,reply_to
1,10,2026-01-01T10:00:00Z,hello,,
2,11,2026-01-01T10:05:00Z,,1,
3,12,2026-01-01T10:10:00Z,because,,1
4,10,2026-01-01T11:00:00Z,again,,
"""
LIKES = """viewer_id,post_id,type,at
13,1,like,2026-01-01T10:59:00Z
13,1,comment,2026-01-01T11:02:00Z
13,4,like,2026-01-01T11:03:00Z
,4,like,2026-01-01T11:30:00Z
13,2,like,2026-01-01T12:00:00Z
13,2,impression,2026-01-01T12:00:01Z
13,99,like,2026-01-01T12:01:00Z
10,4,like,2026-01-01T12:02:00Z
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "posts.csv").write_text(POSTS)
    (tmp_path / "engagements.csv").write_text(LIKES)
    (tmp_path / "follows.csv").write_text("follower_id,followee_id,created_at\n")
    return tmp_path


def slate(found: Slates, visit: int, ids: Ids) -> list[tuple[int, int]]:
    rows = found.visit == visit
    return list(zip(ids[found.post[rows]].tolist(), found.label[rows].tolist(), strict=True))


def test_replies_and_reposts_are_comments_and_shares(folder: Path) -> None:
    acts = read_history(folder).acts
    told = list(zip(acts.viewer.tolist(), acts.grade.tolist(), strict=True))
    assert told[:3] == [(11, 4), (12, 3), (13, 2)]
    assert (ANONYMOUS, 2) in told and len(told) == 8  # an impression is no act, 99 is no post


def test_a_slate_holds_what_stood_there_before_the_visit(folder: Path) -> None:
    history = read_history(folder)
    found = slates(history, settings=Settings(candidates=2))
    ids = history.posts.ids
    viewers = found.visits.viewer.tolist()
    assert viewers == [11, 12, 13, 13, 10]
    # 13 comes at 10:59: post 4 is not written yet, post 1 has no room.
    assert slate(found, 2, ids) == [(3, 0), (2, 0)]
    # 13 comes again at 12:00 and likes post 2.
    assert slate(found, 3, ids) == [(4, 0), (3, 0)]
    # 10 sees no post of their own, and what they did about one counts for nothing.
    assert slate(found, 4, ids) == [(3, 0), (2, 0)]
    # Out of reach of 13: post 1 twice and post 2, which had no room, and post 4, not yet written.
    assert found.n_out_of_reach == 4


def test_the_best_of_what_was_done_is_the_label(folder: Path) -> None:
    history = read_history(folder)
    found = slates(history, settings=Settings(candidates=5))
    assert slate(found, 2, history.posts.ids) == [(3, 0), (2, 0), (1, 3)]
    assert slate(found, 3, history.posts.ids) == [(4, 0), (3, 0), (2, 2), (1, 0)]


def test_a_slate_of_a_network_holds_followed_authors_and_what_is_popular(folder: Path) -> None:
    history = read_history(folder)
    found = slates(history, "network", Settings(popular_from=3.0))
    ids = history.posts.ids
    # At 10:59 nobody is followed; of the originals only post 1 was shared and answered.
    assert slate(found, 2, ids) == [(1, 3)]
    assert not found.followed.any()
    (folder / "follows.csv").write_text(
        "follower_id,followee_id,created_at\n13,11,2026-01-01T10:58:00Z\n13,12,2026-01-01T11:00:00Z\n"
    )
    found = slates(read_history(folder), "network", Settings(popular_from=3.0))
    assert slate(found, 2, ids) == [(2, 0), (1, 3)]
    # At 12:00 post 3 comes from whom 13 follows meanwhile; the two likes of post 4 are too few.
    assert slate(found, 3, ids) == [(3, 0), (2, 2), (1, 0)]
    assert found.followed[found.visit == 3].tolist() == [True, True, False]


def test_what_is_popular_fades_and_gives_each_author_two_places(tmp_path: Path) -> None:
    rows = [f"{n},10,2026-01-01T0{n}:00:00Z,x,," for n in range(1, 5)]
    head = "id,author_id,created_at,body,repost_of,reply_to\n"
    (tmp_path / "posts.csv").write_text(head + "\n".join(rows))
    likes = [f"9,{n},comment,2026-01-01T0{n}:30:00Z" for n in range(1, 5)]
    likes.append("13,4,like,2026-01-01T05:00:00Z")
    (tmp_path / "engagements.csv").write_text("viewer_id,post_id,type,at\n" + "\n".join(likes))
    (tmp_path / "follows.csv").write_text("follower_id,followee_id,created_at\n")
    history = read_history(tmp_path)
    last = len(slates(history).visits.viewer) - 1
    # At 5:00 the comments of 1:30 and 2:30 count 2.0 and 2.2, those of 3:30 and 4:30 2.5 and 2.8.
    for least, wanted in ((1.0, [4, 3]), (2.6, [4]), (2.9, [])):
        found = slates(history, "network", Settings(popular_from=least))
        assert [post for post, _ in slate(found, last, history.posts.ids)] == wanted


def test_a_file_that_is_missing_or_unreadable_is_named(folder: Path) -> None:
    (folder / "posts.csv").write_text(POSTS.replace("2026-01-01T10:00:00Z", "yesterday"))
    with pytest.raises(Invalid, match="'yesterday' is not a time"):
        read_history(folder)
    (folder / "posts.csv").unlink()
    with pytest.raises(Invalid, match=r"no posts.csv"):
        read_history(folder)


def test_a_tally_counts_as_a_loop_would() -> None:
    rng = np.random.default_rng(1)
    key, ms = rng.integers(0, 5, 300) * 7, rng.integers(1_000, 1_040, 300)
    weight = rng.integers(1, 9, 300).astype(float)
    tally = Tally(key=key, ms=ms, weight=weight)
    asked, at = rng.integers(0, 6, 200) * 7, rng.integers(990, 1_050, 200)
    for k, t, total, last, first, lately in zip(
        asked,
        at,
        tally.before(asked, at),
        tally.last_ms(asked, at),
        tally.first_ms(asked, at),
        tally.since(asked, at - 5, at),
        strict=True,
    ):
        rows = (key == k) & (ms < t)
        assert total == weight[rows].sum()
        assert lately == weight[rows & (ms >= t - 5)].sum()
        assert (last, first) == ((ms[rows].max(), ms[rows].min()) if rows.any() else (-1, -1))


def test_a_tally_of_nothing_counts_nothing() -> None:
    none = np.empty(0, dtype=np.int64)
    tally = Tally(key=none, ms=none)
    assert tally.before(np.array([1]), np.array([5])).tolist() == [0]
    assert tally.last_ms(np.array([1]), np.array([5])).tolist() == [-1]

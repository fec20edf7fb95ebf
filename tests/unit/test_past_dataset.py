"""The data set of a past: nothing in it was known later than the moment that it is of."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankers.features import NAMES, schema_hash
from training.dataset import Dataset, check_order
from training.history import History, read_history
from training.past_dataset import past_dataset

DARTPOST = Path(__file__).parents[2] / "samples" / "dartpost"
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def history() -> History:
    """The first three of the sample's five days."""
    whole = read_history(DARTPOST)
    return until(whole, int(whole.posts.ms[0]) + 3 * DAY_MS)


def until(history: History, ms: int) -> History:
    """Forget what came at `ms` or later."""

    def cut(columns: Any) -> Any:
        kept = np.flatnonzero(columns.ms < ms)
        return replace(columns, **{f.name: getattr(columns, f.name)[kept] for f in fields(columns)})

    return History(cut(history.posts), cut(history.acts), cut(history.follows))


@pytest.fixture(scope="module")
def dataset(history: History) -> Dataset:
    return past_dataset(history)


def test_a_past_is_a_data_set_like_any_other(dataset: Dataset) -> None:
    check_order(dataset)
    assert dataset.about.features == NAMES and dataset.about.schema_hash == schema_hash()
    assert len(dataset.queries) == dataset.about.counts["queries"] > 100
    assert (np.add.reduceat(dataset["label"] > 0, dataset.starts[:-1]) > 0).all()


def test_what_comes_later_changes_nothing(history: History, dataset: Dataset) -> None:
    middle = int(np.median(dataset.opened_ms))
    before = past_dataset(until(history, middle))
    n = len(before.queries)
    assert n > 50 and before.queries.tolist() == dataset.queries[:n].tolist()
    same = before.matrix, dataset.matrix[: len(before)]
    complete = before["at_ms"] + DAY_MS / 24 < middle  # labels may still have been to come
    assert np.array_equal(*same, equal_nan=True)
    labels = before["label"], dataset["label"][: len(before)]
    assert np.array_equal(labels[0][complete], labels[1][complete])


def test_counts_are_those_of_a_loop(history: History, dataset: Dataset) -> None:
    posts, acts, follows = history.posts, history.acts, history.follows
    for row in np.random.default_rng(1).integers(0, len(dataset), 40):
        at, viewer, author = (dataset[name][row] for name in ("at_ms", "viewer_id", "author_id"))
        past = acts.ms < at
        on_post = past & (posts.ids[acts.post] == dataset["post_id"][row])
        on_author = past & (posts.author[acts.post] == author)
        edge = (follows.follower == viewer) & (follows.followee == author) & (follows.ms < at)
        mine = on_author & (acts.viewer == viewer)
        wanted = {
            "likes": (on_post & (acts.grade == 2)).sum(),
            "comments": (on_post & (acts.grade == 3)).sum(),
            "shares": (on_post & (acts.grade == 4)).sum(),
            "engaged_24h": (on_post & (acts.ms >= at - DAY_MS)).sum(),
            "author_posts": ((posts.author == author) & (posts.ms < at)).sum(),
            "author_followers": ((follows.followee == author) & (follows.ms < at)).sum(),
            "viewer_engaged": (past & (acts.viewer == viewer)).sum(),
            "engaged_back": (
                past & (posts.author[acts.post] == viewer) & (acts.viewer == author)
            ).sum(),
            "followed_h": (at - follows.ms[edge][0]) / 3.6e6 if edge.any() else np.nan,
            "engaged_author_h": (at - acts.ms[mine][-1]) / 3.6e6 if mine.any() else np.nan,
        }
        for name, value in wanted.items():
            found = dataset.feature(name)[row]
            assert np.array_equal(found, np.float32(value), equal_nan=True), (name, row)


def test_affinity_is_that_of_the_service(history: History, dataset: Dataset) -> None:
    acts, posts, follows = history.acts, history.posts, history.follows
    rows = np.flatnonzero(dataset.feature("followed_h") > 0)[::500]
    assert len(rows) > 5
    for row in rows:
        at, viewer, author = (dataset[name][row] for name in ("at_ms", "viewer_id", "author_id"))
        mine = (acts.ms < at) & (acts.viewer == viewer) & (posts.author[acts.post] == author)
        weight = np.array([0, 0.5, 1, 3, 3])[acts.grade[mine]]
        strength = (weight * 0.5 ** ((at - acts.ms[mine]) / (30 * DAY_MS))).sum() + 10 / 7
        wanted = 0.1 + 0.9 * strength / (strength + 5)
        assert dataset.feature("affinity")[row] == pytest.approx(wanted, rel=1e-5)
    assert len(follows.ms)

"""Diversity rules: what each does, and that none loses, doubles or tosses a coin."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed.candidates import Candidates
from feed.order import Ids
from feed.profile import Profile
from feed.stages import Rule
from feed.telemetry import Trace
from mixer.home_feed import ranking
from mixer.pipeline import ranked
from mixer.rules import (
    AuthorDecay,
    Limit,
    NewAuthor,
    OneOriginal,
    OutOfNetwork,
    SeenLater,
    Spacing,
)
from mixer.rules.author_decay import occurrence
from mixer.rules.spacing import n_beyond, spaced

AUTHOR_RUN = Limit(name="author_run", column="author", run=2)
OON = Limit(name="oon_share", column="out_of_network", run=2, value=True, share=0.3)
FORMAT_RUN = Limit(name="format_run", column="format", run=3)
LIMITS = (AUTHOR_RUN, OON, FORMAT_RUN)

RULES: list[Callable[[], Rule]] = [
    OneOriginal,
    lambda: AuthorDecay(decay=0.5, floor=0.25),
    lambda: SeenLater(factor=0.5),
    lambda: OutOfNetwork(factor=0.75),
    lambda: Spacing(*LIMITS),
    lambda: NewAuthor(slot=3, days=14),
]


def ids(*values: int) -> Ids:
    return np.array(values, dtype=np.int64)


def slate(n: int, **columns: Sequence[object]) -> Candidates:
    """Make n rows in ranked order, ids and scores falling."""
    falling = np.arange(n, 0, -1, dtype=np.int64)
    plain = {
        "author": falling,
        "original": falling,
        "format": np.zeros(n, dtype=np.int64),
        "out_of_network": np.zeros(n, dtype=bool),
        "author_age_d": np.full(n, 365.0),
        "seen": np.zeros(n),
        "author_seen": np.zeros(n),
        "score": falling.astype(float),
    }
    given = {name: np.array(values) for name, values in columns.items()}
    return Candidates(falling, falling, {**plain, **given})


@st.composite
def slates(draw: st.DrawFn) -> Candidates:
    n = draw(st.integers(1, 30))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=n, max_size=n))

    return slate(
        n,
        author=column(st.integers(1, 4)),
        original=column(st.integers(1, 20)),
        format=column(st.integers(0, 2)),
        out_of_network=column(st.booleans()),
        author_age_d=column(st.sampled_from([1.0, 365.0])),
        seen=column(st.sampled_from([0.0, 0.0, 0.5, 2.0])),
        author_seen=column(st.sampled_from([0.0, 1.5])),
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda make: make().name)
@given(candidates=slates())
def test_a_rule_loses_nothing_doubles_nothing_and_is_no_matter_of_luck(
    rule: Callable[[], Rule], candidates: Candidates
) -> None:
    ruled = rule().apply(candidates)
    folded = [post for group in ruled.columns.get("folded", ()) for post in group]
    assert sorted([*ruled.ids.tolist(), *folded]) == sorted(candidates.ids.tolist())
    again = rule().apply(candidates)
    assert again.ids.tolist() == ruled.ids.tolist()


@pytest.mark.parametrize("rule", RULES, ids=lambda make: make().name)
@given(candidates=slates())
def test_a_rule_changes_no_fact(rule: Callable[[], Rule], candidates: Candidates) -> None:
    """What a post is, later rules read too: only its score and its place change."""
    ruled = rule().apply(candidates)
    at = {post: row for row, post in enumerate(candidates.ids.tolist())}
    rows = np.array([at[post] for post in ruled.ids.tolist()])
    for name in candidates.columns.keys() - {"score"}:
        assert ruled[name].tolist() == candidates[name][rows].tolist(), name


@given(candidates=slates())
def test_a_limit_gives_way_only_where_nobody_left_could_keep_it(candidates: Candidates) -> None:
    """The first limit is broken at a row only if every row from there on breaks it."""
    ruled = Spacing(*LIMITS).apply(candidates)
    authors = ruled["author"].tolist()
    for row in range(AUTHOR_RUN.run, len(authors)):
        before = authors[row - AUTHOR_RUN.run : row]
        if before == [authors[row]] * AUTHOR_RUN.run:
            assert set(authors[row:]) == {authors[row]}


def test_where_a_limit_gave_way_is_counted() -> None:
    candidates = slate(4, author=[1, 1, 1, 1], format=[0, 0, 0, 1])
    spacing = Spacing(*LIMITS)
    assert spacing.relaxed(spacing.apply(candidates)) == {"author_run": 2}


@pytest.mark.parametrize(
    ("authors", "order"),
    [
        ([1, 1, 1, 2], [0, 1, 3, 2]),
        ([1, 1, 1, 1], [0, 1, 2, 3]),
        ([1, 1, 1, 2, 1, 1, 3], [0, 1, 3, 2, 4, 6, 5]),
        ([], []),
    ],
)
def test_at_most_two_of_an_author_in_a_row_while_others_are_left(
    authors: list[int], order: list[int]
) -> None:
    assert spaced([np.array(authors)], [AUTHOR_RUN]).tolist() == order


def test_formats_alternate_where_others_exist() -> None:
    ruled = Spacing(*LIMITS).apply(slate(6, format=[0, 0, 0, 0, 0, 1]))
    assert ruled["format"].tolist() == [0, 0, 0, 1, 0, 0]


def test_at_most_two_out_of_network_in_a_row_and_at_most_a_share() -> None:
    outside = [True] * 4 + [False] * 8
    ruled = Spacing(*LIMITS).apply(slate(12, out_of_network=outside))
    assert n_beyond(ruled["out_of_network"], OON) == 0
    shares = np.cumsum(ruled["out_of_network"]) <= np.ceil(0.3 * np.arange(1, 13))
    assert shares.all()


def test_the_recipe_holds_its_bounds_on_what_is_out_of_network() -> None:
    """Though a rule before them has weighed it, and though it is liked best."""
    outside = np.array([True] * 6 + [False] * 14)
    facts = {
        "likes": np.where(outside, 1_000, 0),
        "comments": np.zeros(20),
        "affinity": np.ones(20),
    }
    candidates = slate(20, out_of_network=outside.tolist()).with_columns(facts)
    rows = ranked(ranking(Profile()), candidates, 20, Trace())
    assert rows.ids[:3].tolist() == [20, 14, 13], "the best is a stranger's, the next are not"
    assert n_beyond(rows["out_of_network"], OON) == 0


def test_when_limits_clash_the_last_gives_way() -> None:
    """The author run bars one row, the format run the other."""
    candidates = slate(5, author=[1, 2, 3, 3, 4], format=[0, 0, 0, 1, 0])
    first = Limit(name="author_run", column="author", run=1)
    spacing = Spacing(first, FORMAT_RUN)
    ruled = spacing.apply(candidates)
    assert ruled["author"].tolist() == [1, 2, 3, 4, 3]
    assert spacing.relaxed(ruled) == {"format_run": 1}


def test_further_posts_of_an_author_count_less() -> None:
    """(1 - 0.25) 0.5^k + 0.25: the second post of author 1 falls below the first of author 2."""
    candidates = slate(3, author=[1, 1, 2], score=[10.0, 9.0, 6.0])
    ruled = AuthorDecay(decay=0.5, floor=0.25).apply(candidates)
    assert ruled.ids.tolist() == [3, 1, 2]
    assert ruled["score"].tolist() == [10.0, 6.0, 9.0 * 0.625]
    assert ruled["author_decay_factor"].tolist() == [1.0, 1.0, 0.625]


def test_what_was_seen_of_an_author_in_earlier_sessions_counts() -> None:
    candidates = slate(2, author=[1, 2], score=[10.0, 9.0], author_seen=[1.0, 0.0])
    assert AuthorDecay(decay=0.5, floor=0.25).apply(candidates).ids.tolist() == [1, 2]


def test_what_was_seen_goes_down_and_not_away() -> None:
    candidates = slate(3, seen=[2.0, 0.0, 0.0])
    ruled = SeenLater(factor=0.5).apply(candidates)
    assert ruled.ids.tolist() == [2, 1, 3]


def test_without_scores_nothing_is_weighed() -> None:
    """When the ranker was skipped the order is that of time."""
    candidates = slate(3, author=[1, 1, 2], seen=[1.0, 0.0, 0.0])
    bare = Candidates(
        candidates.ids,
        candidates.ms,
        {name: column for name, column in candidates.columns.items() if name != "score"},
    )
    for rule in (AuthorDecay(decay=0.5, floor=0.25), SeenLater(factor=0.5)):
        assert rule.apply(bare).ids.tolist() == [3, 2, 1]


def test_out_of_network_counts_a_little_less() -> None:
    candidates = slate(3, out_of_network=[True, False, False], score=[10.0, 8.0, 1.0])
    assert OutOfNetwork(factor=0.75).apply(candidates).ids.tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("new", "order"),
    [([4], [0, 4, 1, 2, 3]), ([1, 4], [0, 1, 2, 3, 4]), ([], [0, 1, 2, 3, 4])],
)
def test_one_new_author_is_lifted_to_one_slot(new: list[int], order: list[int]) -> None:
    """Unless one is there, or above it, already."""
    candidates = slate(5, author_age_d=[1.0 if row in new else 365.0 for row in range(5)])
    ruled = NewAuthor(slot=1, days=14).apply(candidates)
    assert ruled.ids.tolist() == candidates.ids[np.array(order)].tolist()


def test_one_original_keeps_the_best_row_and_names_the_others() -> None:
    """In ranked order."""
    candidates = Candidates(ids(9, 8, 7, 6), ids(9, 8, 7, 6), {"original": ids(1, 2, 1, 1)})
    folded = OneOriginal().apply(candidates)
    assert folded.ids.tolist() == [9, 8]
    assert folded["folded"].tolist() == [(7, 6), ()]


def test_spacing_takes_whole_rows() -> None:
    """Every column moves with its row."""
    moved = Spacing(AUTHOR_RUN).apply(slate(4, author=[1, 1, 1, 2]))
    assert moved.ids.tolist() == [4, 3, 1, 2]
    assert moved["author"].tolist() == [1, 1, 2, 1]


def test_equal_values_are_numbered_in_their_order() -> None:
    assert occurrence(np.array([5, 5, 9, 5])).tolist() == [0, 1, 0, 2]

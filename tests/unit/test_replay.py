"""Traces and replays: a trace is enough to make its slate again, and to say why it is so."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed.candidates import Candidates
from feed.order import Key
from feed.profile import Profile, profile_of, table_of
from feed.telemetry import Trace
from mixer.explain import Explain
from mixer.home_feed import ranking
from mixer.pipeline import stages
from mixer.ranked import frozen
from mixer.replay import compared, discordance, is_same, replayed
from snapshots.snapshot import Head, Snapshot, pack
from snapshots.traces import SlateTrace, pack_trace, unpack_trace
from tests.unit.test_rules import ids

pytestmark = pytest.mark.anyio

NOW_MS = 1_767_312_000_000
HEAD = Head("snap", "nonce", "session", NOW_MS, "affinity_decay", "default-1", Key(5, 7))
PROFILES = (
    Profile(),
    profile_of("other", {"light": {"formula": "engagement_decay"}, "author": {"run": 1}}),
    profile_of("none", {"out_of_network": {"enabled": False}, "new_author": {"slot": 0}}),
)
STAGES = ("affinity_decay", *(rule.name for rule in ranking(Profile()).rules))


@st.composite
def weighed(draw: st.DrawFn) -> Candidates:
    """Rows as the pipeline hands them to a ranking, newest first."""
    n = draw(st.integers(0, 40))

    def column(values: st.SearchStrategy[Any], kind: type) -> Any:
        return np.array(draw(st.lists(values, min_size=n, max_size=n)), dtype=kind)

    every = st.integers(1, 2**63 - 1)
    own = np.array(draw(st.lists(every, min_size=n, max_size=n, unique=True)), dtype=np.int64)
    ms = np.sort(NOW_MS - column(st.integers(-1_000, 10**9), np.int64))[::-1].copy()
    shown = column(st.integers(0, n), np.int64)
    counts = st.one_of(st.integers(0, 9), st.integers(0, 2**40))
    columns = {
        "source": column(st.integers(0, 5), np.int8),
        "out_of_network": column(st.booleans(), np.bool_),
        "author": column(st.one_of(st.integers(1, 3), every), np.int64),
        "original": np.where(shown % 2, own[shown % n] if n else own, own),
        "format": column(st.integers(0, 3), np.int64),
        "likes": column(counts, np.int64),
        "comments": column(counts, np.int64),
        "reposts": column(counts, np.int64),
        "author_age_d": column(st.floats(0, 20_000), np.float64),
        "affinity": column(st.floats(0.1, 1), np.float64),
        "seen": column(st.one_of(st.just(0.0), st.floats(0, 9)), np.float64),
        "author_seen": column(st.one_of(st.just(0.0), st.floats(0, 9)), np.float64),
    }
    missing = draw(st.sets(st.sampled_from([*columns.keys() - {"source"}]), max_size=1))
    return Candidates(own, ms, {name: c for name, c in columns.items() if name not in missing})


def made(
    candidates: Candidates, profile: Profile, failed: str | None = None
) -> tuple[Snapshot, SlateTrace]:
    """Rank as an open does, in which a stage may fail for once; return what it keeps."""
    of_profile, trace = ranking(profile), Trace()
    without = [failed] if failed else []
    *_, (_, rows) = stages(of_profile, candidates, NOW_MS, trace, without)
    trace.degraded += without
    head = replace(HEAD, ranker=of_profile.ranker(trace), weights=of_profile.version)
    dropped = {"deleted": ids(3, 2**62), "not_served": ids()}
    kept = SlateTrace(1, head, profile, of_profile.skipped(trace), candidates, dropped)
    return frozen(head, rows), kept


@settings(max_examples=50)
@given(
    candidates=weighed(),
    profile=st.sampled_from(PROFILES),
    failed=st.sampled_from([None, *STAGES]),
)
def test_a_packed_trace_gives_its_slate_again_byte_for_byte(
    candidates: Candidates, profile: Profile, failed: str | None
) -> None:
    """Also where a fact was missing or a stage failed for once: what was skipped stays so."""
    snapshot, trace = made(candidates, profile, failed)
    packed = pack_trace(trace)
    again = unpack_trace(packed)
    assert again is not None and pack_trace(again) == packed
    assert again.profile == profile and again.profile.version == snapshot.head.weights
    for name, column in candidates.columns.items():
        assert again.weighed[name].dtype == column.dtype
        assert again.weighed[name].tobytes() == column.tobytes()
    replay = replayed(again, ranking)
    assert is_same(snapshot, replay)
    assert pack(frozen(again.head, replay.rows)) == pack(snapshot)


class Kept:
    """Traces of one slate."""

    def __init__(self, snapshot: Snapshot, trace: SlateTrace) -> None:
        self.both = snapshot, trace

    async def read(self, viewer_id: int, snapshot_id: str) -> tuple[Snapshot, SlateTrace]:
        return self.both


class Everything:
    """A page query that lets everything through, and a viewer to whom all posts stand alike."""

    async def visible(self, viewer_id: int, ids: Any, must_follow: Any) -> list[Any]:
        return [_Row(int(each)) for each in ids]

    async def of(self, viewer_id: int, post_id: int) -> Any:
        return None


class _Row:
    ms, in_network = NOW_MS, True

    def __init__(self, id: int) -> None:
        self.id = id


@settings(max_examples=50)
@given(candidates=weighed(), profile=st.sampled_from(PROFILES))
async def test_an_explanation_ends_where_the_slate_has_the_post(
    candidates: Candidates, profile: Profile
) -> None:
    """The moves of a row lead from its place by score to its place in the slate, step by step."""
    snapshot, trace = made(candidates, profile)
    everything = Everything()
    explain = Explain(Kept(snapshot, trace), everything, everything, ranking)  # type: ignore[arg-type]
    for row in range(0, len(snapshot), 4):
        post = int(snapshot.ids[row])
        told = await explain.to_viewer(1, "snap", post)
        assert (told.status, told.position) == ("in_slate", row)
        _, first = next(replayed(trace, ranking).places(post))
        places = [first, *(move.after for move in told.moves)]
        assert [move.before for move in told.moves] == places[:-1]
        assert places[-1] == row
        if told.light is not None:
            factors = [each.factor for each in told.multipliers]
            assert told.final == pytest.approx(told.light * np.prod(factors))
    for post in snapshot.folded[:2].tolist():
        assert (await explain.to_viewer(1, "snap", post)).status == "not_in_slate"


def packed_in_part() -> bytes:
    nothing = Candidates(ids(), ids(), {"source": np.array([], dtype=np.int8)})
    return pack_trace(made(nothing, Profile())[1])[:-9]


@pytest.mark.parametrize("packed", [b"", b"nonsense", packed_in_part()])
def test_what_was_not_packed_here_counts_as_lost(packed: bytes) -> None:
    assert unpack_trace(packed) is None


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_a_profile_is_what_its_table_says(profile: Profile) -> None:
    assert profile_of(profile.name, table_of(profile)) == profile


def in_order(*shown: int) -> Candidates:
    return Candidates(ids(*shown), ids(*shown), {"original": ids(*shown)})


def test_two_orders_are_compared_by_what_they_show() -> None:
    change = compared(in_order(1, 2, 3, 4), in_order(3, 1, 2), page=2)
    assert change.moves == [(1, 0, 1), (2, 1, 2), (3, 2, 0)]
    assert (change.enters, change.leaves, change.gone) == ([3], [2], [4])
    assert change.distance == 2 / 3


def test_the_distance_goes_from_nought_to_one() -> None:
    assert [discordance(ids(*rows)) for rows in ((), (0,), (0, 1, 2), (2, 1, 0))] == [0, 0, 0, 1]

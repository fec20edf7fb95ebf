"""Events over HTTP, and the fold of what they owe."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from storage.connections import Postgres
from storage.engagements import FOLD_BATCH, fold
from tests.integration.api_client import Client
from tests.integration.test_api_posts import rows

pytestmark = pytest.mark.anyio

HALF_LIFE_S = 30 * 86_400.0
AUTHOR, READER = 7, 8


def event(post_id: str, type: str = "like", **fields: Any) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    return {"event_id": str(uuid4()), "type": type, "post_id": post_id, "at": now, **fields}


def ago(**span: float) -> str:
    return (datetime.now(UTC) - timedelta(**span)).isoformat()


async def send(api: Client, *events: Any, user: int = READER) -> dict[str, Any]:
    answer = await api.call("POST", "/events", user, {"events": list(events)})
    assert answer.status_code == 202, answer.text
    document: dict[str, Any] = answer.json()
    return document


async def folded(postgres: Postgres) -> int:
    async with postgres.transaction() as connection:
        return await fold(connection, HALF_LIFE_S)


async def likes(api: Client, postgres: Postgres, post_id: str) -> tuple[int, bool]:
    await folded(postgres)
    post = (await api.call("GET", f"/posts/{post_id}", READER)).json()
    return post["counts"]["likes"], post["viewer"]["liked"]


async def test_one_bad_event_never_costs_the_others(api: Client, postgres: Postgres) -> None:
    """Each is named by its index, with a code and a reason."""
    post_id = await api.post(AUTHOR)
    good = event(post_id, "impression", snapshot_id="s", position=3)
    bad: list[Any] = [
        event("12345"),
        event(post_id, "applaud"),
        event("0"),
        event(post_id, event_id="x"),
        event(post_id, at="yesterday"),
        event(post_id, at=5),
        event(post_id, position=-1),
        event(post_id, position=True),
        event(post_id, position=2**31),
        event(post_id, dwell_ms=1.5),
        event(post_id, snapshot_id="a\x00"),
        event(post_id, snapshot_id="x" * 101),
        event(post_id, zz=1),
        {},
        None,
        "text",
        [],
        5,
    ]
    answer = await send(api, *bad, good)
    assert (answer["accepted"], answer["duplicates"]) == (1, 0)
    assert [each["index"] for each in answer["rejected"]] == list(range(len(bad)))
    codes = [each["code"] for each in answer["rejected"]]
    assert codes == ["unknown_post", *["invalid"] * (len(bad) - 1)]
    logged = await rows(postgres, "SELECT type, snapshot_id, position FROM engagements")
    assert logged == [("impression", "s", 3)]


async def test_a_wrong_batch_is_refused_as_a_whole(api: Client) -> None:
    """No list, too long a list, another field: 422. An empty one is fine."""
    for wrong in ({}, {"events": None}, {"events": {}}, {"events": [], "x": 1}, []):
        assert (await api.call("POST", "/events", READER, wrong)).status_code == 422
    too_many = {"events": [{}] * 501}
    assert (await api.call("POST", "/events", READER, too_many)).status_code == 422
    assert await send(api) == {"accepted": 0, "duplicates": 0, "rejected": []}


async def test_an_event_counts_once_however_often_it_arrives(
    api: Client, postgres: Postgres
) -> None:
    """Twice in a batch, in many batches at once, and two days later with the clamp moved on."""
    post_id = await api.post(AUTHOR)
    like = event(post_id, at=ago(hours=2))
    first = await send(api, like, like)
    assert (first["accepted"], first["duplicates"]) == (1, 1)
    other = event(post_id, "impression")
    answers = await asyncio.gather(*(send(api, like, other) for _ in range(6)))
    assert sum(answer["accepted"] for answer in answers) == 1
    async with postgres.connection() as connection:
        await connection.execute(
            "UPDATE engagements SET day = day - 2, at = at - interval '2 days'"
        )
    assert (await send(api, like, other))["duplicates"] == 2
    assert await likes(api, postgres, post_id) == (1, True)
    counted = await rows(postgres, "SELECT likes, impressions FROM post_stats")
    assert counted == [(1, 1)]


async def test_a_row_of_a_snapshot_is_on_the_screen_once(api: Client, postgres: Postgres) -> None:
    """However often it is sent, under whatever event id, in one batch or later."""
    post_id, other = await api.post(AUTHOR), await api.post(AUTHOR)
    row: dict[str, Any] = {"type": "impression", "snapshot_id": "s", "position": 3}
    answer = await send(api, event(post_id, **row), event(post_id, **row))
    assert (answer["accepted"], answer["duplicates"]) == (1, 1)
    again = await send(
        api,
        event(post_id, **row),
        event(post_id, **{**row, "position": 4}),
        event(post_id, **{**row, "snapshot_id": "t"}),
        event(other, **row),
        event(post_id, **{**row, "type": "click"}),
        event(post_id, "impression"),
        event(post_id, "impression"),
    )
    assert (again["accepted"], again["duplicates"]) == (6, 1)
    assert (await send(api, event(post_id, **row), user=AUTHOR))["accepted"] == 1
    await folded(postgres)
    counted = await rows(postgres, "SELECT impressions FROM post_stats ORDER BY post_id")
    assert sorted(counted) == [(1,), (6,)]


async def test_what_is_folded_is_kept_under_the_number_of_its_fold(
    api: Client, postgres: Postgres
) -> None:
    """Counters and statistics are the sum of what was folded up to the number read with them."""
    post_id = await api.post(AUTHOR, format="video")
    for kinds in (("like", "click"), ("share", "comment", "impression"), ("unlike",)):
        await send(api, *(event(post_id, kind) for kind in kinds))
        await folded(postgres)
    await api.call("DELETE", f"/posts/{await api.post(AUTHOR)}", AUTHOR)
    await folded(postgres)
    of_post = """
SELECT sum(likes), sum(comments), sum(clicks), sum(shares), sum(impressions)
  FROM folded WHERE post_id = %s AND fold <= %s"""
    assert await rows(postgres, of_post, post_id, 1) == [(1, 0, 1, 0, 0)]
    assert await rows(postgres, of_post, post_id, 2) == [(1, 1, 1, 1, 1)]
    counters = "SELECT likes, comments, clicks, shares, impressions FROM post_stats"
    assert await rows(postgres, counters) == await rows(postgres, of_post, post_id, 4)
    assert await rows(postgres, "SELECT number FROM folds") == [(4,)]
    of_author = "SELECT posts, engaged, first_ms > 0 FROM author_stats WHERE author_id = %s"
    assert await rows(postgres, of_author, AUTHOR) == [(1, 3, True)]
    assert await rows(postgres, "SELECT * FROM viewer_stats") == [(READER, 0, 0, 3, 0)]
    assert await rows(postgres, "SELECT engaged FROM affinity") == [(3,)]
    await folded(postgres)
    assert await rows(postgres, "SELECT number FROM folds") == [(4,)], "nothing was due"


async def test_the_last_writer_of_a_reaction_wins(api: Client, postgres: Postgres) -> None:
    """In whatever order like and unlike arrive; counters move on a change of state only."""
    post_id = await api.post(AUTHOR)
    like, unlike, again = (
        event(post_id, "like", at=ago(minutes=30)),
        event(post_id, "unlike", at=ago(minutes=20)),
        event(post_id, "like", at=ago(minutes=10)),
    )
    await send(api, unlike)
    assert await likes(api, postgres, post_id) == (0, False)
    await send(api, like)
    assert await likes(api, postgres, post_id) == (0, False)
    await send(api, again, event(post_id, "like", at=ago(minutes=5)))
    assert await likes(api, postgres, post_id) == (1, True)
    await send(api, event(post_id, "unlike"))
    assert await likes(api, postgres, post_id) == (0, False)
    strengths = await rows(postgres, "SELECT strength FROM affinity")
    assert strengths == [(pytest.approx(0.0, abs=1e-3),)]


async def test_a_fast_clock_keeps_the_order_of_what_it_reports(
    api: Client, postgres: Postgres
) -> None:
    """Like and undo, both from the future and in one batch: the undo stays."""
    post_id = await api.post(AUTHOR)
    ahead = [
        event(post_id, "unlike", at=ago(minutes=-11), event_id=str(UUID(int=1))),
        event(post_id, "like", at=ago(minutes=-10), event_id=str(UUID(int=2))),
        event(post_id, "unlike", at=ago(minutes=-9), event_id=str(UUID(int=0))),
    ]
    await send(api, *ahead)
    assert await likes(api, postgres, post_id) == (0, False)
    late = await rows(postgres, "SELECT count(*) FROM engagements WHERE at > now()")
    assert late == [(0,)]


async def test_at_is_clamped_to_the_last_day(api: Client, postgres: Postgres) -> None:
    """Neither the future nor the far past is written."""
    post_id = await api.post(AUTHOR)
    await send(
        api,
        event(post_id, "click", at="1970-01-01T00:00:00Z"),
        event(post_id, "click", at="9999-12-31T23:59:59Z"),
    )
    ages = await rows(
        postgres, "SELECT extract(epoch FROM now() - at)::float8 FROM engagements ORDER BY at"
    )
    assert [age for (age,) in ages] == [pytest.approx(86_400, abs=60), pytest.approx(0, abs=60)]


async def test_not_interested_and_report_hide_the_post(api: Client, postgres: Postgres) -> None:
    """At once, and listed, so that it can be undone."""
    first, second = await api.post(AUTHOR), await api.post(AUTHOR)
    await send(api, event(first, "not_interested"), event(second, "report"))
    for post_id in (first, second):
        assert (await api.call("GET", f"/posts/{post_id}", READER)).status_code == 404
    hidden = await rows(postgres, "SELECT post_id, via FROM hidden_posts ORDER BY post_id")
    assert hidden == [(int(first), "not_interested"), (int(second), "hide")]
    await folded(postgres)
    assert await rows(postgres, "SELECT strength FROM affinity") == [(pytest.approx(-4.0),)]


async def test_nobody_likes_across_a_block(api: Client) -> None:
    """To the one who is blocked the post does not exist; a report is taken all the same."""
    post_id = await api.post(AUTHOR)
    await api.people(READER)
    await api.call("PUT", f"/blocks/{AUTHOR}", READER)
    answer = await send(api, event(post_id, "like"), event(post_id, "report"))
    assert answer["accepted"] == 1
    assert [(e["index"], e["code"]) for e in answer["rejected"]] == [(0, "unknown_post")]


async def test_a_deleted_post_takes_no_events(api: Client) -> None:
    """It does not exist."""
    post_id = await api.post(AUTHOR)
    await api.call("DELETE", f"/posts/{post_id}", AUTHOR)
    assert (await send(api, event(post_id)))["rejected"][0]["code"] == "unknown_post"


async def test_weights_of_what_a_viewer_does(api: Client, postgres: Postgres) -> None:
    """Like 1, comment 3, share 3, click 0.5, a dwell of 5 s 0.3, impression 0."""
    post_id = await api.post(AUTHOR)
    await send(
        api,
        *(event(post_id, type) for type in ("like", "comment", "share", "click", "impression")),
        event(post_id, "dwell", dwell_ms=5_000),
        event(post_id, "dwell", dwell_ms=4_999),
    )
    await send(api, event(post_id, "like"), event(post_id, "share"), user=AUTHOR)
    await folded(postgres)
    strengths = await rows(postgres, "SELECT viewer_id, author_id, strength FROM affinity")
    assert strengths == [(READER, AUTHOR, pytest.approx(7.8, abs=1e-3))]
    counted = await rows(postgres, "SELECT likes, comments, reposts, impressions FROM post_stats")
    assert counted == [(2, 1, 0, 1)]


async def test_a_strength_decays_to_the_later_time(postgres: Postgres) -> None:
    """4 a half-life ago and 1 now are 4/2 + 1, in whichever order and batches they are folded."""
    owed = "INSERT INTO engagement_deltas (post_id, viewer_id, author_id, weight, at) VALUES "
    old, new, ancient = (
        "(1, {v}, 2, 4, now() - interval '30 days')",
        "(1, {v}, 2, 1, now())",
        "(1, {v}, 2, 9, now() - interval '900 years')",
    )
    for viewer, batches in {
        1: [[old, new]],
        2: [[new, old]],
        3: [[old], [new]],
        4: [[new], [old]],
        5: [[ancient], [new], [old], [ancient]],
    }.items():
        for batch in batches:
            async with postgres.transaction() as connection:
                values = ",".join(batch).format(v=viewer)
                await connection.execute((owed + values).encode())
                assert await fold(connection, HALF_LIFE_S) == len(batch)
    strengths = await rows(postgres, "SELECT strength FROM affinity ORDER BY viewer_id")
    assert strengths == [(pytest.approx(3.0, abs=1e-4),)] * 5


async def test_a_fold_is_bounded_and_pays_each_delta_once(postgres: Postgres) -> None:
    """Two folds at once share the work."""
    async with postgres.connection() as connection:
        await connection.execute(
            "INSERT INTO engagement_deltas (post_id, viewer_id, author_id, likes)"
            " SELECT n %% 7, n, 2, 1 FROM generate_series(1, %s) n",
            [FOLD_BATCH + 100],
        )
    assert sum([await folded(postgres), await folded(postgres)]) == FOLD_BATCH + 100
    assert await folded(postgres) == 0
    assert await rows(postgres, "SELECT sum(likes) FROM post_stats") == [(FOLD_BATCH + 100,)]


async def test_a_full_batch_takes_few_queries(api: Client, postgres: Postgres) -> None:
    """500 events are one set, not 500 round trips: it is answered well within a second."""
    post_ids = [await api.post(AUTHOR) for _ in range(5)]
    batch = [event(post_ids[n % 5], "impression") for n in range(500)]
    await folded(postgres)
    assert (await send(api, *batch))["accepted"] == 500
    assert await folded(postgres) == 500

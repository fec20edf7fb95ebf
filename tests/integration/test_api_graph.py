"""The graph, preferences and users over HTTP."""

from typing import Any

import pytest

from storage.connections import Postgres
from tests.integration.api_client import Client
from tests.integration.test_api_posts import IMPOSSIBLE_IDS, rows

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["follows", "blocks", "mutes"])
async def test_an_edge_may_be_set_and_undone_any_number_of_times(api: Client, kind: str) -> None:
    """Self is 422, the unknown 404, the rest 204; undoing the unknown is 204."""
    await api.people(1, 2)
    for method in ("PUT", "PUT", "DELETE", "DELETE", "PUT"):
        assert (await api.call(method, f"/{kind}/2", 1)).status_code == 204
    assert (await api.call("PUT", f"/{kind}/1", 1)).status_code == 422
    assert (await api.call("PUT", f"/{kind}/3", 1)).status_code == 404
    assert (await api.call("DELETE", f"/{kind}/3", 1)).status_code == 204
    listed = (await api.call("GET", f"/{kind}", 1)).json()
    assert [item["user_id"] for item in listed["items"]] == ["2"]
    assert listed["next_cursor"] is None


async def test_an_impossible_id_is_refused(api: Client) -> None:
    """Ids are positive 64-bit integers."""
    for kind in ("follows", "blocks", "mutes", "hidden", "users"):
        for id in IMPOSSIBLE_IDS:
            for method in ("PUT", "DELETE"):
                answer = await api.call(method, f"/{kind}/{id}", 1)
                assert answer.status_code == 422, (kind, id)


async def test_nobody_follows_across_a_block(api: Client) -> None:
    """403 either way, and 204 again after the block is undone."""
    await api.people(1, 2)
    assert (await api.call("PUT", "/blocks/2", 1)).status_code == 204
    assert (await api.call("PUT", "/follows/2", 1)).status_code == 403
    assert (await api.call("PUT", "/follows/1", 2)).status_code == 403
    assert (await api.call("DELETE", "/blocks/2", 1)).status_code == 204
    assert (await api.call("PUT", "/follows/1", 2)).status_code == 204


UNTIL: list[tuple[Any, int]] = [
    (None, 204),
    ({}, 204),
    ({"until": None}, 204),
    ({"until": "2100-01-01T00:00:00Z"}, 204),
    ({"until": "2100-01-01T00:00:00+02:00"}, 204),
    ({"until": "2100-01-01"}, 422),
    ({"until": "2100-01-01T00:00:00"}, 422),
    ({"until": 4102444800}, 422),
    ({"until": "9999-12-31T23:59:59-10:00"}, 422),
    ({"until": "0001-01-01T00:00:00+10:00"}, 422),
    ({"for": "ever"}, 422),
    ([], 422),
]


async def test_a_mute_lasts_until_a_time(api: Client) -> None:
    """Times are RFC 3339 with an offset."""
    await api.people(1, 2)
    for body, status in UNTIL:
        assert (await api.call("PUT", "/mutes/2", 1, body)).status_code == status, body
        assert (await api.call("GET", "/mutes", 1)).status_code == 200


async def test_a_list_is_paged_newest_first_without_repeat_or_gap(api: Client) -> None:
    """Also where many edges were made in one transaction, that is at one instant."""
    people = range(2, 27)
    await api.people(1, *people)
    await api.ingest(
        *({"kind": "follow", "follower_id": "1", "followee_id": str(id)} for id in people)
    )
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await api.call("GET", f"/follows?limit=4{cursor}", 1)).json()
        assert len(page["items"]) <= 4
        seen += [item["user_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == [str(id) for id in reversed(people)]


FORGED = ["", "%00", "AAAA", "bnVsbA", "A" * 150, "Zm9sbG93czoxOjE=", "é", "Zm9sbG93czo5OTk5"]


async def test_a_cursor_that_was_not_given_out_is_refused(api: Client) -> None:
    """With a problem document, whatever it holds."""
    for cursor in FORGED:
        answer = await api.call("GET", f"/follows?cursor={cursor}", 1)
        assert (answer.status_code, answer.json()["code"]) == (400, "cursor_invalid"), cursor


async def test_a_cursor_belongs_to_its_list(api: Client) -> None:
    """A cursor of follows does not page blocks."""
    await api.people(1, 2, 3)
    for id in (2, 3):
        await api.call("PUT", f"/follows/{id}", 1)
    page = (await api.call("GET", "/follows?limit=1", 1)).json()
    answer = await api.call("GET", f"/blocks?cursor={page['next_cursor']}", 1)
    assert answer.status_code == 400


async def test_a_wrong_parameter_is_refused(api: Client) -> None:
    """Not ignored; only a limit beyond the most is served as the most."""
    for wrong in (
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=",
        "a=1",
        "limit=1&limit=2",
        "limit=1e3",
    ):
        assert (await api.call("GET", f"/follows?{wrong}", 1)).status_code == 422, wrong
    assert (await api.call("GET", "/follows?limit=100000", 1)).status_code == 200


async def test_hidden_posts(api: Client) -> None:
    """A hidden post is gone for the one who hid it, until it is shown again."""
    post_id = await api.post(7)
    assert (await api.call("PUT", f"/hidden/{post_id}", 8)).status_code == 204
    assert (await api.call("GET", f"/posts/{post_id}", 8)).status_code == 404
    assert (await api.call("GET", f"/posts/{post_id}", 9)).status_code == 200
    listed = (await api.call("GET", "/hidden", 8)).json()["items"]
    assert [item["post_id"] for item in listed] == [post_id]
    assert (await api.call("DELETE", f"/hidden/{post_id}", 8)).status_code == 204
    assert (await api.call("GET", f"/posts/{post_id}", 8)).status_code == 200
    assert (await api.call("PUT", "/hidden/99", 8)).status_code == 404


async def test_preferences(api: Client) -> None:
    """Unknown viewers have the default; a choice is kept; another word is 422."""
    assert (await api.call("GET", "/preferences", 1)).json() == {"feed_mode": "default"}
    for mode in ("chronological", "ranked", "default"):
        answer = await api.call("PUT", "/preferences", 1, {"feed_mode": mode})
        assert (answer.status_code, answer.json()) == (200, {"feed_mode": mode})
        assert (await api.call("GET", "/preferences", 1)).json() == {"feed_mode": mode}
    for wrong in ({"feed_mode": "best"}, {}, {"feed_mode": None}, {"feed_mode": "ranked", "x": 1}):
        assert (await api.call("PUT", "/preferences", 1, wrong)).status_code == 422


async def test_users_are_named_by_themselves_or_by_ingest(api: Client) -> None:
    """201 when new, 200 after; others are 403."""
    assert (await api.call("PUT", "/users/5", 5, {"name": " Ada "})).status_code == 201
    again = await api.call("PUT", "/users/5", 5, {"name": "Ada L."})
    assert (again.status_code, again.json()) == (200, {"id": "5", "name": "Ada L."})
    assert (await api.call("PUT", "/users/5", 6, {"name": "x"})).status_code == 403
    assert (await api.call("PUT", "/users/6", 5, {"name": "x"}, scope="ingest")).status_code == 201
    for wrong in ({"name": ""}, {"name": "x" * 101}, {"name": "a\x00"}, {"name": 1}, {}):
        assert (await api.call("PUT", "/users/5", 5, wrong)).status_code == 422


async def test_a_deleted_account_is_emptied_with_a_receipt(api: Client, postgres: Postgres) -> None:
    """Posts, edges, likes and logs go; counters are paid back; the id may begin again."""
    await api.people(1, 2)
    own, other = await api.post(1), await api.post(2)
    await api.call("PUT", "/follows/2", 1)
    await api.call("PUT", "/follows/1", 2)
    like = {"event_id": "0" * 31 + "1", "type": "like", "post_id": other}
    like["at"] = "2030-01-01T00:00:00Z"
    assert (await api.call("POST", "/events", 1, {"events": [like]})).json()["accepted"] == 1
    assert (await api.call("DELETE", "/users/1", 2)).status_code == 403
    answer = await api.call("DELETE", "/users/1", 2, scope="admin")
    assert answer.status_code == 202
    receipt = answer.json()
    assert receipt["user_id"] == "1" and receipt["receipt_id"]
    assert receipt["removed"]["posts"] == 1
    assert receipt["removed"]["follows"] == 2
    assert receipt["removed"]["likes"] == 1
    assert (await api.call("GET", f"/posts/{own}", 2)).status_code == 404
    assert (await api.call("POST", "/posts", 1, {"body": "x"})).status_code == 403
    assert (await api.call("PUT", "/follows/1", 2)).status_code == 404
    assert await rows(postgres, "SELECT sum(likes), sum(weight) FROM engagement_deltas") == [(0, 0)]
    assert await rows(postgres, "SELECT body FROM posts WHERE author_id = 1") == [("",)]
    assert (await rows(postgres, "SELECT sum(delta) FROM follower_deltas"))[0] == (0,)
    assert (await api.call("DELETE", "/users/1", 2, scope="admin")).status_code == 404
    assert (await api.call("PUT", "/users/1", 1, {"name": "again"})).status_code == 201
    assert (await api.call("POST", f"/posts/{own}/restore", 1)).status_code == 404

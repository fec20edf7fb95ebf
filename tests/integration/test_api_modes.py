"""Modes over HTTP: what admins change, whom it moves, what it leaves in the audit."""

import asyncio
from itertools import product
from random import Random
from typing import Any

import pytest

from feed.mode import percent_bucket
from feed.settings import Settings
from storage.connections import Postgres
from tests.integration.api_client import PREFIX, Client, running
from tests.integration.test_api_posts import IMPOSSIBLE_IDS, rows

pytestmark = pytest.mark.anyio

ADMIN = 900
RANKED, CHRONO = "ranked", "chronological"


async def admin(api: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    answer = await api.call(method, f"/admin{path}", ADMIN, body, scope="admin", **headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def modes(api: Client, **change: Any) -> Any:
    """Read the modes, or change them."""
    return await admin(api, "PUT" if change else "GET", "/modes", change or None)


async def opened(api: Client, user: int, mode: str | None = None) -> tuple[str, str]:
    """Open a feed; return its mode and why."""
    page = (await api.call("GET", f"/feed?mode={mode}" if mode else "/feed", user)).json()
    return page["mode"], page["mode_reason"]


async def audit(api: Client, query: str = "") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await admin(api, "GET", f"/audit{query}"))["items"]
    return items


async def test_only_admins_see_and_change_modes(api: Client) -> None:
    """403 without the scope, whatever the body; 401 without a caller."""
    calls = [
        ("GET", "/modes"),
        ("PUT", "/modes"),
        ("GET", "/modes/cohorts/staff"),
        ("PUT", "/modes/cohorts/staff"),
        ("DELETE", "/modes/cohorts/staff"),
        ("GET", "/modes/overrides"),
        ("PUT", "/modes/overrides/1"),
        ("DELETE", "/modes/overrides/1"),
        ("GET", "/modes/users/1"),
        ("GET", "/audit"),
    ]
    for method, path in calls:
        for scope in ("", "ingest"):
            answer = await api.call(method, f"/admin{path}", 1, {"x": 1}, scope=scope)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), path
        assert (await api.call(method, f"/admin{path}")).status_code == 401, path


async def test_what_is_read_can_be_put_back_and_changes_nothing(api: Client) -> None:
    """No version, no audit row; an edit of what was read changes what was edited."""
    await api.people(1, 2, 3)
    await modes(
        api,
        rollout_percent=20,
        holdout_percent=5,
        cohorts={"staff": {"mode": RANKED, "members": ["1", "2"]}, "empty": {"mode": CHRONO}},
        overrides={"3": CHRONO},
    )
    document = await modes(api)
    assert {**document, "updated_at": None} == {
        "version": 2,
        "updated_at": None,
        "default_mode": RANKED,
        "kill_switch": None,
        "allow_request": True,
        "rollout_percent": 20,
        "holdout_percent": 5,
        "cohorts": {
            "empty": {"mode": CHRONO, "n_members": 0, "members": []},
            "staff": {"mode": RANKED, "n_members": 2, "members": ["1", "2"]},
        },
        "n_overrides": 1,
        "overrides": {"3": CHRONO},
    }
    same = await modes(api, **document)
    assert (same["before"], same["after"], same["version"]) == ({}, {}, 2)
    assert same["audit_id"] is None
    document["cohorts"]["staff"]["members"] = ["2", "3"]
    edited = await modes(api, **document)
    assert edited["before"] == {"members": {"1": "staff", "3": None}}
    assert edited["after"] == {"members": {"1": None, "3": "staff"}}
    assert (await modes(api))["cohorts"]["staff"]["members"] == ["2", "3"]
    assert len(await audit(api)) == 2


async def test_a_change_says_what_it_changed_and_leaves_one_audit_row(api: Client) -> None:
    """Actor, before, after, why; the row is what the answer said."""
    await api.people(1)
    answer = await modes(
        api,
        rollout_percent=10,
        allow_request=False,
        cohorts={"staff": {"mode": CHRONO, "add": ["1"]}},
        overrides={"1": RANKED},
        why="a first step",
    )
    before = {
        "rollout_percent": None,
        "allow_request": True,
        "cohorts": {"staff": None},
        "members": {"1": None},
        "overrides": {"1": None},
    }
    after = {
        "rollout_percent": 10,
        "allow_request": False,
        "cohorts": {"staff": CHRONO},
        "members": {"1": "staff"},
        "overrides": {"1": RANKED},
    }
    assert (answer["before"], answer["after"]) == (before, after)
    (row,) = await audit(api)
    assert row.pop("at")
    assert row == {
        "id": answer["audit_id"],
        "actor": str(ADMIN),
        "action": "modes.changed",
        "detail": {
            "before": before,
            "after": after,
            "n_members": 1,
            "n_overrides": 1,
            "why": "a first step",
            "version": 2,
        },
    }


async def test_the_audit_is_paged_newest_first(api: Client) -> None:
    """Each row once; `action` filters."""
    await api.people(1, 2)
    for percent in range(7):
        await modes(api, rollout_percent=percent)
    assert (await api.call("DELETE", "/users/2", 2)).status_code == 202
    seen: list[str] = []
    page = await admin(api, "GET", "/audit?limit=3")
    while True:
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        page = await admin(api, "GET", f"/audit?limit=3&cursor={page['next_cursor']}")
    assert len(seen) == 8
    assert seen == sorted(seen, key=int, reverse=True)
    changed = await audit(api, "?action=modes.changed")
    assert [row["detail"]["after"]["rollout_percent"] for row in changed] == [6, 5, 4, 3, 2, 1, 0]
    assert [row["action"] for row in await audit(api, "?action=user.deleted")] == ["user.deleted"]
    assert await audit(api, "?action=nothing") == []
    for wrong in ("x", "0", "-1", "99999999999999999999"):
        answer = await api.call("GET", f"/admin/audit?cursor={wrong}", 1, scope="admin")
        assert (answer.status_code, answer.json()["code"]) == (400, "cursor_invalid")


async def test_two_admins_do_not_overwrite_each_other(api: Client) -> None:
    """Whoever thought it out for an older version gets 409, with If-Match or in the body."""
    await api.people(1)
    read = await api.call("GET", "/admin/modes", ADMIN, scope="admin")
    assert read.headers["etag"] == '"1"'
    first = {"rollout_percent": 10, "version": 1}
    late: list[tuple[str, str, Any, dict[str, str]]] = [
        ("PUT", "/modes", {"rollout_percent": 90, "version": 1}, {}),
        ("PUT", "/modes?dry_run=true", {"rollout_percent": 90, "version": 1}, {}),
        ("PUT", "/modes", {"rollout_percent": 90}, {"If_Match": '"1"'}),
        ("PUT", "/modes/cohorts/staff", {"mode": RANKED}, {"If_Match": '"1"'}),
        ("DELETE", "/modes/cohorts/staff?version=1", None, {}),
        ("PUT", "/modes/overrides/1", {"mode": RANKED, "version": 1}, {}),
        ("DELETE", "/modes/overrides/1", None, {"If_Match": 'W/"1"'}),
    ]
    await modes(api, **first)
    for method, path, body, headers in late:
        answer = await api.call(method, f"/admin{path}", ADMIN, body, scope="admin", **headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict"), path
    assert (await modes(api))["rollout_percent"] == 10
    await admin(api, "PUT", "/modes", {"rollout_percent": 20}, If_Match='"2"')
    await admin(api, "PUT", "/modes", {"rollout_percent": 30}, If_Match="*")
    wrong = await api.call("PUT", "/admin/modes", ADMIN, {}, scope="admin", If_Match="new")
    assert wrong.status_code == 422


async def test_of_many_admins_at_once_one_wins(api: Client) -> None:
    """The others get 409; there is one audit row."""

    async def put(percent: int) -> int:
        body = {"rollout_percent": percent, "version": 1}
        answer = await api.call("PUT", "/admin/modes", ADMIN, body, scope="admin")
        return answer.status_code

    codes = await asyncio.gather(*map(put, range(1, 9)))
    assert sorted(codes) == [200] + [409] * 7
    assert len(await audit(api)) == 1
    assert (await modes(api))["version"] == 2


WRONG: list[dict[str, Any]] = [
    {"rollout_percent": 101},
    {"rollout_percent": -1},
    {"rollout_percent": "10"},
    {"rollout_percent": 10.5},
    {"rollout_percent": True},
    {"holdout_percent": None},
    {"default_mode": None},
    {"default_mode": "best"},
    {"kill_switch": True},
    {"allow_request": None},
    {"allow_request": "yes"},
    {"version": 0},
    {"why": "x" * 501},
    {"why": "nul \x00"},
    {"nothing": 1},
    {"cohorts": {"staff": {}}},
    {"cohorts": {"staff": {"mode": None, "members": ["1"]}}},
    {"cohorts": {"": {"mode": RANKED}}},
    {"cohorts": {"a/b": {"mode": RANKED}}},
    {"cohorts": {"a": {"mode": RANKED, "members": ["x"]}}},
    {"cohorts": {"a": {"mode": RANKED, "add": ["1"], "remove": ["1"]}}},
    {"cohorts": {"a": {"mode": RANKED, "add": ["1"]}, "b": {"mode": RANKED, "add": ["1"]}}},
    {"cohorts": {f"c{n}": {"mode": RANKED} for n in range(201)}},
    {"overrides": {"x": RANKED}},
    {"overrides": {"1": "best"}},
]


async def test_a_wrong_change_is_refused_as_a_whole(api: Client, postgres: Postgres) -> None:
    """422, and what else the request named is not changed either."""
    await api.people(1)
    for wrong in WRONG:
        body = {"kill_switch": CHRONO, **wrong}
        answer = await api.call("PUT", "/admin/modes", ADMIN, body, scope="admin")
        assert answer.status_code == 422, wrong
    for id in IMPOSSIBLE_IDS:
        path = f"/admin/modes/overrides/{id}"
        answer = await api.call("PUT", path, ADMIN, {"mode": RANKED}, scope="admin")
        assert answer.status_code == 422
    unchanged = await modes(api)
    assert (unchanged["version"], unchanged["kill_switch"], unchanged["cohorts"]) == (1, None, {})
    assert await rows(postgres, "SELECT count(*) FROM audit") == [(0,)]


async def test_a_cohort_is_made_filled_left_and_removed(api: Client) -> None:
    """Its members are in no other; who is unknown is said and left out."""
    await api.people(1, 2, 3)
    made = await admin(api, "PUT", "/modes/cohorts/staff", {"mode": CHRONO, "add": ["1", "2", "9"]})
    assert made["unknown_users"] == {"n": 1, "first": ["9"]}
    assert (made["n_members"], made["after"]["members"]) == (2, {"1": "staff", "2": "staff"})
    assert await opened(api, 1) == (CHRONO, "cohort")
    assert await opened(api, 3) == (RANKED, "default")
    assert await opened(api, 9) == (RANKED, "default")
    moved = await admin(api, "PUT", "/modes/cohorts/beta", {"mode": RANKED, "add": ["2", "3"]})
    assert moved["before"]["members"] == {"2": "staff", "3": None}
    assert await opened(api, 2) == (RANKED, "cohort")
    # Who is in another cohort by now cannot leave this one.
    await admin(api, "PUT", "/modes/cohorts/staff", {"remove": ["1", "2"]})
    assert await opened(api, 1) == (RANKED, "default")
    assert await opened(api, 2) == (RANKED, "cohort")
    await admin(api, "PUT", "/modes/cohorts/beta", {"mode": CHRONO})
    assert await opened(api, 2) == (CHRONO, "cohort")
    page = await admin(api, "GET", "/modes/cohorts/beta?limit=1")
    assert page == {"items": ["2"], "next_cursor": "2"}
    page = await admin(api, "GET", "/modes/cohorts/beta?limit=1&cursor=2")
    assert page == {"items": ["3"], "next_cursor": None}
    gone = await admin(api, "DELETE", "/modes/cohorts/beta?why=over")
    assert gone["before"] == {"cohorts": {"beta": CHRONO}, "members": {"2": "beta", "3": "beta"}}
    assert (await audit(api))[0]["detail"]["why"] == "over"
    assert await opened(api, 2) == (RANKED, "default")
    again = await admin(api, "DELETE", "/modes/cohorts/beta")
    assert again["audit_id"] is None


async def test_an_override_is_set_listed_and_taken_back(api: Client) -> None:
    """404 for whom there is not; the user's own choice still comes first."""
    await api.people(1, 2)
    await admin(api, "PUT", "/modes/overrides/1", {"mode": CHRONO})
    await admin(api, "PUT", "/modes/overrides/2", {"mode": RANKED, "why": "asked us"})
    assert await opened(api, 1) == (CHRONO, "override")
    page = await admin(api, "GET", "/modes/overrides?limit=1")
    assert page == {"items": [{"user_id": "1", "mode": CHRONO}], "next_cursor": "1"}
    await api.call("PUT", "/preferences", 1, {"feed_mode": RANKED})
    assert await opened(api, 1) == (RANKED, "preference")
    await api.call("PUT", "/preferences", 1, {"feed_mode": "default"})
    await admin(api, "DELETE", "/modes/overrides/1")
    assert await opened(api, 1) == (RANKED, "default")
    unknown = await api.call(
        "PUT", "/admin/modes/overrides/9", ADMIN, {"mode": RANKED}, scope="admin"
    )
    assert unknown.status_code == 404
    await api.call("DELETE", "/users/2", 2)
    deleted = await api.call(
        "PUT", "/admin/modes/overrides/2", ADMIN, {"mode": RANKED}, scope="admin"
    )
    assert deleted.status_code == 404
    assert (await modes(api))["n_overrides"] == 0


async def test_a_dry_run_changes_nothing(api: Client, postgres: Postgres) -> None:
    """By any route; it says what would change, and for whom."""
    await api.people(1, 2, 3)
    await modes(api, cohorts={"staff": {"mode": CHRONO, "add": ["1"]}}, overrides={"2": CHRONO})
    tables = ("users", "rollouts", "cohorts", "cohort_members", "audit")
    before = [await rows(postgres, f"TABLE {table}") for table in tables]
    calls: list[tuple[str, str, Any, list[dict[str, Any]]]] = [
        ("PUT", "/modes", {"kill_switch": CHRONO}, [{"from": RANKED, "to": CHRONO, "n": 1}]),
        ("PUT", "/modes/cohorts/staff", {"mode": RANKED, "add": ["3"]},
         [{"from": CHRONO, "to": RANKED, "n": 1}]),
        ("DELETE", "/modes/cohorts/staff", None, [{"from": CHRONO, "to": RANKED, "n": 1}]),
        ("PUT", "/modes/overrides/1", {"mode": RANKED}, [{"from": CHRONO, "to": RANKED, "n": 1}]),
        ("DELETE", "/modes/overrides/2", None, [{"from": CHRONO, "to": RANKED, "n": 1}]),
    ]  # fmt: skip
    for method, path, body, changes in calls:
        answer = await admin(api, method, f"{path}?dry_run=true", body)
        assert (answer["dry_run"], answer["n_users"], answer["changes"]) == (True, 3, changes), path
        assert answer["n_changed"] == 1
        assert sum(each["n"] for each in answer["outcome"]) == 3
        assert answer["version"] == 2
    assert [await rows(postgres, f"TABLE {table}") for table in tables] == before


async def test_a_change_holds_at_once_on_every_node(
    settings: Settings, postgres: Postgres, redis: Any
) -> None:
    """Two apis on the same stores: what one was told, the other does at its next open."""
    async with running(settings) as one, running(settings) as other:
        await one.people(1)
        for mode in (CHRONO, RANKED, CHRONO):
            await modes(one, kill_switch=mode)
            assert await opened(other, 1, RANKED) == (mode, "kill_switch")
            assert await opened(one, 1) == (mode, "kill_switch")
        await modes(other, kill_switch=None, default_mode=CHRONO)
        assert await opened(one, 1) == (CHRONO, "default")
        await admin(other, "PUT", "/modes/overrides/1", {"mode": RANKED})
        assert await opened(one, 1) == (RANKED, "override")
        await admin(one, "PUT", "/modes/cohorts/all", {"mode": CHRONO, "members": ["1"]})
        await admin(one, "DELETE", "/modes/overrides/1")
        assert await opened(other, 1) == (CHRONO, "cohort")


async def test_an_open_session_keeps_its_mode_through_a_switch(api: Client) -> None:
    """Its pages go on to the end, as they were opened; the next open is in the new mode."""
    await api.people(1)
    written = [await api.post(1, f"post {n}") for n in range(7)]
    newest_first = written[::-1]
    for before, after in ((CHRONO, RANKED), (RANKED, CHRONO)):
        await modes(api, default_mode=before, kill_switch=None)
        first = (await api.call("GET", "/feed?limit=3", 1)).json()
        await modes(api, kill_switch=after)
        pages = [first]
        while cursor := pages[-1]["next_cursor"]:
            pages.append((await api.call("GET", f"/feed?limit=3&cursor={cursor}", 1)).json())
        assert {(page["mode"], page["mode_reason"]) for page in pages} == {(before, "default")}
        got = [item["id"] for page in pages for item in page["items"]]
        assert sorted(got) == sorted(written)
        if before == CHRONO:
            assert got == newest_first
        assert await opened(api, 1) == (after, "kill_switch")


async def test_a_request_is_obeyed_only_where_it_is_allowed(api: Client) -> None:
    """A cursor stays bound to the mode that was asked for, obeyed or not."""
    await api.people(1)
    for n in range(3):
        await api.post(1, f"post {n}")
    assert await opened(api, 1, CHRONO) == (CHRONO, "request")
    await modes(api, allow_request=False)
    assert await opened(api, 1, CHRONO) == (RANKED, "default")
    page = (await api.call("GET", f"/feed?mode={CHRONO}&limit=1", 1)).json()
    following = f"limit=1&cursor={page['next_cursor']}"
    assert (await api.call("GET", f"/feed?mode={CHRONO}&{following}", 1)).status_code == 200
    assert (await api.call("GET", f"/feed?{following}", 1)).status_code == 400


async def test_every_combination_over_http(api: Client) -> None:
    """48 sets of rules by the admin calls; four of 108 kinds of user each, asking for any mode."""
    maybe = (None, RANKED, CHRONO)
    choices = list(product(maybe, maybe, maybe))  # preference, override, cohort
    buckets = {both: _users_of(*both) for both in product((True, False), repeat=2)}
    users = {
        (choice, both): found[number]
        for both, found in buckets.items()
        for number, choice in enumerate(choices)
    }
    await api.people(*users.values())
    await modes(
        api,
        cohorts={
            mode: {
                "mode": mode,
                "members": [str(u) for (choice, _), u in users.items() if choice[2] == mode],
            }
            for mode in (RANKED, CHRONO)
        },
        overrides={str(user): choice[1] for (choice, _), user in users.items() if choice[1]},
    )
    for (choice, _), user in users.items():
        if choice[0]:
            await api.call("PUT", "/preferences", user, {"feed_mode": choice[0]})
    rng = Random(4)
    for kill, allowed, percent, holdout, default in product(
        maybe, (True, False), (None, 30), (0, 10), (RANKED, CHRONO)
    ):
        await modes(
            api,
            kill_switch=kill,
            allow_request=allowed,
            rollout_percent=percent,
            holdout_percent=holdout,
            default_mode=default,
        )
        for (choice, (in_rollout, in_holdout)), user in rng.sample(list(users.items()), 4):
            for asked in maybe:
                rollout = None if percent is None else RANKED if in_rollout else CHRONO
                table = [
                    (kill, "kill_switch"),
                    (asked if allowed else None, "request"),
                    (choice[0], "preference"),
                    (choice[1], "override"),
                    (choice[2], "cohort"),
                    (CHRONO if holdout and in_holdout else None, "holdout"),
                    (rollout, "rollout"),
                    (default, "default"),
                ]
                expected = next((mode, reason) for mode, reason in table if mode)
                assert await opened(api, user, asked) == expected, (table, user)
            seen = await admin(api, "GET", f"/modes/users/{user}")
            unasked = next((mode, reason) for mode, reason in table[2:] if mode)
            assert (seen["mode"], seen["mode_reason"]) == (
                (kill, "kill_switch") if kill else unasked
            )
            assert (seen["preference"], seen["override"], seen["cohort"]) == choice


def _users_of(in_rollout: bool, in_holdout: bool) -> list[int]:
    """Return enough users whom a rollout of 30 and a holdout of 10 percent take or leave."""
    return [
        id
        for id in range(1, 3_000)
        if (percent_bucket("rollout", id) < 30) == in_rollout
        and (percent_bucket("holdout", id) < 10) == in_holdout
    ][:27]


async def test_a_body_of_very_many_users_is_read_and_a_larger_one_refused(api: Client) -> None:
    """100,000 ids at once; more by several calls."""
    many = [str(10**18 + n) for n in range(100_000)]
    answer = await admin(
        api, "PUT", "/modes/cohorts/all?dry_run=true", {"mode": CHRONO, "add": many}
    )
    assert answer["unknown_users"]["n"] == 100_000
    for more, status in ((1, 422), (100_000, 413)):
        body = {"mode": CHRONO, "add": many + many[:more]}
        refused = await api.http.put(
            f"{PREFIX}/admin/modes/cohorts/all",
            json=body,
            headers={"X-User-Id": str(ADMIN), "X-Scope": "admin"},
        )
        assert refused.status_code == status

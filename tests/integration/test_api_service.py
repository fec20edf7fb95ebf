"""What holds for every route: identity, problem documents, bounds, probes, one log line."""

import logging
from dataclasses import replace
from typing import Any

import jwt
import pytest

from api.auth import identify_with
from feed.errors import Misconfigured, Unauthenticated
from feed.settings import Settings
from storage.connections import Postgres
from tests.integration.api_client import Client, running

pytestmark = pytest.mark.anyio

SECRET = "a secret of the tests, 32 bytes or more"
FOREVER = 4_102_444_800


async def test_errors_are_problem_documents(api: Client) -> None:
    """Also those that no route raises; the request id is the client's own where it gave one."""
    for method, path, status, code in [
        ("GET", "/nothing", 404, "not_found"),
        ("PUT", "/preferences/", 404, "not_found"),
        ("DELETE", "/preferences", 405, "method_not_allowed"),
        ("PUT", "/preferences", 422, "invalid"),
    ]:
        answer = await api.call(method, path, 1, X_Request_Id="mine-1")
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.json()["request_id"] == "mine-1"
        assert answer.json()["type"] == f"urn:foryou:problem:{code}"
    odd = await api.call("GET", "/nothing", 1, X_Request_Id="a b")
    assert odd.json()["request_id"] != "a b"


async def test_who_is_asking(api: Client) -> None:
    """Nobody, or an impossible id: 401."""
    for user_id in (None, "", "0", "-1", "x", "1.0", "01", str(2**63), "9" * 5_000, "²"):
        headers = {} if user_id is None else {b"X-User-Id": user_id.encode()}
        for path in ("/preferences", "/follows", "/posts/1", "/feed"):
            answer = await api.http.get("/api/v1" + path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_every_route_of_the_api_asks_who_and_refuses_unknown_parameters(api: Client) -> None:
    """A route added later cannot forget."""
    paths = api.app.openapi()["paths"]
    assert len(paths) > 12
    for path, methods in paths.items():
        if path.startswith("/api/v1"):
            for method in methods:
                at = (
                    path.removeprefix("/api/v1").replace("{user_id}", "5").replace("{post_id}", "5")
                )
                body = {"any": "body"} if method != "get" else None
                unnamed = await api.call(method.upper(), at, None, body)
                assert unnamed.status_code == 401, (method, path)
                odd = await api.call(method.upper(), f"{at}?zz=1", 5, body, scope="ingest admin")
                assert odd.status_code == 422, (method, path)
                assert "zz" in odd.json()["detail"], (method, path)


async def test_a_body_has_a_bound(api: Client) -> None:
    """413, whether or not the length is said."""
    big = b'{"body": "' + b"x" * 300_000 + b'"}'
    said = await api.call("POST", "/posts", 1, big)
    assert (said.status_code, said.json()["code"]) == (413, "too_large")

    async def pieces() -> Any:
        for n in range(0, len(big), 10_000):
            yield big[n : n + 10_000]

    headers = {"X-User-Id": "1", "Content-Type": "application/json"}
    unsaid = await api.http.post("/api/v1/posts", content=pieces(), headers=headers)
    assert (unsaid.status_code, unsaid.json()["code"]) == (413, "too_large")


async def test_an_unforeseen_error_says_nothing_but_its_request(
    api: Client, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """The cause is in the log, not in the answer."""
    async with postgres.connection() as connection:
        await connection.execute("ALTER TABLE users RENAME COLUMN feed_mode TO gone")
    with caplog.at_level(logging.INFO, logger="foryou"):
        answer = await api.http.get("/api/v1/preferences", headers={"X-User-Id": "1"})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "feed_mode" not in answer.text and "SELECT" not in answer.text
    assert any("feed_mode" in str(record.exc_info) for record in caplog.records)


async def test_one_log_line_per_request(api: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Its fields say who, what, how it ended and how long it took."""
    with caplog.at_level(logging.INFO, logger="foryou.request"):
        answer = await api.call("GET", "/posts/5", 1)
    (record,) = [record for record in caplog.records if record.name == "foryou.request"]
    line = vars(record)
    assert line["request_id"] == answer.headers["x-request-id"]
    assert (line["method"], line["status"], line["user_id"]) == ("GET", 404, "1")
    assert line["route"].endswith("/posts/{post_id}") and line["ms"] > 0


async def test_probes_and_metrics(api: Client) -> None:
    """Healthy, ready, and counted by route, never by id."""
    await api.call("GET", "/posts/123456", 1)
    assert (await api.http.get("/healthz")).json() == {"status": "ok"}
    ready = await api.http.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ok", "degraded": []})
    text = (await api.http.get("/metrics")).text
    assert "foryou_http_requests_total" in text and "foryou_lag_seconds" in text
    assert "123456" not in text


async def test_without_redis_the_service_is_ready_and_degraded(settings: Settings) -> None:
    """And a post is written all the same."""
    async with running(replace(settings, redis_url="redis://127.0.0.1:1/0")) as api:
        ready = await api.http.get("/readyz")
        assert (ready.status_code, ready.json()["degraded"]) == (200, ["redis"])
        await api.post(1)


async def test_without_postgres_the_service_says_unavailable(settings: Settings) -> None:
    """503 with Retry-After, on probes and routes; the process lives."""
    away = replace(settings, postgres_url="postgresql://nobody@127.0.0.1:1/none")
    async with running(away) as api:
        assert (await api.http.get("/healthz")).status_code == 200
        for path in ("/readyz", "/api/v1/preferences"):
            answer = await api.http.get(path, headers={"X-User-Id": "1"})
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
        answer = await api.http.post(
            "/api/v1/posts", json={"body": "x"}, headers={"X-User-Id": "1"}
        )
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert "127.0.0.1" not in answer.text


def token(key: str = SECRET, algorithm: str = "HS256", **claims: Any) -> dict[str, str]:
    text = jwt.encode({"sub": "42", "exp": FOREVER, **claims}, key, algorithm)
    return {"authorization": f"Bearer {text}"}


def test_a_token_names_its_caller() -> None:
    """By `sub` and `scope`, with one algorithm and one key."""
    identify = identify_with(Settings(auth="jwt", jwt_key=SECRET))
    caller = identify(token(scope="ingest admin"))
    assert (caller.user_id, caller.scopes) == (42, {"ingest", "admin"})
    wrong: list[dict[str, str]] = [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer x.y.z"},
        {"authorization": "Basic " + token()["authorization"].split()[1]},
        {"x-user-id": "42"},
        token(exp=1),
        token(sub="0"),
        token(sub="x"),
        token(sub=str(2**63)),
        token(nbf=FOREVER),
        token(key="another secret of 32 bytes or more...."),
        token(algorithm="HS512", key=SECRET * 2),
        {"authorization": "Bearer " + jwt.encode({"sub": "42", "exp": FOREVER}, None, "none")},
        {"authorization": "Bearer " + jwt.encode({"sub": "42"}, SECRET, "HS256")},
        {"authorization": "Bearer " + jwt.encode({"exp": FOREVER}, SECRET, "HS256")},
    ]
    for headers in wrong:
        with pytest.raises(Unauthenticated):
            identify(headers)


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [("HS256", ""), ("HS256", "short"), ("RS256", SECRET), ("ES256", "-----BEGIN PUBLIC KEY-----")],
)
def test_a_key_that_cannot_check_tokens_is_refused_at_start(algorithm: Any, key: str) -> None:
    """With a sentence that names the setting."""
    with pytest.raises(Misconfigured, match="FORYOU_JWT_KEY"):
        identify_with(Settings(auth="jwt", jwt_algorithm=algorithm, jwt_key=key))

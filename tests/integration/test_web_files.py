"""The pages of web/ as HTTP: headers, caching, what is not there, and who one is told to be."""

from dataclasses import replace
from pathlib import Path

import pytest

from api.web import read_files
from feed.errors import Misconfigured
from feed.settings import Settings
from tests.integration.api_client import Client, running

pytestmark = pytest.mark.anyio

PATHS = ["/", "/docs", *(f"/web/{name}" for name in read_files())]


async def test_every_file_is_sent_strictly_and_asked_for_again(api: Client) -> None:
    """Nothing from elsewhere may run, nothing is guessed; a browser that has it hears 304."""
    for path in PATHS:
        await _is_sent_strictly(api, path)


async def _is_sent_strictly(api: Client, path: str) -> None:
    whole = await api.http.get(path)
    assert whole.status_code == 200 and whole.content
    policy = whole.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';") and "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["cache-control"] == "no-cache"
    etag = whole.headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}'):
        again = await api.http.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    other = await api.http.get(path, headers={"If-None-Match": '"other"'})
    assert other.status_code == 200
    head = await api.http.head(path)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", etag)


async def test_nothing_else_is_sent(api: Client) -> None:
    for path in ("", "nothing.js", "../pyproject.toml", "%2e%2e/pyproject.toml", "modules", "%00"):
        answer = await api.http.get(f"/web/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path


async def test_pages_hold_no_script_and_no_style_of_their_own() -> None:
    """And no file names an address elsewhere, but for the names of XML."""
    for name, file in read_files().items():
        text = file.content.decode()
        if name.endswith(".html"):
            assert "<style" not in text and " style=" not in text and " on" + "click=" not in text
            assert text.count("<script") == text.count('<script type="module" src="/web/modules/')
        assert "innerHTML" not in text and "insertAdjacentHTML" not in text
        elsewhere = text.replace("http://www.w3.org/2000/svg", "").replace("https?://", "")
        assert "http://" not in elsewhere and "https://" not in elsewhere, name


async def test_in_dev_one_can_be_those_who_follow_most(api: Client) -> None:
    assert (await api.http.get("/web/identity")).json() == {"auth": "dev", "people": []}
    await api.people(1, 2, 3)
    for follower, followee in ((2, 1), (2, 3), (3, 1)):
        await api.call("PUT", f"/follows/{followee}", follower)
    answer = await api.http.get("/web/identity")
    assert answer.headers["cache-control"] == "no-store"
    assert [each["id"] for each in answer.json()["people"]] == ["2", "3", "1"]
    assert answer.json()["people"][0]["name"] == "u2"


async def test_elsewhere_nobody_is_named_and_no_key_leaves(settings: Settings) -> None:
    secret = "a secret of the tests, 32 bytes or more"
    for auth in ("jwt", "header"):
        async with running(replace(settings, auth=auth, jwt_key=secret)) as api:  # type: ignore[arg-type]
            answer = await api.http.get("/web/identity")
            assert answer.json() == {"auth": auth, "people": []}
            for path in PATHS:
                assert secret not in (await api.http.get(path)).text


async def test_a_package_without_its_pages_says_so(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="install the package again"):
        read_files(tmp_path)

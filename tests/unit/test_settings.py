"""Settings: each is documented, and a wrong one is refused with what to do."""

import dataclasses
import re
from pathlib import Path

import pytest

from feed.errors import Misconfigured
from feed.settings import Settings, read_settings

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()


def row(field: "dataclasses.Field[object]") -> str:
    default = f"`{field.default}`" if field.default != "" else "none"
    return f"| `FORYOU_{field.name.upper()}` | {default} | {field.metadata['doc']} |"


@pytest.mark.parametrize("field", dataclasses.fields(Settings), ids=lambda field: field.name)
def test_every_setting_is_documented_with_its_default(
    field: "dataclasses.Field[object]",
) -> None:
    assert row(field) in PAGE, f"docs/settings.md lacks this line: {row(field)}"


def test_nothing_is_documented_twice_or_that_is_not_a_setting() -> None:
    named = re.findall(r"^\| `FORYOU_(\w+)`", PAGE, flags=re.MULTILINE)
    assert sorted(named) == sorted(field.name.upper() for field in dataclasses.fields(Settings))


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"FORYOU_PAGE_LIMITS": "3"}, "not a setting"),
        ({"FORYOU_PAGE_LIMIT": "many"}, "must be a whole number"),
        ({"FORYOU_PAGE_LIMIT": "0"}, "above 0"),
        ({"FORYOU_AUTH": "none"}, "one of jwt, header, dev"),
        ({"FORYOU_PUSH_BELOW_FOLLOWERS": "20000"}, "lower the first"),
        ({"FORYOU_FEED_TTL_S": "2592000"}, "lower the first"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_to_do(environ: dict[str, str], told: str) -> None:
    with pytest.raises(Misconfigured, match=told):
        read_settings(environ)


def test_what_may_be_off_is_off_at_0() -> None:
    assert read_settings({"FORYOU_LOG_QUEUE": "0"}).log_queue == 0
    with pytest.raises(Misconfigured, match="above 0"):
        read_settings({"FORYOU_LOG_QUEUE": "-1"})


def test_an_option_of_the_command_line_wins_over_the_environment() -> None:
    environ = {"FORYOU_REDIS_URL": "redis://a:1/0", "PATH": "/bin"}
    assert read_settings(environ, redis_url="redis://b:2/0").redis_url == "redis://b:2/0"
    assert read_settings(environ, redis_url=None).redis_url == "redis://a:1/0"

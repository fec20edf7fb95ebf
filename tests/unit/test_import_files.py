"""Reading one file of an import: every row is either read or refused with its line."""

import gzip
from pathlib import Path

import pytest

from feed.errors import Invalid
from storage.imports.fields import BadField, Field, read_body, read_id, read_media, read_time
from storage.imports.files import BadRow, find_file, open_rows

FIELDS = (
    Field("id", read_id),
    Field("at", read_time),
    Field("body", read_body, required=False, default=""),
)
HEADER = b"id,at,body\n"
MS = 1767225600123


def read(path: Path, content: bytes) -> list[object]:
    """Write a file and read it."""
    path.write_bytes(content)
    with open_rows(path, FIELDS) as rows:
        return list(rows.rows)


def codes(rows: list[object]) -> list[tuple[int, str]]:
    """Return line and code of the refused rows."""
    return [(row.line, row.code) for row in rows if isinstance(row, BadRow)]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_csv_may_be_zipped_have_a_mark_other_column_orders_and_empty_lines(
    tmp_path: Path, ending: str
) -> None:
    content = (
        b"\xef\xbb\xbfbody, id ,at\r\n hello ,1,2026-01-01T00:00:00.123Z\r\n"
        b"\r\n,2,2026-01-01T01:00:00.1239+01:00\r\n"
    )
    packed = gzip.compress(content) if ending.endswith(".gz") else content
    rows = read(tmp_path / f"posts{ending}", packed)
    assert rows == [(2, 1, MS, "hello"), (4, 2, MS, "")]


def test_ndjson_takes_ids_as_numbers_or_text(tmp_path: Path) -> None:
    content = (
        b'{"id":1,"at":"2026-01-01T00:00:00.123Z","body":null}\n\n'
        b'{"at":"2026-01-01T00:00:00.123Z","id":"2"}'
    )
    assert read(tmp_path / "posts.ndjson", content) == [(1, 1, MS, ""), (3, 2, MS, "")]


def test_a_row_over_several_lines_is_named_by_its_first(tmp_path: Path) -> None:
    content = HEADER + b'1,2026-01-01T00:00:00.123Z,"a\nb"\nx,2026-01-01T00:00:00Z,"c\n\nd"\n3,,\n'
    rows = read(tmp_path / "posts.csv", content)
    assert rows[0] == (2, 1, MS, "a\nb")
    assert codes(rows) == [(4, "bad_id"), (7, "missing")]


BAD_CSV = {
    b"0,2026-01-01T00:00:00Z,": "bad_id",
    b"-1,2026-01-01T00:00:00Z,": "bad_id",
    b"9223372036854775808,2026-01-01T00:00:00Z,": "bad_id",
    b"1_0,2026-01-01T00:00:00Z,": "bad_id",
    b"1.0,2026-01-01T00:00:00Z,": "bad_id",
    "\u0661,2026-01-01T00:00:00Z,".encode(): "bad_id",  # an Arabic one is a digit to Python
    b",2026-01-01T00:00:00Z,": "missing",
    b"1,2026-01-01T00:00:00,": "bad_time",
    b"1,2026-02-30T00:00:00Z,": "bad_time",
    b"1,yesterday,": "bad_time",
    b"1,1969-12-31T23:59:59Z,": "bad_time",
    b"1,0001-01-01T00:00:00+14:00,": "bad_time",
    b"1,2026-01-01T00:00:00Z,a\0b": "bad_text",
    b"1,2026-01-01T00:00:00Z,a\xffb": "bad_text",
    b"1,2026-01-01T00:00:00Z," + b"x" * 10_001: "too_long",
    b"1,2026-01-01T00:00:00Z": "bad_row",
    b"1,2026-01-01T00:00:00Z,,": "bad_row",
    b'1,2026-01-01T00:00:00Z,"a"b': "bad_row",
}


@pytest.mark.parametrize(("row", "code"), BAD_CSV.items())
def test_a_bad_csv_row_costs_no_other(tmp_path: Path, row: bytes, code: str) -> None:
    good = b"7,2026-01-01T00:00:00.123Z," + b"y" * 10_000 + b"\n"
    rows = read(tmp_path / "posts.csv", HEADER + good + row + b"\n" + good)
    assert codes(rows) == [(3, code)]
    assert [each[0] for each in rows if isinstance(each, tuple)] == [2, 4]


BAD_NDJSON = {
    b"[1]": "bad_row",
    b'{"id":1': "bad_row",
    b"\xff": "bad_row",
    b'{"id":1,"at":"2026-01-01T00:00:00Z","extra":1}': "unknown_field",
    b'{"id":true,"at":"2026-01-01T00:00:00Z"}': "bad_id",
    b'{"id":1e3,"at":"2026-01-01T00:00:00Z"}': "bad_id",
    b'{"id":1,"at":1767225600}': "bad_time",
    b'{"id":1}': "missing",
    b'{"id":1,"at":"2026-01-01T00:00:00Z","body":7}': "bad_value",
    b'{"id":1,"at":"2026-01-01T00:00:00Z","body":"a\\u0000"}': "bad_text",
}


@pytest.mark.parametrize(("row", "code"), BAD_NDJSON.items())
def test_a_bad_ndjson_row_costs_no_other(tmp_path: Path, row: bytes, code: str) -> None:
    good = b'{"id":1,"at":"2026-01-01T00:00:00.123Z"}\n'
    rows = read(tmp_path / "posts.ndjson", good + row + b"\n" + good)
    assert codes(rows) == [(2, code)]
    assert len(rows) == 3


def test_a_quote_that_never_closes_says_which_lines_it_cost(tmp_path: Path) -> None:
    good = b"7,2026-01-01T00:00:00Z,ok\n"
    rows = read(tmp_path / "posts.csv", HEADER + good + b'1,2026-01-01T00:00:00Z,"oh\n' + good * 3)
    assert codes(rows) == [(3, "bad_row")]
    assert isinstance(rows[1], BadRow)
    assert "lines 3 to 6 are lost" in rows[1].detail


def test_reading_goes_on_behind_a_field_that_is_far_too_large(tmp_path: Path) -> None:
    good = b"7,2026-01-01T00:00:00Z,ok\n"
    large = b"1,2026-01-01T00:00:00Z," + b"x" * 200_000 + b"\n"
    rows = read(tmp_path / "posts.csv", HEADER + large + good)
    assert codes(rows) == [(2, "bad_row")]
    assert rows[1][0] == 3  # type: ignore[index]


@pytest.mark.parametrize("header", [b"", b"id,body\n", b"id,at,when\n", b"id,at,id\n", b'"id\n'])
def test_a_header_that_lacks_or_invents_a_column_is_refused(tmp_path: Path, header: bytes) -> None:
    with pytest.raises(Invalid, match="header"):
        read(tmp_path / "posts.csv", header)


@pytest.mark.parametrize("cut", [5, 20, -9, -1])
def test_a_zipped_file_that_ends_early_is_refused(tmp_path: Path, cut: int) -> None:
    packed = gzip.compress(HEADER + b"7,2026-01-01T00:00:00Z,ok\n" * 100)
    with pytest.raises(Invalid, match="cannot be read"):
        read(tmp_path / "posts.csv.gz", packed[:cut])


def test_two_files_of_one_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "posts.csv").touch()
    assert find_file(tmp_path, "posts") == tmp_path / "posts.csv"
    assert find_file(tmp_path, "users") is None
    (tmp_path / "posts.ndjson.gz").touch()
    with pytest.raises(Invalid, match="keep one"):
        find_file(tmp_path, "posts")


def test_media_is_a_list_of_urls_with_alternative_texts() -> None:
    field = Field("media", read_media)
    assert field.value('[{"url": "https://example.org/a.jpg", "alt": "a"}]') == (
        '[{"url":"https://example.org/a.jpg","alt":"a"}]'
    )
    assert field.value([{"url": "HTTP://example.org/b", "alt": None}]) == (
        '[{"url":"HTTP://example.org/b"}]'
    )


@pytest.mark.parametrize(
    "media",
    ["{}", "[1]", '[{"alt":"a"}]', '[{"url":"ftp://x"}]', '[{"url":"http://x","w":1}]', "nope",
     [{"url": "http://x"}] * 11, '[{"url":"http://x","alt":"\\u0000"}]', '[{"url":null}]'],
)  # fmt: skip
def test_other_media_is_refused(media: object) -> None:
    with pytest.raises(BadField):
        Field("media", read_media).value(media)

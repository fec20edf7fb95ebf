"""Finds the files of an import and reads them row by row: CSV or NDJSON, plain or .gz.

Only what one row shows on its own is checked here; whether it fits the others is asked in SQL.
"""

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import orjson

from feed.errors import Invalid
from storage.imports.fields import BadField, Field, Value

ENDINGS = (".csv", ".csv.gz", ".ndjson", ".ndjson.gz")


Reader = Callable[[Any], Value]
Row = tuple[int, *tuple[Value, ...]]
"""A row that can be read: the line where it begins, then its values in the order of the fields."""


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be read, and why."""

    line: int
    code: str
    detail: str


def find_file(folder: Path, kind: str) -> Path | None:
    """Return the one file of this kind in the folder, or None.

    Raises:
        Invalid: There are two, and it is not clear which one is meant.
    """
    found = [path for ending in ENDINGS if (path := folder / f"{kind}{ending}").is_file()]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise Invalid(f"{folder} holds {names}: keep one of them")
    return found[0] if found else None


@dataclass(frozen=True)
class RowFile:
    """One open file of rows; says how many bytes of it have been read."""

    rows: Iterator[Row | BadRow]
    size: int
    raw: IO[bytes]

    def tell(self) -> int:
        """Return how many bytes of the file on the disk have been read, at most `size`."""
        return min(self.raw.tell(), self.size)


@contextmanager
def open_rows(path: Path, fields: Sequence[Field]) -> Iterator[RowFile]:
    """Open a file of rows.

    Raises:
        Invalid: The file cannot be read to its end (on opening, or later from `rows`), or the
            header of a CSV file names a column that is unknown, or lacks one.
    """
    try:
        with ExitStack() as open_files:
            raw: IO[bytes] = open_files.enter_context(path.open("rb"))
            plain = raw
            if path.suffix == ".gz":
                plain = open_files.enter_context(cast(IO[bytes], gzip.GzipFile(fileobj=raw)))
            if ".csv" in path.suffixes:
                text = io.TextIOWrapper(plain, "utf-8-sig", errors="surrogateescape", newline="")
                rows = _csv_rows(path, fields, open_files.enter_context(text))
            else:
                rows = _ndjson_rows(fields, plain)
            yield RowFile(rows, path.stat().st_size, raw)
    except (OSError, EOFError, zlib.error) as error:
        raise Invalid(f"{path} cannot be read: {error}") from error


def _csv_rows(path: Path, fields: Sequence[Field], text: IO[str]) -> Iterator[Row | BadRow]:
    reader = csv.reader(text, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise Invalid(f"{path}: the first line is not a header: {error}") from None
    places = _places(path, fields, header)
    return _records(reader, fields, places, len(header))


def _places(path: Path, fields: Sequence[Field], header: list[str]) -> list[int | None]:
    """Return for each field the column that holds it, None for a field that is not given."""
    names = [name.strip() for name in header]
    known = {field.name for field in fields}
    unknown = [name for name in names if name not in known]
    lacking = [field.name for field in fields if field.required and field.name not in names]
    if unknown or lacking or len(set(names)) < len(names):
        shown = ", ".join(f"{field.name}{'' if field.required else '?'}" for field in fields)
        have = ",".join(names) or "nothing"
        raise Invalid(f"{path}: the header must name these columns ({shown}); it has {have[:200]}")
    return [names.index(field.name) if field.name in names else None for field in fields]


def _records(
    reader: Any, fields: Sequence[Field], places: list[int | None], width: int
) -> Iterator[Row | BadRow]:
    # A column that is not there reads as the empty text behind the last one.
    columns = [(f.value, width if n is None else n) for f, n in zip(fields, places, strict=True)]
    line = reader.line_num + 1
    while True:
        try:
            for record in reader:
                if len(record) == width:
                    record.append("")
                    yield _row(line, columns, record)
                elif record:  # an empty line is no row
                    detail = f"has {len(record)} fields, the header has {width}"
                    yield BadRow(line, "bad_row", detail)
                line = reader.line_num + 1
            return
        except csv.Error as error:
            yield BadRow(line, "bad_row", f"lines {line} to {reader.line_num} are lost: {error}")
            line = reader.line_num + 1


def _row(line: int, columns: Sequence[tuple[Reader, Any]], record: Any) -> Row | BadRow:
    try:
        return (line, *[read(record[name]) for read, name in columns])
    except BadField as bad:
        return BadRow(line, bad.code, str(bad))


def _ndjson_rows(fields: Sequence[Field], plain: IO[bytes]) -> Iterator[Row | BadRow]:
    columns = [(field.value, field.name) for field in fields]
    nothing = dict.fromkeys((field.name for field in fields), None)
    for line, raw in enumerate(plain, start=1):
        if not raw.strip():
            continue
        try:
            record = _object(raw.removeprefix(codecs.BOM_UTF8), nothing.keys())
        except BadField as bad:
            yield BadRow(line, bad.code, str(bad))
        else:
            yield _row(line, columns, nothing | record)


def _object(raw: bytes, known: Set[str]) -> dict[str, Any]:
    try:
        record = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadField("bad_row", f"not JSON: {error}") from None
    if type(record) is not dict:
        raise BadField("bad_row", "not a JSON object")
    if unknown := record.keys() - known:
        raise BadField("unknown_field", f"{', '.join(sorted(unknown))} is not known")
    return record

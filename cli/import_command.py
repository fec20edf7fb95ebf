"""`foryou import`: loads a folder of users, posts, follows and engagements (docs/import.md)."""

import asyncio
import json
import logging
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import click
import orjson

from cli.doctor import place
from cli.entry import settings_with
from feed.errors import Invalid, Unavailable
from feed.settings import Settings
from storage.connections import Postgres
from storage.imports import Refusal, Report, import_folder

SHOWN_REFUSALS = 20


class Screen:
    """Shows progress and the first refused rows on stderr; all of them go to a file."""

    def __init__(self, report_path: Path) -> None:
        """Write to `report_path` once there is something to write."""
        self.first: list[Refusal] = []
        self.report_path: Path | None = None
        self._wanted_path = report_path
        self._file: IO[bytes] | None = None
        self._bar: Any = None
        self._step = ""

    def progress(self, step: str, done: int, total: int) -> None:
        """Move the bar of this step; a new step begins a new bar."""
        if step != self._step:
            self.close_bar()
            self._step = step
            self._bar = click.progressbar(length=total, label=f"{step:<24}", file=sys.stderr)
            self._bar.__enter__()
        self._bar.update(done - self._bar.pos)

    def refused(self, refusal: Refusal) -> None:
        """Write one refused row to the file, and keep the first few for the screen."""
        if self._file is None:
            self._file = self._wanted_path.open("wb")
            self.report_path = self._wanted_path
        self._file.write(orjson.dumps(refusal) + b"\n")
        if len(self.first) < SHOWN_REFUSALS:
            self.first.append(refusal)

    def close_bar(self) -> None:
        """End the bar of the step that is over."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def close(self) -> None:
        """End the bar and close the file."""
        self.close_bar()
        if self._file is not None:
            self._file.close()


@click.command("import")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--postgres", metavar="URL", help="Instead of FORYOU_POSTGRES_URL.")
@click.option(
    "--shift-to-now",
    is_flag=True,
    help="Add to every time what makes the newest one now; the same again next time.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("import-refused.ndjson"),
    show_default=True,
    help="Where refused rows are listed, if there are any.",
)
@click.option("--strict", is_flag=True, help="End with exit code 1 when rows were refused.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one line of JSON on stdout.")
def import_command(
    *,
    folder: Path,
    postgres: str | None,
    shift_to_now: bool,
    report: Path,
    strict: bool,
    as_json: bool,
) -> None:
    """Load users, posts, follows and engagements from the files in FOLDER.

    Files are users, posts, follows and engagements, each as .csv or .ndjson, or these with .gz; all
    are optional, docs/import.md has the columns. Importing the same again changes nothing, and an
    import that was stopped goes on when it is run again. Rows that are refused are listed with
    line and reason, and the others are imported.

    \b
    Example (put your own folder):
      foryou import export/
      foryou import samples/dartpost --shift-to-now
      foryou import export/ --strict --json --report refused.ndjson

    \b
    Into what `foryou up` runs:
      ( set -a; . ./.foryou/environment; foryou import export/ )
    """
    if not folder.is_dir():
        raise Invalid(f"{folder} is not a folder")
    settings = settings_with("postgres_url", postgres_url=postgres)
    screen = Screen(report)
    started = time.perf_counter()
    try:
        result = asyncio.run(_import(settings, folder, screen, shift_to_now=shift_to_now))
    except Unavailable as error:
        raise Unavailable(
            f"{error} at {place(settings.postgres_url)}: run the same command again once it can; "
            "an import that had begun goes on."
        ) from error
    except KeyboardInterrupt:
        click.echo(
            "\nstopped. What was written so far stays; run the same command again to go on.",
            err=True,
        )
        raise SystemExit(130) from None
    finally:
        screen.close()
    _say(result, screen, time.perf_counter() - started, as_json=as_json)
    if strict and result.refused:
        raise SystemExit(1)


async def _import(
    settings: Settings, folder: Path, screen: Screen, *, shift_to_now: bool
) -> Report:
    # The pool tells the log of every attempt to connect; we tell the user once, at the end.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    postgres = Postgres(settings.postgres_url, connections=1)
    await postgres.open()
    try:
        return await import_folder(
            postgres,
            folder,
            settings=settings,
            now=datetime.now(UTC),
            shift_to_now=shift_to_now,
            listener=screen,
        )
    finally:
        await postgres.close()


def _say(report: Report, screen: Screen, spent_s: float, *, as_json: bool) -> None:
    for refusal in screen.first:
        click.echo(f"{refusal.file}:{refusal.line}: {refusal.code}: {refusal.detail}", err=True)
    if report.refused > len(screen.first):
        click.echo(f"... and {report.refused - len(screen.first):,} more", err=True)
    if as_json:
        click.echo(json.dumps(_summary(report, screen, spent_s)))
    else:
        click.echo(_sentences(report, screen, spent_s))


def _rows_per_s(report: Report, spent_s: float) -> int:
    return round(sum(each.read for each in report.counts.values()) / spent_s)


def _summary(report: Report, screen: Screen, spent_s: float) -> dict[str, Any]:
    kinds = {
        kind: {
            "read": each.read,
            "written": each.written,
            "unchanged": each.unchanged,
            "refused": each.refused,
        }
        for kind, each in report.counts.items()
    }
    return {
        **kinds,
        "refused": report.refused,
        "report": str(screen.report_path) if screen.report_path else None,
        "shift_ms": report.shift_ms,
        "seconds": round(spent_s, 3),
        "rows_per_s": _rows_per_s(report, spent_s),
    }


def _sentences(report: Report, screen: Screen, spent_s: float) -> str:
    lines = [
        f"{kind:<12}{each.written:>12,} written {each.unchanged:>12,} unchanged "
        f"{each.refused:>12,} refused"
        for kind, each in report.counts.items()
    ]
    lines.append(f"in {spent_s:.1f} s, {_rows_per_s(report, spent_s):,} rows/s")
    if screen.report_path:
        lines.append(f"{report.refused:,} rows were refused; {screen.report_path} lists them all.")
    return "\n".join(lines)

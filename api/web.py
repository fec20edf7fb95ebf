"""Serves the pages of web/: the first page at /, the reference at /docs, and the files they need.

The files are read once, at start: they are small, and what a process serves is one version.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from api.deps import Wired
from feed.errors import Misconfigured
from storage.servers import people_to_be

FOLDER = Path(__file__).resolve().parents[1] / "web"
PEOPLE = 6
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    # Names carry no version, so a browser asks each time, and mostly hears 304.
    "Cache-Control": "no-cache",
    # The last two make the browser itself refuse markup that is made from text.
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "object-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class File:
    """One file of web/, ready to be sent; `etag` is the same on every node."""

    content: bytes
    media_type: str
    etag: str


def read_files(folder: Path = FOLDER) -> dict[str, File]:
    """Read every file that pages are made of, by its path below `folder`.

    Raises:
        Misconfigured: The pages are not there.
    """
    files = {
        path.relative_to(folder).as_posix(): _file(path)
        for path in sorted(folder.rglob("*"))
        if path.suffix in MEDIA_TYPES
    }
    if "index.html" not in files:
        raise Misconfigured(f"The pages are missing in {folder}: install the package again.")
    return files


def pages(files: Mapping[str, File]) -> APIRouter:
    """Build the routes of the pages; none of them needs an identity."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def first_page(request: Request) -> Response:
        """Give the first page."""
        return _sent(request, files["index.html"])

    @router.api_route("/docs", methods=["GET", "HEAD"])
    async def reference(request: Request) -> Response:
        """Give the reference of the HTTP surface, which reads /openapi.json."""
        return _sent(request, files["docs.html"])

    @router.get("/web/identity")
    async def identity(services: Wired) -> dict[str, Any]:
        """Say how callers are known here and, in dev only, whom one can be."""
        people = await _people(services) if services.settings.auth == "dev" else []
        return {"auth": services.settings.auth, "people": people}

    @router.api_route("/web/{path:path}", methods=["GET", "HEAD"])
    async def file(request: Request, path: str) -> Response:
        """Give a file of the pages."""
        if path not in files:
            raise HTTPException(404, "There is no such file.")
        return _sent(request, files[path])

    return router


def _file(path: Path) -> File:
    content = path.read_bytes()
    return File(content, MEDIA_TYPES[path.suffix], f'"{sha256(content).hexdigest()[:32]}"')


def _sent(request: Request, file: File) -> Response:
    headers = {**HEADERS, "ETag": file.etag}
    known = request.headers.get("if-none-match", "")
    if file.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


async def _people(services: Wired) -> list[dict[str, str]]:
    async with services.postgres.connection() as connection:
        found = await people_to_be(connection, limit=PEOPLE)
    return [{"id": str(id), "name": name} for id, name in found]

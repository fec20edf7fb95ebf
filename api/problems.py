"""Turns every error into a problem document (RFC 9457); installed once by `api.app`.

Nothing of the cause leaves with it: no stack trace, no SQL, no key of a cache.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from feed.errors import ForYouError, Unauthenticated, Unavailable

MEDIA_TYPE = "application/problem+json"
ERRORS_SHOWN = 20
RETRY_AFTER_S = 1

TITLES = {
    "unauthenticated": "Who is asking is not known",
    "forbidden": "Not allowed",
    "not_found": "Not found",
    "method_not_allowed": "Method not allowed",
    "invalid": "The request is wrong",
    "cursor_invalid": "The cursor is not valid",
    "cursor_mode_mismatch": "The cursor belongs to another mode",
    "conflict": "The request contradicts what is stored",
    "too_large": "The body is too large",
    "rate_limited": "Too many requests",
    "unavailable": "Temporarily not available",
    "internal": "Something went wrong here",
}
CODE_OF_STATUS = {
    400: "invalid",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    422: "invalid",
    429: "rate_limited",
    503: "unavailable",
}


def problem(
    scope: Scope,
    status: int,
    code: str,
    detail: str,
    *,
    errors: list[dict[str, str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Build the problem document for the request of this ASGI scope."""
    document: dict[str, Any] = {
        "type": f"urn:foryou:problem:{code}",
        "title": TITLES.get(code, TITLES["invalid"]),
        "status": status,
        "detail": printable(detail),
        "code": code,
        "request_id": scope.get("state", {}).get("request_id"),
    }
    if errors is not None:
        document["errors"] = errors
    return Response(orjson.dumps(document), status, headers, MEDIA_TYPE)


def printable(text: str) -> str:
    """Replace what UTF-8 cannot carry (lone surrogates), so that an answer can quote a request."""
    return text.encode("utf-8", "replace").decode("utf-8")


def install(app: FastAPI) -> None:
    """Answer every error of `app` with a problem document."""
    app.add_exception_handler(ForYouError, _on_own_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_exception)


def of_error(scope: Scope, error: ForYouError) -> Response:
    """Build the problem document of one of our own errors."""
    if isinstance(error, Unavailable):
        # The text may quote a driver; what a client can do about it is always the same.
        detail = "Something this answer depends on cannot be reached; try again in a moment."
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return problem(scope, 503, error.code, detail, headers=headers)
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else {}
    errors: list[dict[str, str]] | None = [] if error.status == 422 else None
    return problem(scope, error.status, error.code, str(error), errors=errors, headers=headers)


async def _on_own_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ForYouError)
    if error.status >= 500:
        request.state.line["error"] = f"{type(error).__name__}: {error}"
    return of_error(request.scope, error)


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [_described(each) for each in error.errors()[:ERRORS_SHOWN]]
    detail = "; ".join(f"{each['where']}: {each['detail']}" for each in found[:3])
    return problem(request.scope, 422, "invalid", detail, errors=found)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = CODE_OF_STATUS.get(error.status_code, "invalid")
    return problem(request.scope, error.status_code, code, str(error.detail), headers=error.headers)


def _described(error: Mapping[str, Any]) -> dict[str, str]:
    where = ".".join(str(part)[:80] for part in error["loc"])
    return {
        "where": printable(where),
        "code": error["type"],
        "detail": printable(str(error["msg"]).removeprefix("Value error, ")),
    }

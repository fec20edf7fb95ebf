"""Around every request: an id, one canonical log line, metrics, a bound on the body, no leaks."""

import logging
import re
from functools import cache
from time import perf_counter
from typing import Any
from uuid import uuid4

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import problem

GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
BODY_BYTES = 256 * 1024  # 10,000 characters of body, escaped, with media: far below
EVENTS_BODY_BYTES = 1024 * 1024  # 500 events
INGEST_BODY_BYTES = 32 * 1024 * 1024  # 10,000 lines
MODES_BODY_BYTES = 4 * 1024 * 1024  # 100,000 user ids
BODY_BYTES_OF = {
    "/api/v1/events": EVENTS_BODY_BYTES,
    "/api/v1/ingest": INGEST_BODY_BYTES,
}
MODES_PATH = "/api/v1/admin/modes"

logger = logging.getLogger("foryou.request")


class RequestMetrics:
    """How many requests were answered, how, and how fast; no ids in labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the metrics in `registry`."""
        labels = ("method", "route", "status")
        requests = Counter("foryou_http_requests", "Requests answered", labels, registry=registry)
        seconds = Histogram(
            "foryou_http_request_seconds",
            "Time to answer",
            ("method", "route"),
            registry=registry,
            buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
        )
        # A metric checks the labels it is asked for; each set of them is asked for once.
        self._requests = cache(requests.labels)
        self._seconds = cache(seconds.labels)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self._requests(method, route, str(status)).inc()
        self._seconds(method, route).observe(seconds)


class RequestLine:
    """Gives each request its id and writes its one log line; an unforeseen error becomes a 500."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        """Wrap `app`, counting in `metrics`."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        line = _opened_line(scope)
        answer = _Answer(send, line["request_id"])
        try:
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:
            line["error"] = "the client left before its request was read"
        except Exception as error:
            line["error"] = f"{type(error).__name__}: {error}"
            logger.exception("request %s failed", line["request_id"])
            if answer.status == 0:
                response = problem(
                    scope, 500, "internal", "The error is in the log of the service."
                )
                await response(scope, receive, answer.send)
        finally:
            self._close(scope, line, answer.status, perf_counter() - started)

    def _close(self, scope: Scope, line: dict[str, Any], status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.count(_known_method(scope["method"]), route, status, seconds)
        line |= {"route": route, "status": status, "ms": round(seconds * 1000, 2)}
        logger.info("request", extra=line)


class _Answer:
    """Passes the answer on, remembering its status and adding the request id."""

    def __init__(self, send: Send, request_id: str) -> None:
        self.status = 0
        self._send = send
        self._request_id = request_id

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._request_id
            headers.setdefault("Cache-Control", "no-store")  # one viewer's page is nobody else's
        await self._send(message)


class BodyBound:
    """Refuses a body beyond the bound of its path with 413, whether or not it says its length."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        bound = _body_bound(scope["path"])
        length = Headers(scope=scope).get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > bound:
            response = problem(scope, 413, "too_large", f"At most {bound} bytes are read here.")
            await response(scope, receive, send)
            return
        await self._app(scope, _Bounded(receive, bound), send)


def _body_bound(path: str) -> int:
    if path.startswith(MODES_PATH):
        return MODES_BODY_BYTES
    return BODY_BYTES_OF.get(path, BODY_BYTES)


class _Bounded:
    """A `receive` that counts."""

    def __init__(self, receive: Receive, bound: int) -> None:
        self._receive = receive
        self._bound = bound
        self._seen = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            if self._seen > self._bound:
                raise HTTPException(413, f"At most {self._bound} bytes are read here.")
        return message


def _opened_line(scope: Scope) -> dict[str, Any]:
    given = Headers(scope=scope).get("x-request-id", "")
    request_id = given if GIVEN_ID.fullmatch(given) else uuid4().hex
    line: dict[str, Any] = {"request_id": request_id, "method": scope["method"]}
    scope.setdefault("state", {}).update(request_id=request_id, line=line)
    return line


def _known_method(method: str) -> str:
    return method if method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD") else "other"

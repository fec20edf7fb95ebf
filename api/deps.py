"""What a route is given: the services of this process, the caller, and checked query names."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Request

from api.auth import Caller, Identify
from api.feed_metrics import FeedMetrics
from api.ids import LeasedIds
from api.lag import Lag
from feed.errors import Invalid
from feed.settings import Settings
from mixer.explain import Explain
from mixer.home_feed import HomeFeed
from mixer.seen import Impressions
from mixer.side_effects import SideEffects
from snapshots.cursor import CursorSigner
from storage.connections import Postgres, RedisClient


@dataclass(frozen=True)
class Services:
    """Everything a request may use, put together once by `api.app`."""

    settings: Settings
    identify: Identify
    postgres: Postgres
    redis: RedisClient
    ids: LeasedIds
    cursors: CursorSigner
    home_feed: HomeFeed
    effects: SideEffects
    explain: Explain
    impressions: Impressions
    lag: Lag
    feed_metrics: FeedMetrics


async def services_of(request: Request) -> Services:
    """Return the services of the process that serves this request."""
    services: Services = request.app.state.services
    return services


async def caller_of(request: Request) -> Caller:
    """Return who is asking.

    Raises:
        Unauthenticated: The request does not say, or does not prove it.
    """
    services: Services = request.app.state.services
    caller = services.identify(request.headers)
    request.state.line["user_id"] = str(caller.user_id)
    return caller


async def now() -> datetime:
    """Return the time of this request; the one clock of a route."""
    return datetime.now(UTC)


Wired = Annotated[Services, Depends(services_of)]
Asking = Annotated[Caller, Depends(caller_of)]
Now = Annotated[datetime, Depends(now)]


def query_is(*names: str) -> Any:
    """Accept only these query parameters, each at most once; anything else is 422, not ignored."""
    known = frozenset(names)

    async def check(request: Request) -> None:
        refuse_unknown(request, known)

    checked: Callable[[Request], Awaitable[None]] = check
    return Depends(checked)


def refuse_unknown(request: Request, known: frozenset[str]) -> None:
    """Refuse a query that says anything else, or anything twice.

    Raises:
        Invalid: It does.
    """
    given = [name for name, _ in request.query_params.multi_items()]
    unknown = sorted(set(given) - known)
    if unknown:
        raise Invalid(f"Unknown query parameter: {unknown[0][:80]!r}.")
    if len(given) != len(set(given)):
        raise Invalid("A query parameter is given more than once.")


def log_fields(request: Request) -> dict[str, Any]:
    """Return the fields of this request's one log line; a route adds what it did."""
    fields: dict[str, Any] = request.state.line
    return fields

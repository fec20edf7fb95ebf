"""A route that FastAPI documents but does not run: for what is asked hundreds of times a second.

Solving the dependencies and parameters of a route takes FastAPI 2.5 ms of processor time where a
page takes us 7 in all (docs/benchmarks.md). A plain route does the same in the same order in a
tenth of it; what it asks is said once, in the signature of its function.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, get_type_hints

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from api.deps import caller_of, refuse_unknown

M = TypeVar("M", bound=BaseModel)


class PlainRoute(APIRoute):
    """A route to a function (request, caller: Asking, query: a model) -> Response."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what FastAPI calls with each request."""
        function = self.endpoint
        model: type[BaseModel] = get_type_hints(function)["query"]
        known = frozenset(model.model_fields)

        async def handle(request: Request) -> Response:
            refuse_unknown(request, known)
            caller = await caller_of(request)
            response: Response = await function(request, caller, _read(request, model))
            return response

        return handle


def _read(request: Request, model: type[M]) -> M:
    """Read the query of a request.

    Raises:
        RequestValidationError: It is not one of this model.
    """
    try:
        return model.model_validate(dict(request.query_params))
    except ValidationError as error:
        found = [{**each, "loc": ("query", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(found) from None

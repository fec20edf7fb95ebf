"""Ways in which a stage goes wrong, and places where something broken is put in its place."""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from feed.candidates import Candidates, Found
from feed.order import MAX_ID
from mixer.home_feed import HomeFeed
from tests.integration.api_client import Client

Fault = Callable[[Any], Any]
"""From what a stage answers to what it answers instead."""


def raises(answer: Any) -> Any:
    """Fail as a bug does, before anything is done."""
    raise ValueError("broken")


def hangs(answer: Any) -> Any:
    """Never answer, nor do anything (`broken` sees to it)."""


def nothing(answer: Any) -> Any:
    """Answer None."""


def longer(answer: Any) -> Any:
    """Answer with a column that has a row more than the others."""
    if isinstance(answer, Found):
        return replace(answer, ids=np.append(answer.ids, 1))
    if isinstance(answer, Candidates):
        return answer.take(np.array([0, *range(len(answer))]))
    if isinstance(answer, dict):
        return {name: np.append(column, column[:1]) for name, column in answer.items()}
    return np.append(answer, answer[:1])


def nan(answer: Any) -> Any:
    """Answer with numbers that are none."""
    if isinstance(answer, Found):
        return replace(answer, ids=np.full(len(answer.ids), np.nan))
    if isinstance(answer, Candidates):
        return replace(answer, columns={**answer.columns, "score": np.full(len(answer), np.nan)})
    if isinstance(answer, dict):
        return {name: np.full(len(column), np.nan) for name, column in answer.items()}
    return np.full(len(answer), np.nan)


def empty(answer: Any) -> Any:
    """Answer that there is nothing, as if that were known."""
    if isinstance(answer, Found):
        return Found(answer.ids[:0], answer.ms[:0], answer.source)
    if isinstance(answer, Candidates):
        return answer.take(np.arange(0))
    return {} if isinstance(answer, dict) else answer[:0]


def twice(answer: Any) -> Any:
    """Answer with a row twice."""
    return [*answer, *answer[:1]]


def unasked(answer: Any) -> Any:
    """Answer with a row that nobody asked for."""
    return [*answer, replace(answer[0], id=MAX_ID)]


def broken(original: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    """Return a function that goes wrong in the place of another."""

    async def waiting(*args: Any, **named: Any) -> Any:
        if fault is hangs:
            await asyncio.Event().wait()
        return fault(None if fault is raises else await original(*args, **named))

    def direct(*args: Any, **named: Any) -> Any:
        return fault(None if fault is raises else original(*args, **named))

    return waiting if inspect.iscoroutinefunction(original) else direct


@dataclass(frozen=True)
class At:
    """A stage, the place where it is called, and what may go wrong there."""

    stage: str
    place: Callable[[HomeFeed], Any]
    method: str
    faults: tuple[Fault, ...]

    def goes_wrong(self, api: Client, fault: Fault, patch: pytest.MonkeyPatch) -> None:
        """Put something broken in its place."""
        owner = self.place(api.app.state.services.home_feed)
        patch.setattr(owner, self.method, broken(getattr(owner, self.method), fault))

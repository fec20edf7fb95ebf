"""The deadline of a request, and the breaker that spares a server which has just failed."""

import asyncio

import pytest
from redis.exceptions import ResponseError

from api.deadline import within
from feed.errors import NotFound, Unavailable
from storage.connections import Breaker

pytestmark = pytest.mark.anyio


async def test_an_answer_in_time_is_passed_on() -> None:
    async def work() -> int:
        return 7

    assert await within(10, work()) == 7


async def test_an_error_of_ours_is_passed_on() -> None:
    async def work() -> None:
        raise NotFound("no such post")

    with pytest.raises(NotFound):
        await within(10, work())


async def test_an_error_that_nobody_foresaw_is_logged_and_told_as_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        raise KeyError("author")

    with pytest.raises(Unavailable, match="author"):
        await within(10, work())
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_the_deadline_is_held_though_the_driver_does_not_give_in() -> None:
    """The work is still ending when the answer is given."""
    let_go, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await let_go.wait()
            ended.set()

    with pytest.raises(Unavailable):
        await within(0.01, work())
    assert not ended.is_set()
    let_go.set()
    await ended.wait()


async def test_a_breaker_tells_at_once_after_a_failure() -> None:
    breaker = Breaker(pause_s=60)
    with pytest.raises(Unavailable, match="lost"), breaker.calls():
        raise Unavailable("lost")
    with pytest.raises(Unavailable, match="a moment ago"), breaker.calls():
        raise AssertionError("a call was let through")


async def test_a_refusal_does_not_close_a_breaker() -> None:
    """One list of a wrong type must not keep everybody from the cache."""
    breaker = Breaker(pause_s=60)
    with pytest.raises(Unavailable, match="refuses"), breaker.calls():
        raise ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
    with breaker.calls():
        pass


async def test_a_breaker_lets_calls_through_again() -> None:
    breaker = Breaker(pause_s=1e-9)
    with pytest.raises(Unavailable), breaker.calls():
        raise Unavailable("lost")
    await asyncio.sleep(0.001)
    with breaker.calls():
        pass


async def test_a_deadline_that_runs_out_during_a_call_counts_as_a_failure() -> None:
    breaker = Breaker(pause_s=60)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            with breaker.calls():
                await asyncio.sleep(60)
    with pytest.raises(Unavailable), breaker.calls():
        raise AssertionError("a call was let through")

"""The fan-out worker: takes jobs from a lane's queue and performs the deliveries that they name.

`foryou worker --lane LANE` runs it, any number of times. An arq worker ends when Redis is away
for a moment; here it is started again. Retries, backoff and parking are ours (`fanout.tasks`), not
arq's.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Any

from arq.connections import ArqRedis
from arq.worker import Worker, func

from fanout.lifetime import PAUSE_S, paused, stop_on_signals
from fanout.queue import JOB, from_bytes, open_queue, to_bytes
from fanout.tasks import CONNECTIONS, Fanout
from feed.errors import Unavailable
from feed.settings import Settings
from storage import keys
from storage.connections import Postgres, open_redis
from storage.deliveries import LANES, Lane
from storage.feeds import Feeds

log = logging.getLogger(__name__)

POLL_S = 0.05
SLOW_JOBS_AT_ONCE = 2  # the second is read while the first is pushed
TIMEOUT_OF_LEASE = 0.8  # a job that is cut off has not outlived its lease
CANCEL_AGAIN_S = 0.5
LAST_JOBS_S = 3.0  # what runs at the end may finish within


async def run_worker(settings: Settings, lanes: Sequence[Lane] = LANES) -> None:
    """Run a worker for each lane until SIGINT or SIGTERM; a loss of a server is waited out."""
    logging.getLogger("arq").setLevel(logging.ERROR)  # it logs every job with all its arguments
    stop = stop_on_signals()
    await asyncio.gather(*(_run_lane(lane, settings, stop) for lane in lanes))


async def _run_lane(lane: Lane, settings: Settings, stop: asyncio.Event) -> None:
    """Work in one lane until `stop`; lanes share nothing, so that neither waits for the other."""
    async with AsyncExitStack() as stack:
        postgres = Postgres(
            settings.postgres_url, connections=CONNECTIONS, timeout_s=settings.lease_s / 2
        )
        await postgres.open()
        stack.push_async_callback(postgres.close)
        redis = open_redis(settings.redis_url)
        stack.push_async_callback(redis.aclose)
        client = open_queue(settings.queue)
        stack.push_async_callback(client.aclose)
        feeds = Feeds(redis, cap=settings.feed_cap)
        outboxes = Feeds(redis, cap=settings.outbox_cap)
        fanout = Fanout(postgres, feeds, settings, outboxes=outboxes)
        log.info("worker started", extra={"lane": lane})
        while not stop.is_set():
            await _work(arq_worker(lane, fanout, client, settings), stop)
    log.info("worker ended", extra={"lane": lane})


def arq_worker(
    lane: Lane, fanout: Fanout, client: ArqRedis, settings: Settings, *, burst: bool = False
) -> Worker:
    """Make an arq worker that performs the jobs of the relay in one lane."""

    async def deliver(ctx: dict[Any, Any], *arguments: Any, **named: Any) -> None:
        (ids,) = arguments
        started = perf_counter()
        try:
            n_done = await fanout.deliver(ids)
        except Unavailable as error:  # nothing is settled: the relay sends them again
            log.warning("delivery put off", extra={"n": len(ids), "error": str(error)})
            return
        spent_ms = round((perf_counter() - started) * 1000, 1)
        log.info("delivered", extra={"lane": lane, "n": len(ids), "n_done": n_done, "ms": spent_ms})

    return Worker(
        functions=[func(deliver, name=JOB)],
        redis_pool=client,
        queue_name=keys.queue(lane),
        burst=burst,
        handle_signals=False,
        max_jobs=SLOW_JOBS_AT_ONCE if lane == "slow" else settings.worker_jobs_at_once,
        job_timeout=settings.lease_s * TIMEOUT_OF_LEASE,
        keep_result=0,
        poll_delay=POLL_S,
        max_tries=1,
        retry_jobs=False,
        job_serializer=to_bytes,
        job_deserializer=from_bytes,
        log_results=False,
    )


async def _work(worker: Worker, stop: asyncio.Event) -> None:
    """Run a worker until it breaks or `stop`; then let its last jobs finish, for a moment."""
    working = asyncio.create_task(worker.async_run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if working.done() and (error := working.exception()):
        log.warning("worker: waiting", extra={"error": f"{type(error).__name__}: {error}"})
        await paused(stop, PAUSE_S)
    await _cancelled([working, stopping, *([worker.main_task] if worker.main_task else [])])
    await _finish_jobs(worker)


async def _finish_jobs(worker: Worker) -> None:
    jobs = list(worker.tasks.values())
    if jobs:
        await asyncio.wait(jobs, timeout=LAST_JOBS_S)
        await _cancelled(jobs)


async def _cancelled(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    """Cancel tasks until they have ended; a driver below now and then swallows the first try."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=CANCEL_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)  # looks at their errors, too

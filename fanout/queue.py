"""The queues between relay and workers, one a lane: arq as a disposable transport, JSON inside.

Postgres owns every delivery; a job only names some, and may be lost, late or run twice.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from arq.connections import ArqRedis

from storage import keys
from storage.connections import translated_errors
from storage.deliveries import Lane, Leased

JOB = "deliver"
TIMEOUT_S = 2.0


def to_bytes(job: dict[str, Any]) -> bytes:
    """Write a job as JSON; what JSON does not know is written as its repr."""
    return json.dumps(job, default=repr, separators=(",", ":")).encode()


def from_bytes(job: bytes) -> dict[str, Any]:
    """Read a job."""
    read: dict[str, Any] = json.loads(job)
    return read


def open_queue(url: str) -> ArqRedis:
    """Make a client of the queues; connections are opened on first use."""
    client: ArqRedis = ArqRedis.from_url(
        url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
    )
    client.job_serializer = to_bytes
    client.job_deserializer = from_bytes
    return client


class Queue:
    """The relay's end of the queue of one lane."""

    def __init__(self, client: ArqRedis, lane: Lane) -> None:
        """Put jobs on the queue of `lane` at `client`."""
        self.lane: Lane = lane
        self._client = client
        self._name = keys.queue(lane)

    async def n_jobs(self) -> int:
        """Count the jobs that wait or run."""
        with translated_errors():
            return int(await self._client.zcard(self._name))

    async def put(self, leased: Sequence[Leased]) -> bool:
        """Enqueue one job for these deliveries; False: this very job is there already."""
        ids = [each.id for each in leased]
        with translated_errors():
            job = await self._client.enqueue_job(
                JOB, ids, _job_id=job_id(leased), _queue_name=self._name
            )
        return job is not None


def job_id(leased: Sequence[Leased]) -> str:
    """Name a job by what it carries: the same deliveries under the same leases, the same job."""
    text = ",".join(f"{each.id}:{each.leases}" for each in leased)
    return hashlib.sha256(text.encode()).hexdigest()[:32]

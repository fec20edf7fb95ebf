"""What one request did, collected by the runner: milliseconds by stage, drops, degradations."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter


@dataclass
class Trace:
    """The measurements of one request, for its canonical log line and the metrics."""

    stage_ms: dict[str, float] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    degraded: list[str] = field(default_factory=list)
    n_candidates: int = 0
    building: bool = False

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the wall time of the block to `stage`."""
        start = perf_counter()
        try:
            yield
        finally:
            spent_ms = (perf_counter() - start) * 1000
            self.stage_ms[stage] = self.stage_ms.get(stage, 0.0) + spent_ms

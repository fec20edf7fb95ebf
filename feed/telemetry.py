"""What one request did, collected by the runner: milliseconds by stage, drops, degradations.

The api makes a trace for each feed request, and logs and counts it whatever became of the request.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter


@dataclass
class Trace:
    """The measurements of one request, for its canonical log line and the metrics.

    `relaxed` counts the rows at which a limit of a mixer rule gave way. `unfinished` are stages
    that are under way; when the request has failed, those that it failed in, the inner ones last.
    """

    stage_ms: dict[str, float] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    relaxed: dict[str, int] = field(default_factory=dict)
    degraded: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    n_candidates: int = 0
    building: bool = False

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the wall time of the block to `stage`, which is unfinished until it ends well."""
        start = perf_counter()
        self.unfinished.append(stage)
        try:
            yield
            self.unfinished.remove(stage)
        finally:
            spent_ms = (perf_counter() - start) * 1000
            self.stage_ms[stage] = self.stage_ms.get(stage, 0.0) + spent_ms

    def skip(self, stage: str) -> None:
        """Note that a stage failed, and that the request goes on without it."""
        self.degraded.append(stage)
        if stage in self.unfinished:
            self.unfinished.remove(stage)

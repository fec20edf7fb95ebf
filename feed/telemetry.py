"""What one request did, collected by the runner: milliseconds by stage, drops, degradations.

The api makes a trace for each feed request, and logs and counts it whatever became of the request.
"""

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

    def timed(self, stage: str) -> "_Timed":
        """Add the wall time of the block to `stage`, which is unfinished until it ends well."""
        return _Timed(self, stage)

    def skip(self, stage: str) -> None:
        """Note that a stage failed, and that the request goes on without it."""
        self.degraded.append(stage)
        if stage in self.unfinished:
            self.unfinished.remove(stage)


class _Timed:
    """A block that is timed: there are twenty in a request, so it is no generator."""

    __slots__ = ("_stage", "_start", "_trace")

    def __init__(self, trace: Trace, stage: str) -> None:
        self._trace = trace
        self._stage = stage

    def __enter__(self) -> None:
        self._trace.unfinished.append(self._stage)
        self._start = perf_counter()

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        trace, stage = self._trace, self._stage
        spent_ms = (perf_counter() - self._start) * 1000
        trace.stage_ms[stage] = trace.stage_ms.get(stage, 0.0) + spent_ms
        if error is None:
            trace.unfinished.remove(stage)

"""What the stages of feed requests did, counted for Prometheus from the trace of each request."""

from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram

from feed.telemetry import Trace
from mixer.logbook import Logbook
from mixer.side_effects import SideEffects


class FeedMetrics:
    """Times and counts by stage; the stages are those of the recipe, so that they are few."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the metrics in `registry`."""
        seconds = Histogram(
            "foryou_feed_stage_seconds",
            "Time that one feed request spent in a stage",
            ["stage"],
            registry=registry,
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2),
        )
        self._seconds = cache(seconds.labels)  # looking a stage up costs more than to count it
        self._failures = Counter(
            "foryou_feed_stage_failures",
            "Stages that a feed request went on without, or failed in",
            ["stage", "request"],
            registry=registry,
        )
        self._dropped = Counter(
            "foryou_feed_dropped_posts",
            "Candidates that a filter took out",
            ["filter"],
            registry=registry,
        )
        self._relaxed = Counter(
            "foryou_feed_relaxed_rows",
            "Rows of slates at which a limit of a mixer rule gave way",
            ["limit"],
            registry=registry,
        )

    def count(self, trace: Trace) -> None:
        """Count one feed request, however it ended."""
        for stage, spent_ms in trace.stage_ms.items():
            self._seconds(stage).observe(spent_ms / 1000)
        for stage in set(trace.degraded):
            self._failures.labels(stage, "degraded").inc()
        for stage in set(trace.unfinished):
            self._failures.labels(stage, "refused").inc()
        for name, n in trace.dropped.items():
            self._dropped.labels(name).inc(n)
        for name, n in trace.relaxed.items():
            self._relaxed.labels(name).inc(n)


def set_side_effects(registry: CollectorRegistry, effects: SideEffects, log: Logbook) -> None:
    """Give what this process left undone after its answers, in a registry for one scrape."""
    written = "Slates and chronological pages logged, to train on"
    Counter("foryou_log_written", written, registry=registry).inc(log.written)
    lost = "Slates and chronological pages that were not logged: too many, or Postgres was away"
    Counter("foryou_log_dropped", lost, registry=registry).inc(log.dropped)
    dropped = "Side effects that were too many at once"
    Counter("foryou_side_effects_dropped", dropped, registry=registry).inc(effects.dropped)
    failed = "Side effects that failed"
    Counter("foryou_side_effects_failed", failed, registry=registry).inc(effects.failed)

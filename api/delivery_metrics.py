"""Gauges of delivery, read from Postgres at each scrape: every api process says the same."""

from prometheus_client import CollectorRegistry, Gauge

from storage.audits import Audit
from storage.queue_state import QueueState


def set_gauges(registry: CollectorRegistry, state: QueueState) -> None:
    """Make the gauges in a registry that lives for one scrape."""

    def gauge(name: str, doc: str, *labels: str) -> Gauge:
        return Gauge(f"foryou_{name}", doc, labels, registry=registry)

    pending = gauge("deliveries_pending", "Deliveries owed", "lane")
    parked = gauge("deliveries_parked", "Deliveries given up on", "lane")
    age = gauge("delivery_age_seconds", "Age of the oldest delivery", "lane")
    for lane, owed in state.lanes.items():
        pending.labels(lane).set(owed.pending)
        parked.labels(lane).set(owed.parked)
        age.labels(lane).set(owed.age_s)
    gauge("lag_seconds", "Age of the oldest delivery that readers miss").set(state.lag_s)
    gauge("pull_threshold_followers", "Under lag, pulled from here up; 0: no lag").set(
        state.threshold or 0
    )
    authors = gauge("authors_pulled", "Authors whom readers pull", "because")
    for because, n in state.pulled.items():
        authors.labels(because).set(n)


def set_audit_gauges(registry: CollectorRegistry, audit: Audit | None) -> None:
    """Make the gauges of the newest audit; before the first there are none."""
    if audit is None:
        return
    found = Gauge(
        "foryou_feed_divergence", "Posts at fault in the last audit", ["kind"], registry=registry
    )
    for kind, n in audit.faults.items():
        found.labels(kind).set(n)
    Gauge("foryou_feed_audit_viewers", "Viewers in the last audit", registry=registry).set(
        audit.n_viewers
    )
    Gauge("foryou_feed_audit_age_seconds", "Age of the last audit", registry=registry).set(
        audit.age_s
    )

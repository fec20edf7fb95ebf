"""All settings, read once from FORYOU_* by an entry point and passed on as plain values."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from feed.errors import Misconfigured

VISIT_EVERY_S = 3600
"""A visit is stamped at most this often."""


def _setting(default: Any, doc: str, *, may_be_0: bool = False) -> Any:
    return field(default=default, metadata={"doc": doc, "may_be_0": may_be_0})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting with its default; FORYOU_ plus the upper-case name sets it from outside."""

    postgres_url: str = _setting("", "Postgres primary, as postgresql://user@host:port/name")
    redis_url: str = _setting("", "Redis or Valkey for feeds and snapshots, as redis://host:port/0")
    queue_url: str = _setting("", "Redis or Valkey for the job queue; empty: the same as redis_url")

    auth: Literal["jwt", "header", "dev"] = _setting("jwt", "How a caller is identified")
    jwt_algorithm: Literal["HS256", "RS256", "ES256"] = _setting("HS256", "The only accepted alg")
    jwt_key: str = _setting("", "HS256 secret (32 bytes or more), or a public key in PEM")
    cursor_keys: str = _setting("", "Secrets that sign cursors, comma-separated; the first signs")

    delivery: Literal["hybrid", "push", "pull"] = _setting("hybrid", "Who is pushed to")
    pull_from_followers: int = _setting(10_000, "From here up an author is pulled")
    push_below_followers: int = _setting(8_000, "Below here a pulled author is pushed again")
    switch_grace_s: float = _setting(
        10.0, "Readers know of a pulled author this long before writers stop pushing"
    )

    switch_policy: Literal["followers", "cost"] = _setting(
        "followers", "What decides for an author in hybrid delivery"
    )
    cost_push_below_followers: int = _setting(
        1_000, "By cost: below here an author is always pushed"
    )
    cost_pull_from_followers: int = _setting(
        50_000, "By cost: from here up an author is always pulled"
    )
    cost_insert_us: float = _setting(64.0, "Processor time of one insert into a feed")
    cost_lookup_us: float = _setting(840.0, "Processor time of reading one outbox at an open")
    cost_opens_per_day: float = _setting(
        3.0, "Opens of an active follower, where the log of served pages is empty"
    )
    cost_window_days: int = _setting(7, "Posts and opens of so many days are counted")
    cost_every_s: float = _setting(3600.0, "By cost: authors are measured this often")
    cost_dwell_s: float = _setting(
        86_400.0, "By cost: an author stays pushed or pulled at least so long"
    )

    lag_bound_s: float = _setting(10.0, "Delivery later than this is lag")
    lag_step_s: float = _setting(
        5.0, "Under lag the threshold of pulled authors halves at most this often"
    )
    lag_lowest_followers: int = _setting(1_000, "It does not fall below this")
    lag_recover_s: float = _setting(
        60.0, "It doubles after so long with less than half the lag, up to where it began"
    )

    feed_cap: int = _setting(
        500, "Entries kept in a pushed feed; trimmed to so many when it has a sixteenth more"
    )
    outbox_cap: int = _setting(500, "Entries kept in an author's outbox")
    feed_ttl_s: int = _setting(14 * 86400, "A feed expires this long after the last visit")
    outbox_ttl_s: int = _setting(14 * 86400, "An outbox expires this long after the last read")
    outbox_held_s: float = _setting(
        1.0, "Outboxes that were read are held by a process for so long"
    )
    outboxes_held: int = _setting(1_000, "So many outboxes are held at most, about 10 kB each")
    building_ttl_s: int = _setting(30, "A rebuild that has not finished by then is forgotten")
    inactive_after_s: int = _setting(
        30 * 86400, "Followers not seen for this long are left out of fan-out"
    )
    rebuilds_at_once: int = _setting(
        4, "Lists that all processes together rebuild at the same time"
    )

    fanout_page: int = _setting(1_000, "Followers pushed to by one script call")
    relay_poll_s: float = _setting(0.05, "Pause of the relay when nothing is due")
    relay_batch: int = _setting(200, "Deliveries carried by one job")
    relay_batch_slow: int = _setting(
        8, "The same in the slow lane: few, so that workers share one large post"
    )
    lease_s: float = _setting(10.0, "A delivery not finished by then is sent again")
    queue_bound: int = _setting(1_000, "Jobs in the fast queue at which the relay waits")
    queue_bound_slow: int = _setting(
        8,
        "The same in the slow lane: what waits for longer than its lease is sent again. "
        "With more than four workers in that lane, twice as many as workers",
    )
    failures_until_parked: int = _setting(
        8, "Failures after which a delivery is parked with its error"
    )
    worker_jobs_at_once: int = _setting(
        8, "Jobs that one worker process of the fast lane runs at the same time"
    )

    page_limit: int = _setting(20, "Items on a page when the client does not say")
    page_limit_max: int = _setting(50, "Items on a page at most")
    candidates: int = _setting(500, "Newest posts considered for a slate")
    scan_bound: int = _setting(200, "Rows looked at to fill one page")
    snapshot_ttl_s: int = _setting(900, "A snapshot lives this long after its last page")
    snapshots_per_viewer: int = _setting(8, "Open snapshots kept for one viewer")
    served_memory: int = _setting(2_000, "Posts remembered as served along one chain of cursors")
    served_memory_ttl_s: int = _setting(86_400, "How long they are remembered")
    seen_kept: int = _setting(1_000, "Impressions remembered for one viewer, the latest")
    seen_memory_s: int = _setting(7 * 86400, "How long they are remembered")
    profiles: str = _setting("", "TOML file of ranking profiles; empty: the one that comes along")
    profile: str = _setting("default", "The profile in force")
    discoveries: int = _setting(50, "Posts from outside the network that each source finds")
    likers: int = _setting(100, "Closest followees whose likes are looked at")
    popular_from: float = _setting(
        3.0, "Engagement, as it counts now, from which a post is popular: a like counts 1, halving"
    )
    heavy_k: int = _setting(200, "The light ranker's best, which the heavy ranker orders")
    heavy_deadline_ms: int = _setting(
        50, "Time for the heavy ranker; without it the light one's order is served"
    )
    side_effects_at_once: int = _setting(
        64, "Rebuilds, and as many visits, waiting beside the requests"
    )
    fallbacks_at_once: int = _setting(
        4, "Requests that one process lets read from Postgres at once what cached lists lack"
    )
    redis_timeout_s: float = _setting(0.15, "A cache that is slower than this is read around")
    redis_pause_s: float = _setting(1.0, "A cache that failed is left alone for this long")
    budget_ms: int = _setting(
        1_000, "Time for one feed request; what is late is skipped or refused"
    )

    future_clamp_s: int = _setting(300, "A created_at further in the future is refused")
    affinity_half_life_s: int = _setting(30 * 86400, "Strength of an affinity halves in this time")
    aggregate_every_s: float = _setting(0.5, "Pause between two folds of counters and affinity")
    log_keep_days: int = _setting(
        90, "What was served and what was folded is kept for so many days, to train on"
    )
    slates_with_features: float = _setting(
        0.1,
        "Share of ranked opens whose features are logged as well, to train on; 0: of none",
        may_be_0=True,
    )
    slate_rows_logged: int = _setting(100, "The first rows of a slate, which are logged")
    slate_others_logged: int = _setting(20, "Further rows that are logged, drawn by lot")
    log_queue: int = _setting(
        1_000,
        "Pages and slates that one process holds until they are logged, more are dropped; "
        "0: none is logged",
        may_be_0=True,
    )
    outbox_keep_s: int = _setting(2 * 3600, "Delivered outbox events are kept this long")
    audit_every_s: float = _setting(60.0, "A few feeds are compared with the truth this often")
    audit_viewers: int = _setting(10, "Viewers whose feeds are compared each time")
    receipts_keep_s: int = _setting(30 * 86400, "How far a post got can be asked for this long")

    def __post_init__(self) -> None:
        """Check what can be checked without a server."""
        if self.push_below_followers > self.pull_from_followers:
            raise Misconfigured(
                "FORYOU_PUSH_BELOW_FOLLOWERS must not be above FORYOU_PULL_FROM_FOLLOWERS "
                f"({self.push_below_followers} > {self.pull_from_followers}): lower the first."
            )
        if self.cost_push_below_followers > self.cost_pull_from_followers:
            raise Misconfigured(
                "FORYOU_COST_PUSH_BELOW_FOLLOWERS must not be above "
                "FORYOU_COST_PULL_FROM_FOLLOWERS: lower the first."
            )
        if self.feed_ttl_s + VISIT_EVERY_S > self.inactive_after_s:
            # A feed that outlives its reader's activity would miss posts and look complete.
            raise Misconfigured(
                "FORYOU_FEED_TTL_S plus an hour must not be above FORYOU_INACTIVE_AFTER_S "
                f"({self.feed_ttl_s} + {VISIT_EVERY_S} > {self.inactive_after_s}): lower the first."
            )
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int | float) or (value == 0 and each.metadata["may_be_0"]):
                continue
            if value <= 0:
                raise Misconfigured(f"FORYOU_{each.name.upper()} must be above 0, it is {value}.")

    @property
    def queue(self) -> str:
        """The URL of the job queue."""
        return self.queue_url or self.redis_url


def read_settings(environ: Mapping[str, str], **overrides: Any) -> Settings:
    """Read the settings from an environment; `overrides` (of the command line) win.

    Raises:
        Misconfigured: An unknown FORYOU_ name, or a value of the wrong kind.
    """
    hints = typing.get_type_hints(Settings)
    values: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith("FORYOU_"):
            continue
        key = name.removeprefix("FORYOU_").lower()
        if key not in hints:
            raise Misconfigured(f"{name} is not a setting; docs/settings.md lists them all.")
        values[key] = _parse(name, text, hints[key])
    return Settings(**{**values, **{k: v for k, v in overrides.items() if v is not None}})


def _parse(name: str, text: str, kind: Any) -> Any:
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if text not in choices:
            raise Misconfigured(f"{name} must be one of {', '.join(choices)}, it is {text!r}.")
        return text
    try:
        return kind(text)
    except ValueError:
        what = "whole number" if kind is int else "number"
        raise Misconfigured(f"{name} must be a {what}, it is {text!r}.") from None

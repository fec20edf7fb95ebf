"""Every Redis key: its name, owner, bound and lifetime.

A viewer's own keys share the hash tag {viewer}, so that one open touches one cluster slot.
Every key has a bound or a TTL; the figures are settings, named here.

key                      owner            what                           bound; TTL
feed:{viewer}            storage.feeds    ZSET id -> ms, and a sentinel  feed_cap + 1/16; feed_ttl_s
outbox:{author}          storage.feeds    the same                       the same; outbox_ttl_s
snap:{viewer}:ID         snapshots.store  packed slate                   one slate; snapshot_ttl_s
snaps:{viewer}           snapshots.store  ZSET of open snapshots         snapshots_per_viewer; same
trace:{viewer}:ID        snapshots.traces packed rows it was made from   one slate; snapshot_ttl_s
chain:{viewer}:ID:NONCE  snapshots.store  packed ids looked at           served_memory(_ttl_s)
seen:{viewer}            storage.seen     header, packed impressions     seen_kept; seen_memory_s
feeds:run_id             storage.restarts run id, delivered until when   one value
feeds:alive              storage.feeds    nothing: can one write?        one value; a second
foryou:deliveries:LANE   arq (queue_url)  ZSET of jobs that wait         queue_bound; none
arq:*                    arq (queue_url)  the jobs                       queue_bound; a day
"""

from collections.abc import Iterable

RUN_ID = "feeds:run_id"
"""Under which run of the server the cached lists were written, and what is in them."""

ALIVE = "feeds:alive"
"""Written to see whether the server takes writes."""

FEED_PATTERN = "feed:{*}"
OUTBOX_PATTERN = "outbox:{*}"
SEEN_PATTERN = "seen:{*}"


def queue(lane: str) -> str:
    """Name the arq queue of a lane of deliveries."""
    return f"foryou:deliveries:{lane}"


def feed(viewer_id: int) -> str:
    """Name the pushed feed of a viewer."""
    return f"feed:{{{viewer_id}}}"


def outbox(author_id: int) -> str:
    """Name the outbox of an author."""
    return f"outbox:{{{author_id}}}"


def snapshot(viewer_id: int, snapshot_id: str) -> str:
    """Name one frozen slate of a viewer."""
    return f"snap:{{{viewer_id}}}:{snapshot_id}"


def snapshots_of(viewer_id: int) -> str:
    """Name the list of a viewer's open snapshots, by last use."""
    return f"snaps:{{{viewer_id}}}"


def trace(viewer_id: int, snapshot_id: str) -> str:
    """Name what one frozen slate of a viewer was made from."""
    return f"trace:{{{viewer_id}}}:{snapshot_id}"


def seen(viewer_id: int) -> str:
    """Name the memory of what was on a viewer's screen."""
    return f"seen:{{{viewer_id}}}"


def of_user(user_id: int, snapshot_ids: Iterable[str]) -> list[str]:
    """Name everything of one user, but for chains: their names hold a nonce too."""
    named = [feed(user_id), outbox(user_id), snapshots_of(user_id), seen(user_id)]
    slates = [key for id in snapshot_ids for key in (snapshot(user_id, id), trace(user_id, id))]
    return named + slates


def chain(viewer_id: int, snapshot_id: str, nonce: str) -> str:
    """Name what a chain of cursors was served up to and within one snapshot."""
    return f"chain:{{{viewer_id}}}:{snapshot_id}:{nonce}"

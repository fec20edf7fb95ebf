"""Every Redis key: its name, owner, bound and lifetime.

A viewer's own keys share the hash tag {viewer}, so that one open touches one cluster slot.
Every key has a bound or a TTL; the figures are settings, named here.

key                     owner                what                            bound; TTL
feed:{viewer}           storage.feeds        ZSET id -> ms, and a sentinel   feed_cap; feed_ttl_s
outbox:{author}         storage.feeds        ZSET id -> ms, and a sentinel   outbox_cap; outbox_ttl_s
snap:{viewer}:ID        snapshots.store      packed slate                    one slate; snapshot_ttl_s, sliding
snaps:{viewer}          snapshots.store      ZSET of the open snapshot ids   snapshots_per_viewer; snapshot_ttl_s
chain:{viewer}:ID:NONCE snapshots.store      packed ids looked at, in order  served_memory; served_memory_ttl_s
arq:*                   arq (queue_url)      jobs                            queue_bound; a day
"""

QUEUE = "foryou:deliveries"
"""The arq queue of deliveries."""

FEED_PATTERN = "feed:{*}"
OUTBOX_PATTERN = "outbox:{*}"


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


def chain(viewer_id: int, snapshot_id: str, nonce: str) -> str:
    """Name what a chain of cursors was served up to and within one snapshot."""
    return f"chain:{{{viewer_id}}}:{snapshot_id}:{nonce}"

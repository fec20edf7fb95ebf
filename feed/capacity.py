"""Capacity arithmetic: what a product's own numbers mean in writes, lookups and memory.

Pure; `foryou plan` prints it. Average followers and average followees are one number here, since
every follow has two ends.
"""

from dataclasses import dataclass

S_PER_DAY = 86_400


@dataclass(frozen=True)
class Product:
    """What a product knows of itself: people a day, what each does, and how uneven a day is."""

    dau: int
    opens_per_dau: float
    posts_per_dau: float
    avg_followers: float
    peak_factor: float = 3.0


@dataclass(frozen=True)
class LargeAccounts:
    """The accounts that would be pulled, and how many of them one reader follows."""

    accounts: int
    avg_followers: float
    posts_per_day: float
    followed_per_reader: float


@dataclass(frozen=True)
class Rate:
    """How often something happens."""

    per_day: float
    peak_factor: float

    @property
    def per_s(self) -> float:
        """The average over a day."""
        return self.per_day / S_PER_DAY

    @property
    def per_s_peak(self) -> float:
        """The busiest time of a day."""
        return self.per_s * self.peak_factor


@dataclass(frozen=True)
class Hybrid:
    """Push for most, pull for the large: what it saves, and what it costs each open."""

    inserts_avoided_per_day: float
    share_avoided: float
    push_inserts: Rate
    calls_per_open: float
    calls: Rate


def opens(product: Product) -> Rate:
    """Return how often a feed is opened."""
    return Rate(product.dau * product.opens_per_dau, product.peak_factor)


def posts(product: Product) -> Rate:
    """Return how often a post is written."""
    return Rate(product.dau * product.posts_per_dau, product.peak_factor)


def reads_per_post(product: Product) -> float:
    """Return how many opens there are for each post: the higher, the better push pays."""
    return opens(product).per_day / posts(product).per_day


def push_inserts(product: Product) -> Rate:
    """Return the inserts into feeds when every post is pushed to every follower."""
    return Rate(posts(product).per_day * product.avg_followers, product.peak_factor)


def pull_lookups(product: Product) -> Rate:
    """Return the lookups of authors when every open asks every followee."""
    return Rate(opens(product).per_day * product.avg_followers, product.peak_factor)


def score_evaluations(product: Product, candidates: int) -> Rate:
    """Return how often the light ranker scores a post, for this many candidates an open."""
    return Rate(opens(product).per_day * candidates, product.peak_factor)


def hybrid(product: Product, large: LargeAccounts) -> Hybrid:
    """Return what pulling the large accounts leaves; an open calls for the feed and each outbox."""
    avoided = large.accounts * large.avg_followers * large.posts_per_day
    pushed = push_inserts(product).per_day
    calls_per_open = 1 + large.followed_per_reader
    return Hybrid(
        inserts_avoided_per_day=avoided,
        share_avoided=avoided / pushed,
        push_inserts=Rate(pushed - avoided, product.peak_factor),
        calls_per_open=calls_per_open,
        calls=Rate(opens(product).per_day * calls_per_open, product.peak_factor),
    )


def fan_out_s(followers: float, inserts_per_s: float) -> float:
    """Return how long one post to this many followers takes at a rate of inserts."""
    return followers / inserts_per_s


def feed_bytes(active_feeds: int, cap: int, bytes_per_entry: float) -> float:
    """Return the memory of full feeds; about 20 bytes an entry while packed, 84 when not."""
    return active_feeds * cap * bytes_per_entry

"""THE RECIPE of the home feed, and its two requests: open a feed, and give the next page."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic

from candidate_sources.author_outboxes import AuthorOutboxes
from candidate_sources.below_floor import BelowFloor
from candidate_sources.followed_posts import FollowedPosts
from candidate_sources.network_likes import NetworkLikes
from candidate_sources.own_posts import OwnPosts
from candidate_sources.popular import Popular
from candidate_sources.pushed_feed import PushedFeed
from feed.profile import Profile
from feed.query import Mode, ModeReason
from feed.settings import Settings
from feed.telemetry import Trace
from mixer.chains import Chains
from mixer.chronological import ChronologicalFeed
from mixer.emptiness import Emptiness
from mixer.facts import KnownFacts
from mixer.filters import Deleted, Doubles, HiddenAuthors, Unfollowed
from mixer.heavy import HeavyRanker
from mixer.hydrators import Affinity, PostSignals
from mixer.logbook import Logbook, Logged
from mixer.models import Models
from mixer.page import Page
from mixer.pipeline import Pipeline, Ranking
from mixer.profiles import Profiles
from mixer.ranked import Bounds, RankedFeed, Rooms
from mixer.rules import (
    AuthorDecay,
    Limit,
    NewAuthor,
    OneOriginal,
    OutOfNetwork,
    SeenLater,
    Spacing,
)
from mixer.safety import Safety
from mixer.seen import Screens, SeenMemory, ViewersWithSeen
from mixer.side_effects import SideEffects
from mixer.updates import NewPosts
from mixer.upkeep import Upkeep
from rankers.heavy import Heavy
from rankers.light import light_ranker
from snapshots.cursor import Cursor
from snapshots.store import SnapshotStore
from snapshots.traces import TraceStore
from storage.connections import Breaker, Postgres, RedisClient
from storage.discovery import PostgresDiscovery
from storage.facts import PostgresViewers
from storage.feeds import Feeds
from storage.hot_lists import HotLists
from storage.moments import Moments
from storage.page import PageReader
from storage.rebuild import Rebuild
from storage.seen import SeenRebuild, SeenStore
from storage.served import ServedLog
from storage.slates import LearningLog
from storage.timelines import PostgresTimelines

REBUILD_PATIENCE_S = 1.0  # whoever gets no slot leaves a missing list to the next read

POPULAR_EVERY_S = 5.0
"""What is popular is read again after so long, once for all requests of a process."""


def home_feed(
    feeds: Feeds,
    outboxes: Feeds,
    timelines: PostgresTimelines,
    discovery: PostgresDiscovery,
    settings: Settings,
) -> Pipeline:
    """Return the stages that gather the home feed, in the order in which they run."""
    return Pipeline(
        sources=[
            PushedFeed(feeds),
            AuthorOutboxes(
                HotLists(
                    outboxes,
                    bound=settings.outboxes_held,
                    for_s=settings.outbox_held_s,
                    clock=monotonic,
                )
            ),
            FollowedPosts(timelines),  # nobody, unless the whole product pulls
            OwnPosts(timelines),
        ],
        discoveries=[
            NetworkLikes(discovery, n=settings.discoveries, likers=settings.likers),
            Popular(discovery, n=settings.discoveries, every_s=POPULAR_EVERY_S, clock=monotonic),
        ],
        gap_filler=BelowFloor(timelines),
        hydrators=[PostSignals(timelines), Affinity()],
        filters=[Deleted(), HiddenAuthors(), Unfollowed(), Doubles()],
        fills=asyncio.Semaphore(settings.fallbacks_at_once),
        source_deadline_s=settings.budget_ms / 1000 / 4,
        fill_deadline_s=settings.budget_ms / 1000 / 2,
    )


def ranking(profile: Profile, *, seen_memory_s: int = 7 * 86_400) -> Ranking:
    """Return what orders the home feed under a profile, in the order in which it is applied."""
    author, oon, seen = profile.author, profile.out_of_network, profile.seen
    return Ranking(
        version=profile.version,
        hydrators=[
            SeenMemory(
                half_life_h=seen.half_life_h,
                author_half_life_h=author.memory_half_life_h,
                memory_s=seen_memory_s,
            )
        ],
        scorer=light_ranker(profile),
        rules=[
            Heavy(),  # by what the model said of the light ranker's best (`mixer.heavy`)
            OneOriginal(),
            OutOfNetwork(factor=oon.factor),
            SeenLater(factor=seen.factor),
            AuthorDecay(decay=author.decay, floor=author.floor),
            Spacing(
                Limit(name="author_run", column="author", run=author.run),
                Limit(
                    name="out_of_network",
                    column="out_of_network",
                    value=True,
                    run=oon.run,
                    share=oon.share,
                ),
                Limit(name="format_run", column="format", run=profile.format.run),
            ),
            NewAuthor(slot=profile.new_author.slot, days=profile.new_author.days),
        ],
    )


@dataclass(frozen=True)
class Opening:
    """One opening of a feed: by whom, in which mode and why, under which new session."""

    viewer_id: int
    requested: str
    mode: Mode
    mode_reason: ModeReason
    session_id: str
    limit: int
    now_ms: int


class HomeFeed:
    """Opens feeds and turns their pages; `build` puts it together."""

    def __init__(
        self,
        ranked: RankedFeed,
        chronological: ChronologicalFeed,
        emptiness: Emptiness,
        new_posts: NewPosts,
        logbook: Logbook,
        heavy: HeavyRanker,
    ) -> None:
        """Answer in one of two modes; both read through the same recipe."""
        self._ranked = ranked
        self._chronological = chronological
        self._emptiness = emptiness
        self.new_posts = new_posts
        self.logbook = logbook
        self.heavy = heavy

    async def open(self, opening: Opening, trace: Trace) -> Page:
        """Return the first page of a new session; `trace` learns what was done for it.

        Raises:
            Unavailable: The truth cannot be reached.
        """
        cursor = Cursor(
            viewer_id=opening.viewer_id,
            requested=opening.requested,
            part="slate" if opening.mode == "ranked" else "chronological",
            session_id=opening.session_id,
            opened_ms=opening.now_ms,
            mode_reason=opening.mode_reason,
        )
        if opening.mode == "ranked":
            page = await self._ranked.open(cursor, opening.limit, opening.now_ms, trace)
        else:
            page = await self._chronological.page(cursor, opening.limit, opening.now_ms, trace)
        if page.items or page.next:
            return page
        return replace(page, empty_because=await self._emptiness.reason(opening.viewer_id))

    async def next(self, cursor: Cursor, limit: int, now_ms: int, trace: Trace) -> Page:
        """Return the page at a cursor; `trace` learns what was done for it.

        Raises:
            Unavailable: The truth cannot be reached.
        """
        if cursor.part == "chronological":
            return await self._chronological.page(cursor, limit, now_ms, trace)
        return await self._ranked.next(cursor, limit, now_ms, trace)


def build(
    settings: Settings, postgres: Postgres, redis: RedisClient, *, token: Callable[[], str]
) -> tuple[HomeFeed, SideEffects]:
    """Put a home feed together on open stores; `token` makes fresh ids that nobody can guess."""
    effects = SideEffects(bound=settings.side_effects_at_once, deadline_s=settings.building_ttl_s)
    wait_s = settings.budget_ms / 1000 / 4
    guard = Breaker(pause_s=settings.redis_pause_s).calls
    feeds = Feeds(redis, cap=settings.feed_cap, guard=guard)
    outboxes = Feeds(redis, cap=settings.outbox_cap, guard=guard)
    timelines = PostgresTimelines(postgres)
    viewers = PostgresViewers(postgres, half_life_s=settings.affinity_half_life_s)
    safety = Safety(PageReader(postgres), scan=settings.scan_bound)
    discovery = PostgresDiscovery(postgres, per_author=2, least=settings.popular_from)
    pipeline = home_feed(feeds, outboxes, timelines, discovery, settings)
    profiles = Profiles(settings.profiles, settings.profile, clock=monotonic)
    upkeep = Upkeep(
        effects,
        postgres,
        feeds,
        Rebuild(postgres, feeds, outboxes, settings, patience_s=REBUILD_PATIENCE_S),
        token=token,
        at_once=settings.rebuilds_at_once,
        feed_ttl_s=settings.feed_ttl_s,
        outbox_ttl_s=settings.outbox_ttl_s,
    )
    snapshots = SnapshotStore(
        redis,
        ttl_s=settings.snapshot_ttl_s,
        per_viewer=settings.snapshots_per_viewer,
        chain_ttl_s=settings.served_memory_ttl_s,
        guard=guard,
    )
    seen = SeenStore(redis, kept=settings.seen_kept, memory_s=settings.seen_memory_s, guard=guard)
    rebuilt_seen = SeenRebuild(
        postgres,
        seen,
        at_once=settings.rebuilds_at_once,
        building_ttl_s=settings.building_ttl_s,
    )
    facts = KnownFacts(Moments(postgres, half_life_s=settings.affinity_half_life_s))
    logbook = Logbook(
        effects,
        LearningLog(postgres),
        facts,
        Logged(
            rows=settings.slate_rows_logged,
            others=settings.slate_others_logged,
            with_features=settings.slates_with_features,
            bound=settings.log_queue,
        ),
    )
    traces = TraceStore(redis, ttl_s=settings.snapshot_ttl_s, guard=guard)
    heavy = HeavyRanker(
        Models(postgres, warm_rows=settings.heavy_k),
        facts,
        k=settings.heavy_k,
        deadline_s=settings.heavy_deadline_ms / 1000,
    )
    ranked = RankedFeed(
        pipeline,
        partial(ranking, seen_memory_s=settings.seen_memory_s),
        safety,
        Rooms(
            profiles,
            viewers,
            ViewersWithSeen(
                viewers,
                Screens(effects, seen, rebuilt_seen, token=token),
                deadline_s=wait_s,
            ),
            heavy,
            timelines,
            snapshots,
            Chains(snapshots, ServedLog(postgres), wait_s=wait_s),
            upkeep,
            lambda trace: effects.start("trace", traces.keep(trace)),
            logbook,
        ),
        Bounds(candidates=settings.candidates, served_memory=settings.served_memory, wait_s=wait_s),
        token=token,
    )
    chronological = ChronologicalFeed(pipeline, safety, viewers, upkeep, logbook)
    emptiness = Emptiness(viewers, timelines)
    new_posts = NewPosts(viewers, timelines, safety)
    return HomeFeed(ranked, chronological, emptiness, new_posts, logbook, heavy), effects

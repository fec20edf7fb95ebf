"""What the write side decides, as pure functions: to whom, in what chunks, push or pull, when."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal, NamedTuple

from feed.order import MAX_ID
from feed.settings import Settings
from storage.costs import AuthorCost

FIRST_RETRY_S = 0.25
LAST_RETRY_S = 60.0


class Reached(NamedTuple):
    """How far a post got: feeds that took it, and followers left out as inactive."""

    n_feeds: int = 0
    n_inactive: int = 0


@dataclass(frozen=True)
class Done:
    """A delivery has nothing left to do; `reached` when it brought a post somewhere."""

    reached: Reached | None = None


@dataclass(frozen=True)
class Again:
    """A delivery goes on after a while, from `after_follower` on; that is no failure."""

    after_s: float
    after_follower: int = 0


@dataclass(frozen=True)
class Split:
    """A delivery is replaced by one for each range (after, until] of an author's followers.

    `pull_meanwhile`: readers pull the author until these are done.
    """

    author_id: int
    ranges: Sequence[tuple[int, int]]
    pull_meanwhile: bool = False


@dataclass(frozen=True)
class PutBack:
    """A delivery was not begun, for lack of time; it is due again at once."""


Outcome = Done | Again | Split | PutBack


def follower_ranges(ends: Sequence[int]) -> list[tuple[int, int]]:
    """Cover all follower ids by ranges (after, until] that end at `ends`, ascending.

    The last one is open, so that who follows later is in one of them too.

    >>> follower_ranges([10, 20])
    [(0, 10), (10, 20), (20, 9223372036854775807)]
    """
    return list(zip([0, *ends], [*ends, MAX_ID], strict=True))


def retry_after_s(failures: int, jitter: float) -> float:
    """Wait twice as long after each of `failures` >= 1, spread by `jitter` in [0, 1).

    >>> retry_after_s(1, 0.0), retry_after_s(3, 0.0), retry_after_s(99, 0.0)
    (0.25, 1.0, 60.0)
    """
    waited_s: float = min(FIRST_RETRY_S * 2 ** min(failures - 1, 20), LAST_RETRY_S)
    return waited_s * (1 + 0.5 * jitter)


def reaches_followers(delivery: str, readers_pull: bool) -> bool:
    """Say whether a post goes into its followers' feeds, and not only into its author's outbox.

    A post that was meant to be pulled is pushed all the same when its author is no longer
    pulled by readers: a push too many costs a little, one too few loses the post.
    """
    return delivery == "push" or not readers_pull


def takes_slow_lane(followers: int, threshold: int | None) -> bool:
    """Say whether posts of an author with so many followers wait behind others, under lag.

    >>> takes_slow_lane(5_000, 5_000), takes_slow_lane(4_999, 5_000), takes_slow_lane(5_000, None)
    (True, False, False)
    """
    return threshold is not None and followers >= threshold


def is_calm(lag_s: float, settings: Settings) -> bool:
    """Say whether so little lag lets the threshold rise, when it lasts."""
    return lag_s < settings.lag_bound_s / 2


def next_threshold(
    threshold: int | None, *, lag_s: float, changed_s: float, calm_s: float, settings: Settings
) -> int | None:
    """Halve the threshold while delivery is late, double it after a long calm.

    Args:
        threshold: Followers from which posts take the slow lane; None: no pressure.
        lag_s: Age of the oldest delivery that readers miss.
        changed_s: Since the threshold was last changed.
        calm_s: Since the lag was last not calm.
        settings: The bounds; only `hybrid` delivery knows pressure.
    """
    highest, _ = thresholds(settings)  # from here up an author is pulled anyway
    if settings.delivery != "hybrid":
        return None
    if lag_s > settings.lag_bound_s:
        if changed_s < settings.lag_step_s:
            return threshold
        lower = min(threshold or highest, highest) // 2
        return min(max(lower, settings.lag_lowest_followers), highest)
    if threshold is None or min(changed_s, calm_s) < settings.lag_recover_s:
        return threshold
    return threshold * 2 if threshold * 2 < highest else None


class Step(Enum):
    """The next step of an author between push and pull."""

    STAY = auto()
    TELL_READERS = auto()  # readers pull too, writers still push
    WAIT = auto()  # until every reader knows
    STOP_PUSHING = auto()  # writers pull
    PUSH_AGAIN = auto()  # writers push, then a backfill, then readers stop pulling


def thresholds(settings: Settings) -> tuple[int, int]:
    """Return (pull from, push below) in followers; with delivery `push` nobody is pulled.

    By cost these are the hard bounds between which the cost decides.
    """
    if settings.delivery == "push":
        return (2**31, 2**31)
    if settings.switch_policy == "cost":
        return (settings.cost_pull_from_followers, settings.cost_push_below_followers)
    return (settings.pull_from_followers, settings.push_below_followers)


def push_ms(cost: AuthorCost, settings: Settings) -> float:
    """Return the milliseconds of processor time a day of pushing: each post into each feed."""
    return cost.posts_per_day * cost.active_followers * settings.cost_insert_us / 1000


def pull_ms(cost: AuthorCost, settings: Settings) -> float:
    """Return the milliseconds of processor time a day of pulling: a look-up at each open."""
    opens = cost.opens_per_day
    if opens is None:
        opens = cost.active_followers * settings.cost_opens_per_day
    return opens * settings.cost_lookup_us / 1000


def pull_is_cheap(cost: AuthorCost, settings: Settings) -> bool:
    """Say whether pulling an author costs less than pushing.

    After Silberstein, Terrace, Cooper and Ramakrishnan, "Feeding Frenzy: Selectively Materializing
    Users' Event Feeds", SIGMOD 2010, which decides for each pair of reader and author: here for all
    readers of an author at once, since an outbox serves them all.
    """
    return pull_ms(cost, settings) < push_ms(cost, settings)


def wants_pull(followers: int, *, pulled: bool, is_cheap: bool | None, settings: Settings) -> bool:
    """Say whether an author should be pulled: by followers, or between them by cost.

    Args:
        followers: All of them, active or not.
        pulled: How the author stands, which is kept where nothing else decides.
        is_cheap: Whether pulling is cheaper; None: not measured yet.
        settings: The thresholds and the policy.
    """
    pull_from, push_below = thresholds(settings)
    if not push_below <= followers < pull_from:
        return followers >= pull_from
    if settings.switch_policy == "cost" and is_cheap is not None:
        return is_cheap
    return pulled


def decided_by(followers: int, settings: Settings) -> Literal["size", "cost"]:
    """Say what decides for an author with so many followers."""
    pull_from, push_below = thresholds(settings)
    between = push_below <= followers < pull_from
    return "cost" if between and settings.switch_policy == "cost" else "size"


def next_step(
    *,
    followers: int,
    readers_pull: bool,
    writers_pull: bool,
    because: str,
    is_cheap: bool | None,
    settled_s: float,
    settings: Settings,
) -> Step:
    """Choose the next step of an author, who has been in this state for `settled_s`.

    Who is pulled because of lag is pushed as well: here it is as if not pulled. By cost an author
    dwells in a state; what has begun is finished first.
    """
    if settings.delivery == "pull":
        return Step.STAY
    pulled = readers_pull and because != "lag"
    wanted = wants_pull(followers, pulled=pulled, is_cheap=is_cheap, settings=settings)
    dwells = decided_by(followers, settings) == "cost" and settled_s < settings.cost_dwell_s
    if not pulled:
        return Step.TELL_READERS if wanted and not dwells else Step.STAY
    if not wanted:
        return Step.STAY if writers_pull and dwells else Step.PUSH_AGAIN
    if writers_pull:
        return Step.STAY
    return Step.STOP_PUSHING if settled_s >= settings.switch_grace_s else Step.WAIT

"""The order in which a mode is decided: every combination, against a table written beside it."""

import itertools
from itertools import product
from typing import NamedTuple

from feed.mode import ModeChoices, ModeRules, decide_mode, percent_bucket
from feed.query import Mode

RANKED: Mode = "ranked"
CHRONO: Mode = "chronological"
MODES: tuple[Mode, Mode] = (RANKED, CHRONO)
MAYBE: tuple[Mode | None, ...] = (None, *MODES)
PERCENT, HOLDOUT = 30, 10  # where a rollout and a holdout are running


class Bucket(NamedTuple):
    """One kind of user as far as hashes go, and a user of that kind."""

    in_rollout: bool
    in_holdout: bool
    user_id: int


def some_user(in_rollout: bool, in_holdout: bool) -> Bucket:
    for user_id in itertools.count(1):
        if (percent_bucket("rollout", user_id) < PERCENT) == in_rollout and (
            percent_bucket("holdout", user_id) < HOLDOUT
        ) == in_holdout:
            return Bucket(in_rollout, in_holdout, user_id)
    raise AssertionError


BUCKETS = [some_user(*both) for both in product((True, False), repeat=2)]


def test_every_combination_is_decided_by_the_first_rule_that_speaks() -> None:
    """Kill switch, request, preference, override, cohort, holdout, rollout, default."""
    tried = 0
    everything = product(
        MAYBE, MAYBE, (True, False), MAYBE, MAYBE, MAYBE, (None, PERCENT), (0, HOLDOUT), MODES,
        BUCKETS,
    )  # fmt: skip
    for (
        kill,
        asked,
        allowed,
        preference,
        override,
        cohort,
        percent,
        holdout,
        default,
        who,
    ) in everything:
        rollout = None if percent is None else RANKED if who.in_rollout else CHRONO
        table = [
            ("kill_switch", kill),
            ("request", asked if allowed else None),
            ("preference", preference),
            ("override", override),
            ("cohort", cohort),
            ("holdout", CHRONO if holdout and who.in_holdout else None),
            ("rollout", rollout),
            ("default", default),
        ]
        reason, mode = next((reason, mode) for reason, mode in table if mode)
        decided = decide_mode(
            ModeRules(default, kill, allowed, percent, holdout),
            ModeChoices(preference, override, cohort),
            user_id=who.user_id,
            requested=asked,
        )
        assert decided == (mode, reason), (table, who)
        tried += 1
    assert tried == 15_552


def test_a_bucket_is_the_same_on_every_node_and_for_ever() -> None:
    """Written down once: a change of the hash would reshuffle running rollouts."""
    assert [percent_bucket("rollout", id) for id in (1, 42, 2**63 - 1)] == [47, 17, 17]


def ranked_among(user_ids: range, rules: ModeRules) -> set[int]:
    """Return whom these rules give the ranked feed."""
    nothing = ModeChoices()
    return {
        id
        for id in user_ids
        if decide_mode(rules, nothing, user_id=id, requested=None)[0] == RANKED
    }


def test_a_growing_rollout_only_adds_users() -> None:
    """Nobody who is ranked at 10 percent leaves on the way to 100, and the share is about right."""
    users = range(1, 5_001)
    steps = [
        ranked_among(users, ModeRules(rollout_percent=percent)) for percent in range(0, 101, 10)
    ]
    assert all(fewer < more for fewer, more in itertools.pairwise(steps))
    assert [len(step) // 500 for step in (steps[0], steps[10])] == [0, 10]
    assert all(
        abs(len(step) / 50 - percent) < 3
        for step, percent in zip(steps, range(0, 101, 10), strict=True)
    )


def test_the_holdout_stays_out_of_a_growing_rollout() -> None:
    """The same users at each step, also at 100 percent."""
    users = range(1, 5_001)
    held_out = {id for id in users if percent_bucket("holdout", id) < HOLDOUT}
    assert 400 < len(held_out) < 600
    for percent in (10, 20, 50, 100):
        rules = ModeRules(rollout_percent=percent, holdout_percent=HOLDOUT)
        assert not ranked_among(users, rules) & held_out
    assert ranked_among(users, rules) == set(users) - held_out


def test_holdout_and_rollout_are_independent() -> None:
    """Else the first tenth of a rollout would be exactly the holdout."""
    both = [
        id
        for id in range(1, 10_001)
        if percent_bucket("holdout", id) < 10 and percent_bucket("rollout", id) < 10
    ]
    assert 50 < len(both) < 160

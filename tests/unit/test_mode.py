"""The order in which a mode is decided."""

import itertools

import pytest

from feed.mode import ModeChoices, ModeRules, decide_mode, percent_bucket
from feed.query import Mode, ModeReason

RANKED: Mode = "ranked"
CHRONO: Mode = "chronological"
ALL = ModeChoices(preference=CHRONO, override=RANKED, cohort=CHRONO)
HELD_OUT = next(id for id in itertools.count(1) if percent_bucket("holdout", id) == 0)
ROLLED_OUT = next(
    id
    for id in itertools.count(1)
    if percent_bucket("rollout", id) < 30 and percent_bucket("holdout", id) >= 10
)
NOT_YET = next(
    id
    for id in itertools.count(1)
    if percent_bucket("rollout", id) >= 30 and percent_bucket("holdout", id) >= 10
)
ROLLOUT = ModeRules(ranked_percent=30, holdout_percent=10, default_mode=RANKED)


@pytest.mark.parametrize(
    ("rules", "choices", "user_id", "requested", "expected"),
    [
        (ModeRules(kill_switch=CHRONO), ALL, 1, RANKED, (CHRONO, "kill_switch")),
        (ModeRules(), ALL, 1, RANKED, (RANKED, "request")),
        (ModeRules(allow_request=False), ALL, 1, RANKED, (CHRONO, "preference")),
        (ModeRules(), ALL, 1, None, (CHRONO, "preference")),
        (ModeRules(), ModeChoices(override=RANKED, cohort=CHRONO), 1, None, (RANKED, "override")),
        (ModeRules(), ModeChoices(cohort=CHRONO), 1, None, (CHRONO, "cohort")),
        (ROLLOUT, ModeChoices(cohort=RANKED), HELD_OUT, None, (RANKED, "cohort")),
        (ROLLOUT, ModeChoices(), HELD_OUT, None, (CHRONO, "holdout")),
        (ROLLOUT, ModeChoices(), ROLLED_OUT, None, (RANKED, "rollout")),
        (ROLLOUT, ModeChoices(), NOT_YET, None, (CHRONO, "rollout")),
        (ModeRules(holdout_percent=1), ModeChoices(), HELD_OUT, None, (CHRONO, "holdout")),
        (ModeRules(), ModeChoices(), 1, None, (RANKED, "default")),
        (ModeRules(default_mode=CHRONO), ModeChoices(), 1, None, (CHRONO, "default")),
    ],
)
def test_the_first_rule_that_speaks_decides(
    rules: ModeRules,
    choices: ModeChoices,
    user_id: int,
    requested: Mode | None,
    expected: tuple[Mode, ModeReason],
) -> None:
    """Kill switch, request, preference, override, cohort, rollout with holdout, default."""
    assert decide_mode(rules, choices, user_id=user_id, requested=requested) == expected


def test_a_bucket_is_the_same_on_every_node_and_for_ever() -> None:
    """Written down once: a change of the hash would reshuffle running rollouts."""
    assert [percent_bucket("rollout", id) for id in (1, 42, 2**63 - 1)] == [91, 34, 65]


def test_a_growing_rollout_only_adds_users() -> None:
    """Nobody who is ranked at 20 percent leaves at 30, and the share is about right."""

    def ranked(percent: int) -> set[int]:
        rules = ModeRules(ranked_percent=percent)
        opened = {
            id: decide_mode(rules, ModeChoices(), user_id=id, requested=None)[0]
            for id in range(1, 5_001)
        }
        return {id for id, mode in opened.items() if mode == "ranked"}

    assert ranked(20) <= ranked(30)
    assert len(ranked(0)) == 0
    assert len(ranked(100)) == 5_000
    assert 1_350 < len(ranked(30)) < 1_650


def test_holdout_and_rollout_are_independent() -> None:
    """Else the first tenth of a rollout would be exactly the holdout."""
    both = [
        id
        for id in range(1, 10_001)
        if percent_bucket("holdout", id) < 10 and percent_bucket("rollout", id) < 10
    ]
    assert 50 < len(both) < 160

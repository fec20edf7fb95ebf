"""Counts whom a planned change of modes would give another mode, without asking user by user.

Postgres puts users who must decide alike into one group; `feed.mode` decides for one user of each.
"""

from collections import Counter
from dataclasses import dataclass

from feed.mode import ModeChoices, ModeRules, decide_mode
from feed.query import Mode, ModeReason
from storage.connections import Connection
from storage.mode_plans import ModePlan


@dataclass(frozen=True)
class ModeCounts:
    """Users by the mode they change from and to, and by mode and reason afterwards.

    What counts is an open that asks for no mode.
    """

    n_users: int
    changes: dict[tuple[Mode, Mode], int]
    outcome: dict[tuple[Mode, ModeReason], int]


# The hashes are `percent_bucket` of feed.mode, as the interval between bounds into which they fall.
# The lateral query with its OFFSET 0 is a fence: each is computed once for a user, and only for
# users whom nobody's choice decides.
_GROUPS = """
SELECT min(g.id), count(*), g.feed_mode, override_before, override_after,
       cohort_before, cohort_after
  FROM (SELECT t.*, t.feed_mode IS NULL
               AND (coalesce(t.override_before, t.cohort_before) IS NULL
                    OR coalesce(t.override_after, t.cohort_after) IS NULL) AS is_open
          FROM (SELECT u.id, u.feed_mode, u.mode_override AS override_before,
                       CASE WHEN o.user_id IS NULL THEN u.mode_override ELSE o.after END
                           AS override_after,
                       m.cohort AS cohort_before,
                       CASE WHEN v.user_id IS NULL THEN m.cohort ELSE v.after END AS cohort_after
                  FROM users u
                  LEFT JOIN override_moves o ON o.user_id = u.id
                  LEFT JOIN cohort_members m ON m.user_id = u.id
                  LEFT JOIN cohort_moves v ON v.user_id = u.id
                 WHERE u.deleted_at IS NULL) AS t) AS g
 CROSS JOIN LATERAL (
    SELECT CASE WHEN g.is_open AND cardinality(%(rollout)s::bigint[]) > 0 THEN width_bucket(
               ('x' || left(encode(sha256(('rollout:' || g.id)::bytea), 'hex'), 8))
                   ::bit(32)::bigint %% 100, %(rollout)s::bigint[]) END AS rollout,
           CASE WHEN g.is_open AND cardinality(%(holdout)s::bigint[]) > 0 THEN width_bucket(
               ('x' || left(encode(sha256(('holdout:' || g.id)::bytea), 'hex'), 8))
                   ::bit(32)::bigint %% 100, %(holdout)s::bigint[]) END AS holdout
    OFFSET 0) AS fell
 GROUP BY g.feed_mode, override_before, override_after, cohort_before, cohort_after,
          fell.rollout, fell.holdout
"""


async def count_modes(connection: Connection, plan: ModePlan) -> ModeCounts:
    """Count over all users, in the transaction in which the change was planned."""
    before, after = plan.rules
    bounds = {
        "rollout": _bounds(before.rollout_percent, after.rollout_percent),
        "holdout": _bounds(before.holdout_percent, after.holdout_percent),
    }
    rows = await connection.execute(_GROUPS, bounds)
    changes: Counter[tuple[Mode, Mode]] = Counter()
    outcome: Counter[tuple[Mode, ModeReason]] = Counter()
    for user_id, n, preference, *choices in await rows.fetchall():
        override_before, override_after, cohort_before, cohort_after = choices
        was = ModeChoices(preference, override_before, plan.cohorts[0].get(cohort_before))
        becomes = ModeChoices(preference, override_after, plan.cohorts[1].get(cohort_after))
        mode_before, _ = _decided(before, was, user_id)
        mode_after, reason = _decided(after, becomes, user_id)
        outcome[mode_after, reason] += n
        if mode_before != mode_after:
            changes[mode_before, mode_after] += n
    return ModeCounts(outcome.total(), dict(changes), dict(outcome))


def _decided(rules: ModeRules, choices: ModeChoices, user_id: int) -> tuple[Mode, ModeReason]:
    return decide_mode(rules, choices, user_id=user_id, requested=None)


def _bounds(*percents: int | None) -> list[int]:
    """Return the percents that part users; at 0 and 100 all are on one side."""
    return sorted({percent for percent in percents if percent and percent < 100})

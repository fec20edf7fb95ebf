"""Reads what decides the mode of a feed; `feed.mode` decides."""

from feed.mode import ModeChoices, ModeRules
from storage.connections import Connection

_INPUTS = """
SELECT r.default_mode, r.kill_switch, r.allow_request, r.ranked_percent, r.holdout_percent,
       u.feed_mode, u.mode_override, c.feed_mode
  FROM rollouts r
  LEFT JOIN users u ON u.id = %(user)s
  LEFT JOIN cohort_members m ON m.user_id = %(user)s
  LEFT JOIN cohorts c ON c.name = m.cohort
"""


async def load_mode_inputs(connection: Connection, user_id: int) -> tuple[ModeRules, ModeChoices]:
    """Load the product's rules and what was chosen for one user; an unknown user chose nothing."""
    cursor = await connection.execute(_INPUTS, {"user": user_id})
    row = await cursor.fetchone()
    if row is None:  # somebody emptied the table: the product's defaults still hold
        return ModeRules(), ModeChoices()
    return ModeRules(*row[:5]), ModeChoices(*row[5:])

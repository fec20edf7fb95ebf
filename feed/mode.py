"""Decides which mode a feed is opened in, and why. Pure; the inputs come from `storage.modes`."""

from dataclasses import dataclass
from hashlib import sha256

from feed.query import Mode, ModeReason

CONTROL: Mode = "chronological"
"""What users outside a rollout, and those held out of it, are given."""


@dataclass(frozen=True)
class ModeRules:
    """How the product decides, one row for everyone; `rollout_percent` None: no rollout runs."""

    default_mode: Mode = "ranked"
    kill_switch: Mode | None = None
    allow_request: bool = True
    rollout_percent: int | None = None
    holdout_percent: int = 0


@dataclass(frozen=True)
class ModeChoices:
    """What was chosen for one user: by the user, by an admin, by the user's cohort."""

    preference: Mode | None = None
    override: Mode | None = None
    cohort: Mode | None = None


def decide_mode(
    rules: ModeRules, choices: ModeChoices, *, user_id: int, requested: Mode | None
) -> tuple[Mode, ModeReason]:
    """Return the mode of a feed opened now and the reason; the first rule that speaks decides."""
    if rules.kill_switch:
        return rules.kill_switch, "kill_switch"
    if requested and rules.allow_request:
        return requested, "request"
    if choices.preference:
        return choices.preference, "preference"
    if choices.override:
        return choices.override, "override"
    if choices.cohort:
        return choices.cohort, "cohort"
    return _rolled_out(rules, user_id)


def percent_bucket(salt: str, user_id: int) -> int:
    """Return a stable bucket 0..99 of a user; another salt gives an independent one.

    `storage.mode_counts` computes the same in SQL, so the hash is one that Postgres has.
    """
    digest = sha256(f"{salt}:{user_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % 100


def _rolled_out(rules: ModeRules, user_id: int) -> tuple[Mode, ModeReason]:
    if percent_bucket("holdout", user_id) < rules.holdout_percent:
        return CONTROL, "holdout"
    if rules.rollout_percent is None:
        return rules.default_mode, "default"
    ranked = percent_bucket("rollout", user_id) < rules.rollout_percent
    return "ranked" if ranked else CONTROL, "rollout"

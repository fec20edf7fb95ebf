"""Ranking profiles: the weights of the formulas and the bounds of the rules, as data.

One TOML file holds named profiles (`mixer/profiles.toml` by default). A profile is checked when it
is read, and its version, which every snapshot carries, is made from what it says: two profiles of
one version rank alike.
"""

import hashlib
import json
import math
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from feed.errors import Misconfigured
from feed.settings import Settings

FORMULAS = ("affinity_decay", "engagement_decay")


def _number(default: Any, doc: str, *, least: float, most: float) -> Any:
    return field(default=default, metadata={"doc": doc, "least": least, "most": most})


@dataclass(frozen=True, kw_only=True)
class Light:
    """Which formula orders all candidates."""

    formula: str = field(
        default="affinity_decay",
        metadata={
            "doc": "affinity_decay or engagement_decay",
            "choices": FORMULAS,
        },
    )


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weights of one formula (`rankers.light`)."""

    likes: float = _number(1.0, "What a like counts for", least=0, most=100)
    comments: float = _number(3.0, "What a comment counts for", least=0, most=100)
    age_offset_h: float = _number(2.0, "Hours added to the age of a post", least=0.01, most=1_000)
    gravity: float = _number(1.5, "Power of the age by which a score falls", least=0, most=10)


@dataclass(frozen=True, kw_only=True)
class Authors:
    """How often one author may come."""

    run: int = _number(2, "Posts of one author in a row, at most", least=1, most=1_000)
    decay: float = _number(0.5, "Each further post counts so much of the last", least=0, most=1)
    floor: float = _number(0.25, "But never less than this", least=0, most=1)
    memory_half_life_h: float = _number(
        24.0, "What was seen of an author in earlier sessions fades so fast", least=0.1, most=10_000
    )


@dataclass(frozen=True, kw_only=True)
class Formats:
    """How formats alternate."""

    run: int = _number(3, "Posts of one format in a row, where others exist", least=1, most=1_000)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What happens to posts that were on the screen already."""

    factor: float = _number(0.5, "Each time it was seen, a post counts so much", least=0.01, most=1)
    half_life_h: float = _number(48.0, "Seeing fades so fast", least=0.1, most=10_000)


@dataclass(frozen=True, kw_only=True)
class OutOfNetwork:
    """Posts by authors whom the viewer does not follow."""

    enabled: bool = field(default=True, metadata={"doc": "Whether there are any"})
    share: float = _number(0.3, "Of the rows from the top to any place, at most", least=0, most=1)
    run: int = _number(2, "In a row, at most", least=1, most=1_000)
    factor: float = _number(0.75, "They count so much of a followed author's", least=0.01, most=1)
    few_follows: int = _number(
        10, "Who follows fewer gets as many as there are, the share aside", least=0, most=100_000
    )


@dataclass(frozen=True, kw_only=True)
class NewAuthor:
    """One slot for an author whose account is young."""

    slot: int = _number(15, "Position from 0 to which one is lifted", least=0, most=10_000)
    days: float = _number(14.0, "An account is young for so long; 0: never", least=0, most=10_000)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Everything that decides an order, but for what is known of viewer and posts."""

    name: str = "default"
    light: Light = Light()
    affinity_decay: Weights = Weights(likes=1.0)
    engagement_decay: Weights = Weights(likes=2.0)
    author: Authors = Authors()
    format: Formats = Formats()
    seen: Seen = Seen()
    out_of_network: OutOfNetwork = OutOfNetwork()
    new_author: NewAuthor = NewAuthor()

    @property
    def weights(self) -> Weights:
        """The weights of the formula in use."""
        weights: Weights = getattr(self, self.light.formula)
        return weights

    @cached_property
    def version(self) -> str:
        """The name, and eight hex digits of what the profile says."""
        said = json.dumps(asdict(self), sort_keys=True)
        return f"{self.name}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"


def read_profiles(text: str) -> dict[str, Profile]:
    """Read the profiles of one TOML file, by name; what a profile leaves out is the default.

    Raises:
        Misconfigured: It is no TOML, or it says something unknown or out of bounds.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"The profiles are not TOML: {error}.") from None
    if not tables:
        raise Misconfigured("There is no profile: begin one with a line [default].")
    return {name: profile_of(name, table) for name, table in tables.items()}


MANY_FOLLOWS = 5_000
"""Hardly anybody follows more accounts."""


def lint(profile: Profile) -> list[str]:
    """Name what is allowed but hardly meant, one sentence each."""
    findings = {**_dead(profile), **_unbounded(profile), **_never_held(profile)}
    return [sentence for sentence, holds in findings.items() if holds]


def _dead(profile: Profile) -> dict[str, bool]:
    """Find what is said and moves nothing."""
    weights, oon, said_nothing = profile.weights, profile.out_of_network, Profile()
    unused = next(name for name in FORMULAS if name != profile.light.formula)
    return {
        "likes is 0: likes move nothing": weights.likes == 0,
        "comments is 0: comments move nothing": weights.comments == 0,
        f"{unused} is not the formula in use: its weights move nothing": getattr(profile, unused)
        != getattr(said_nothing, unused),
        "author.decay is 1: further posts of an author count in full": profile.author.decay == 1,
        "author.floor is 1: author.decay moves nothing": profile.author.floor == 1,
        "author.decay and author.floor are 0: an author's second post counts nothing": (
            profile.author.decay == profile.author.floor == 0
        ),
        "seen.factor is 1: what was seen stays where it is": profile.seen.factor == 1,
        "out_of_network is not enabled: what else it says moves nothing": not oon.enabled
        and replace(oon, enabled=True) != said_nothing.out_of_network,
        "out_of_network.share is 0: say enabled = false": oon.enabled and oon.share == 0,
        "new_author.days is 0: the slot stays empty": profile.new_author.days == 0,
    }


def _unbounded(profile: Profile) -> dict[str, bool]:
    """Find what outweighs everything else."""
    weights, oon = profile.weights, profile.out_of_network
    an_hour = (1 + 1 / weights.age_offset_h) ** weights.gravity
    a_day = (1 + 24 / weights.age_offset_h) ** weights.gravity
    one = max(weights.likes, weights.comments)
    boost = 1 + (one if profile.light.formula == "engagement_decay" else math.log1p(one))
    return {
        "gravity is 0: posts never get old": weights.gravity == 0,
        "gravity is above 4: after a day nothing counts but age": weights.gravity > 4,
        "age_offset_h is small: a new post counts over 100 times one of an hour": an_hour > 100,
        "one like or comment outweighs a day": weights.gravity > 0 and boost > a_day,
        "likes is above comments: a like is cheaper than a comment": weights.likes
        > weights.comments,
        "out_of_network.share is 1: it bounds nothing": oon.enabled and oon.share == 1,
        f"out_of_network.few_follows is above {MANY_FOLLOWS}: the share bounds hardly anybody": (
            oon.enabled and oon.few_follows > MANY_FOLLOWS
        ),
    }


def _never_held(profile: Profile) -> dict[str, bool]:
    """Find rules that nothing can ever come to."""
    oon, n = profile.out_of_network, Settings().candidates
    return {
        "out_of_network.run can never be reached under its share": oon.enabled
        and 0 < oon.share < 0.5
        and oon.run > 2,
        "out_of_network.share can never be reached with so small a run": oon.enabled
        and oon.run / (oon.run + 1) < oon.share < 1,
        f"author.run is not below the {n} rows of a slate: it bars nothing": (
            profile.author.run >= n
        ),
        f"format.run is not below the {n} rows of a slate: it bars nothing": (
            profile.format.run >= n
        ),
        f"new_author.slot is below the {n} rows of a slate: nobody is lifted to it": (
            profile.new_author.slot >= n
        ),
    }


def table_of(profile: Profile) -> dict[str, Any]:
    """Write out all that a profile says, as the table that `profile_of` reads."""
    return {name: said for name, said in asdict(profile).items() if name != "name"}


def profile_of(name: str, table: Any) -> Profile:
    """Read one profile from its table.

    Raises:
        Misconfigured: It says something unknown or out of bounds.
    """
    if not isinstance(table, Mapping):
        raise Misconfigured(f"{name} is no profile: begin one with a line [{name}].")
    kinds = typing.get_type_hints(Profile)
    kinds.pop("name")
    parts: dict[str, Any] = {}
    for key, values in table.items():
        if key not in kinds:
            raise Misconfigured(f"[{name}] says {key}; known are {', '.join(kinds)}.")
        if not isinstance(values, Mapping):
            raise Misconfigured(f"{key} of [{name}] must be a table, as [{name}.{key}].")
        parts[key] = _part(f"{name}.{key}", getattr(Profile(), key), values)
    return Profile(name=name, **parts)


def _part(place: str, default: Any, values: Mapping[str, Any]) -> Any:
    known = {each.name: each for each in fields(default)}
    hints = typing.get_type_hints(type(default))
    read = {}
    for key, value in values.items():
        if key not in known:
            raise Misconfigured(f"[{place}] says {key}; known are {', '.join(known)}.")
        read[key] = _checked(f"{place}.{key}", value, hints[key], known[key].metadata)
    return replace(default, **read)


def _checked(place: str, value: Any, kind: type, bounds: Mapping[str, Any]) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise Misconfigured(f"{place} must be {_NAMES[kind]}, it is {value!r}.")
    if "choices" in bounds and value not in bounds["choices"]:
        raise Misconfigured(f"{place} must be one of {', '.join(bounds['choices'])}, not {value}.")
    # NaN is in no bounds, since it compares with nothing.
    if "least" in bounds and not bounds["least"] <= value <= bounds["most"]:
        least, most = bounds["least"], bounds["most"]
        raise Misconfigured(f"{place} must be between {least:g} and {most:g}, it is {value}.")
    return value


_NAMES: dict[type, str] = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "text",
}

"""Every worked example that needs no server: formulas, merges, pages, capacity arithmetic."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feed import capacity
from feed.candidates import Candidates, Found, merged
from feed.order import MAX_MS, NEWEST, Key, below, newest_first
from rankers.light import affinity_decay, engagement_decay

EXAMPLES = json.loads((Path(__file__).parents[1] / "worked_examples.json").read_text())
CAPACITY = EXAMPLES["capacity"]
OF_RANKING = {"candidates_per_open", "score_evaluations_per_day", "score_evaluations_per_s_avg"}


def found(entries: list[list[int]], source: str = "pushed_feed") -> Found:
    """Make what a source found from [id, ms] pairs."""
    ids, ms = np.array(entries, dtype=np.int64).T
    return Found(ids, ms, source)


def page(posts: Candidates, before: Key, limit: int) -> list[list[int]]:
    """Return [ms, id] of the newest `limit` posts below a key."""
    rows = np.flatnonzero(below(posts.ms, posts.ids, before))[:limit]
    return np.column_stack((posts.ms[rows], posts.ids[rows])).tolist()


def agrees(value: float, shown: float) -> bool:
    """Say whether a value is the shown one, to as many decimals as are shown."""
    decimals = len(repr(shown).partition(".")[2]) if isinstance(shown, float) else 0
    return round(value, decimals) == shown


# ---------------------------------------------------------------------- formulas


def test_engagement_decay() -> None:
    example = EXAMPLES["engagement_decay"]
    for post in example["posts"]:
        score = engagement_decay(
            likes=post["likes"], comments=post["comments"], age_h=post["age_h"]
        )
        assert score == pytest.approx(post["score"], abs=example["tolerance"])


def test_engagement_decay_orders_differently_from_time() -> None:
    example = EXAMPLES["engagement_decay"]
    posts = example["posts"]
    by_score = sorted(
        posts,
        key=lambda p: (
            -float(engagement_decay(likes=p["likes"], comments=p["comments"], age_h=p["age_h"]))
        ),
    )
    by_time = sorted(posts, key=lambda post: post["age_h"])
    assert [post["name"] for post in by_score] == example["ranked_order"]
    assert [post["name"] for post in by_time] == example["chronological_order"]


def test_affinity_decay() -> None:
    example = EXAMPLES["affinity_decay"]
    for post in example["posts"]:
        score = affinity_decay(
            affinity=post["affinity"],
            likes=post["likes"],
            comments=post["comments"],
            age_h=post["age_h"],
        )
        assert score == pytest.approx(post["score"], abs=example["tolerance"])


# ---------------------------------------------------------------------- merges and pages


def test_a_post_that_arrives_between_two_pages_shifts_nothing() -> None:
    example = EXAMPLES["pushed_feed_pages"]
    limit = example["limit"]
    first = merged([found([[post, post] for post in example["feed_ids"]])])
    page_1 = page(first, NEWEST, limit)
    arrived = example["arrives_between"]
    second = merged([found([[post, post] for post in [*example["feed_ids"], arrived]])])
    page_2 = page(second, Key(*page_1[-1]), limit)
    assert [post for _, post in page_1] == example["page_1"]
    assert [post for _, post in page_2] == example["page_2"]


def test_two_lists_merge_into_one_each_post_once() -> None:
    example = EXAMPLES["merge_two_lists"]
    both = [found(example["pushed"]), found(example["pulled"], "author_outbox")]
    page_1 = page(merged(both), NEWEST, example["limit"])
    assert [post for _, post in page_1] == example["page_1"]
    assert page_1[-1] == example["cursor_after_page_1"]
    page_2 = page(merged(both), Key(*example["cursor_after_page_1"]), example["limit"])
    assert [post for _, post in page_2] == example["page_2"]


def test_ties_at_the_page_border() -> None:
    example = EXAMPLES["ties_at_the_page_border"]
    entries = [[post, ms] for ms, post in example["feed"]]
    page_1 = page(merged([found(entries)]), NEWEST, example["limit"])
    assert page_1 == example["page_1"]
    ms, post = example["arrives_between"]
    later = merged([found([*entries, [post, ms]])])
    assert page(later, Key(*page_1[-1]), example["limit"]) == example["page_2"]


def test_ids_that_collide_as_doubles_stay_apart() -> None:
    example = EXAMPLES["double_precision"]
    larger, smaller = example["two_snowflake_ids_that_collide_as_doubles"]
    assert float(larger) == float(smaller)
    assert example["largest_exact_integer"] - 1 == MAX_MS
    ids = np.array([smaller, larger], dtype=np.int64)
    assert ids[newest_first(np.array([5, 5]), ids)].tolist() == [larger, smaller]
    assert merged([found([[smaller, 5], [larger, 5]])]).ids.tolist() == [larger, smaller]


# ---------------------------------------------------------------------- capacity


def product(inputs: dict[str, Any]) -> capacity.Product:
    """Make a product from an example's inputs."""
    fields = capacity.Product.__dataclass_fields__
    return capacity.Product(**{name: inputs[name] for name in fields})


@pytest.mark.parametrize("place", CAPACITY)
def test_capacity(place: str) -> None:
    example = CAPACITY[place]
    asked = product(example["inputs"])
    values: dict[str, float] = {"reads_per_post": capacity.reads_per_post(asked)}
    for name in ("opens", "posts", "push_inserts", "pull_lookups"):
        rate = getattr(capacity, name)(asked)
        values[f"{name}_per_day"] = rate.per_day
        values[f"{name}_per_s_avg"] = rate.per_s
        values[f"{name}_per_s_peak"] = rate.per_s_peak
    numbers = {name for name, value in example.items() if isinstance(value, int | float)}
    for name in numbers - OF_RANKING:
        assert agrees(values[name], example[name]), name


def test_capacity_of_ranking() -> None:
    example = CAPACITY["city"]
    rate = capacity.score_evaluations(product(example["inputs"]), example["candidates_per_open"])
    assert agrees(rate.per_day, example["score_evaluations_per_day"])
    assert agrees(rate.per_s, example["score_evaluations_per_s_avg"])


def test_capacity_with_large_accounts_pulled() -> None:
    example = CAPACITY["city"]["hybrid"]
    large = capacity.LargeAccounts(
        accounts=example["large_accounts"],
        avg_followers=example["avg_followers_of_large"],
        posts_per_day=example["posts_per_day_of_large"],
        followed_per_reader=example["large_followed_per_reader"],
    )
    plan = capacity.hybrid(product(CAPACITY["city"]["inputs"]), large)
    assert agrees(plan.inserts_avoided_per_day, example["inserts_avoided_per_day"])
    assert agrees(plan.share_avoided, example["share_avoided"])
    assert agrees(plan.push_inserts.per_day, example["push_inserts_left_per_day"])
    assert agrees(plan.push_inserts.per_s, example["push_inserts_left_per_s_avg"])
    assert agrees(plan.calls_per_open, example["calls_per_open"])
    assert agrees(plan.calls.per_day, example["outbox_and_feed_calls_per_day"])
    assert agrees(plan.calls.per_s, example["calls_per_s_avg"])


def test_one_post_to_a_large_audience() -> None:
    example = CAPACITY["city"]["one_post_to_500000_followers"]
    average = capacity.push_inserts(product(CAPACITY["city"]["inputs"])).per_s
    assert agrees(capacity.fan_out_s(500_000, average), example["share_of_average_load_s"])
    assert agrees(capacity.fan_out_s(500_000, 20_000), example["at_20000_inserts_per_s_s"])


@pytest.mark.parametrize("place", ["city", "planet"])
def test_memory_of_feeds(place: str) -> None:
    example = CAPACITY[place]["feed_memory"]
    n_bytes = capacity.feed_bytes(
        example["active_feeds"], example["cap"], example["bytes_per_entry_assumed"]
    )
    assert n_bytes == example["bytes"]
    assert example["active_feeds"] * example["cap"] == example.get("entries", n_bytes / 60)

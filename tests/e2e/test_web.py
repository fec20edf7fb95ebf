"""The first page in a real Chromium against the running product, as a reader uses it.

In every test, whatever it does: no request leaves the origin, and the console stays clean.
"""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    Locator,
    Page,
    Request,
    Response,
    Route,
    expect,
    sync_playwright,
)

from tests.e2e.product import Product, eventually

pytestmark = pytest.mark.e2e

FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PHONE = {"width": 360, "height": 740}
EXPLANATION = {
    "post_id": "1",
    "snapshot": {
        "id": "s",
        "created_at": "2026-01-02T03:04:05.678Z",
        "ranker": "affinity_decay",
        "model_version": None,
        "weights_version": "default 3",
        "size": 312,
    },
    "status": "in_slate",
    "because": "You follow Ada, <b>who</b> wrote this an hour ago.",
    "source": "pushed_feed",
    "position": 3,
    "features": [{"name": "likes", "value": 10.0, "unit": "likes"}],
    "score": {"light": 0.8, "heavy": None, "final": 0.5},
    "multipliers": [{"rule": "author_decay", "factor": 0.625}],
    "moves": [{"rule": "author_run", "from": 6, "to": 3}],
}


UNAVAILABLE = {"status": 503, "json": {"detail": "Try again in a moment."}}
REJECTED = {"status": 202, "json": {"rejected": [{"code": "unknown_post"}]}}
NOTHING = {"items": [], "next_cursor": None, "state": "empty"}

# What a screen reader would find nothing to say of.
NAMELESS = """
all => all.filter(each => !(each.getAttribute("aria-label") || each.innerText
    || [...each.labels ?? []].some(label => label.innerText))).map(each => each.outerHTML)
"""
UNLABELLED = "all => all.filter(e => !document.getElementById(e.getAttribute('aria-labelledby')))"
FOCUSED = "(e => e.className || e.value || e.innerText)(document.activeElement)"
BOXES = """
all => all.map(each => each.getBoundingClientRect()).map(box => [box.width, box.height, box.right])
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start the Chromium of this system."""
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("These tests need a browser: apt-get install chromium, or run .ci/run.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Tab:
    """One tab, what it asked for, and what its console complained of."""

    page: Page
    product: Product
    user: str
    requests: list[Request] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    may_complain_of: str = "nothing"

    @property
    def posts(self) -> Locator:
        return self.page.locator("article.post")

    def ids(self) -> list[str]:
        return self.posts.evaluate_all("all => all.map(each => each.dataset.id)")

    def enter(self, path: str = "/") -> None:
        """Open the page as somebody, as a tab does that was here before."""
        who = json.dumps({"id": self.user, "name": f"User {self.user}"})
        self.page.add_init_script(f"sessionStorage.setItem('foryou.who', {json.dumps(who)})")
        self.page.goto(path)
        expect(self.posts.first).to_be_visible()

    def asked(self, path: str) -> int:
        return sum(path in request.url for request in self.requests)

    def answered(self, path: str, **changes: Any) -> None:
        """Let the service answer, and change some fields of what it says."""

        def change(route: Route) -> None:
            answer = route.fetch()
            route.fulfill(response=answer, json={**answer.json(), **changes})

        self.page.route(path, change)


@pytest.fixture
def options() -> dict[str, Any]:
    return {}


@pytest.fixture
def tab(chromium: Browser, product: Product, options: dict[str, Any]) -> Iterator[Tab]:
    """Lend a fresh tab; judge afterwards what it did."""
    origin = product.info["address"]
    context = chromium.new_context(base_url=origin, **options)
    context.set_default_timeout(15_000)
    tab = Tab(context.new_page(), product, product.info["users"][0])
    tab.page.on("request", lambda request: tab.requests.append(request))
    tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.page.on("console", lambda said: tab.complaints.append(f"{said.type}: {said.text}"))
    yield tab
    context.close()
    product.call("PUT", "/preferences", tab.user, json={"feed_mode": "default"})
    assert [r.url for r in tab.requests if not r.url.startswith(f"{origin}/")] == []
    assert [each for each in tab.complaints if tab.may_complain_of not in each] == []


def test_a_sample_user_is_chosen_and_stays_chosen_in_this_tab(tab: Tab) -> None:
    tab.page.goto("/")
    people = tab.page.get_by_role("button", name=re.compile("User [0-9]+"))
    expect(people.first).to_contain_text(f"User {tab.user}")
    assert people.count() == 6
    people.first.press("Enter")
    expect(tab.posts.first).to_be_visible()
    tab.page.reload()
    expect(tab.posts.first).to_be_visible()
    tab.page.get_by_role("button", name="Change").click()
    expect(tab.page.get_by_role("heading", name="Who do you want to be?")).to_be_focused()
    expect(tab.posts.first).to_be_hidden()
    tab.page.get_by_label("Or be any other id").fill("113")
    tab.page.keyboard.press("Enter")
    expect(tab.posts.first).to_be_visible()
    opened = [request for request in tab.requests if request.url.endswith("/api/v1/feed")]
    assert [request.headers["x-user-id"] for request in opened] == [tab.user, tab.user, "113"]


def test_scrolling_gives_page_after_page_without_a_repeat(tab: Tab) -> None:
    answers: list[Response] = []
    tab.page.on("response", lambda answer: answers.append(answer))
    tab.enter()
    while len(ids := tab.ids()) <= 60:
        tab.posts.last.scroll_into_view_if_needed()
        expect(tab.posts).not_to_have_count(len(ids))
    assert len(ids) == len(set(ids))
    pages = [answer.json() for answer in answers if "/api/v1/feed" in answer.url]
    assert [item["id"] for page in pages for item in page["items"]][: len(ids)] == ids
    positions = tab.posts.evaluate_all("all => all.map(each => Number(each.dataset.position))")
    assert positions == sorted(set(positions))


def test_the_switch_says_which_order_is_on_and_why_and_keeps_a_choice(tab: Tab) -> None:
    tab.enter()
    ranked, newest = tab.page.get_by_label("Ranked"), tab.page.get_by_label("Newest first")
    reason = tab.page.locator("#mode-reason")
    expect(ranked).to_be_checked()
    expect(reason).to_have_text("Everybody gets this order until they choose.")
    ranked.press("ArrowRight")
    expect(newest).to_be_checked()
    expect(reason).to_have_text("You chose this order.")
    tab.page.reload()
    expect(newest).to_be_checked()
    expect(tab.posts.first).to_be_visible()
    expected = tab.product.walk(tab.user, "chronological")
    assert tab.ids() == expected[: tab.posts.count()]
    tab.page.get_by_role("button", name="Let the service choose").click()
    expect(ranked).to_be_checked()
    expect(reason).to_have_text("Everybody gets this order until they choose.")


def test_a_kill_switch_is_told_beside_the_choice_it_overrules(tab: Tab) -> None:
    tab.answered("**/api/v1/feed", mode="chronological", mode_reason="kill_switch")
    tab.enter()
    expect(tab.page.get_by_label("Newest first")).to_be_checked()
    expect(tab.page.locator("#mode-reason")).to_contain_text("For the moment everybody")
    tab.page.get_by_label("Ranked").click()
    expect(tab.page.get_by_text("another order is on for now")).to_be_visible()
    expect(tab.page.get_by_label("Newest first")).to_be_checked()


def test_new_posts_are_offered_and_never_pushed_into_the_scroll(tab: Tab) -> None:
    tab.product.call("PUT", "/preferences", tab.user, json={"feed_mode": "chronological"})
    follows = tab.product.call("GET", "/follows", tab.user).json()["items"]
    tab.page.clock.install()
    tab.enter()
    before = tab.ids()
    post = tab.product.post(follows[0]["user_id"], "Something new <b>indeed</b>")
    _turn(tab.page, is_hidden=True)
    tab.page.clock.fast_forward(600_000)
    assert tab.asked("/feed/updates") == 0, "a hidden tab asks nothing"
    _turn(tab.page, is_hidden=False)
    pill = tab.page.get_by_role("button", name="1 new post from")
    expect(pill).to_be_visible()
    tab.page.clock.fast_forward(16_000)
    eventually(lambda: tab.asked("/feed/updates") == 2)
    assert tab.ids() == before
    pill.click()
    expect(pill).to_be_hidden()
    expect(tab.posts.first).to_have_attribute("data-id", post)
    expect(tab.posts.first).to_be_focused()
    tab.product.call("DELETE", f"/posts/{post}", follows[0]["user_id"])


def _turn(page: Page, *, is_hidden: bool) -> None:
    """Hide the tab or show it again: to a page that is what `document.hidden` says."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        is_hidden,
    )


def test_a_like_shows_at_once_survives_a_reload_and_can_be_taken_back(tab: Tab) -> None:
    tab.enter()
    post = tab.ids()[0]
    like = tab.page.locator(f"article[data-id='{post}'] .like")
    likes = int(like.inner_text())
    like.click()
    expect(like).to_have_attribute("aria-pressed", "true")
    expect(like).to_have_text(str(likes + 1))
    eventually(lambda: _post(tab, post)["viewer"]["liked"])
    eventually(lambda: _post(tab, post)["counts"]["likes"] == likes + 1)
    tab.page.reload()
    expect(like).to_have_attribute("aria-pressed", "true")
    expect(like).to_have_text(str(likes + 1))
    like.click()
    expect(like).to_have_text(str(likes))
    eventually(lambda: not _post(tab, post)["viewer"]["liked"])


def _post(tab: Tab, post: str) -> Any:
    return tab.product.call("GET", f"/posts/{post}", tab.user).json()


@pytest.mark.parametrize("answer", [UNAVAILABLE, REJECTED])
def test_a_like_that_is_not_taken_is_undone_and_said(tab: Tab, answer: dict[str, Any]) -> None:
    tab.may_complain_of = "503"
    tab.page.route("**/api/v1/events", lambda route: route.fulfill(**answer))
    tab.enter()
    like = tab.page.locator(".like").nth(1)
    before, pressed = like.inner_text(), like.get_attribute("aria-pressed")
    assert pressed is not None
    like.click()
    expect(tab.page.get_by_text("could not be saved, so it was undone")).to_be_visible()
    expect(like).to_have_attribute("aria-pressed", pressed)
    expect(like).to_have_text(before)


def test_a_post_is_hidden_at_once_and_undo_brings_it_back(tab: Tab) -> None:
    tab.enter()
    post = tab.ids()[1]
    article = tab.page.locator(f"article[data-id='{post}']")
    text = article.inner_text()
    article.get_by_role("button", name="Hide").click()
    undo = article.get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    expect(article.locator(".body")).to_have_count(0)
    eventually(lambda: post in _hidden(tab))
    undo.press("Enter")
    expect(article).to_be_focused()
    expect(article).to_have_text(text, use_inner_text=True)
    eventually(lambda: post not in _hidden(tab))
    article.press("x")
    eventually(lambda: post in _hidden(tab))
    tab.page.reload()
    expect(tab.posts.first).to_be_visible()
    assert post not in tab.ids()
    tab.product.call("DELETE", f"/hidden/{post}", tab.user)


def _hidden(tab: Tab) -> set[str]:
    items = tab.product.call("GET", "/hidden", tab.user).json()["items"]
    return set(re.findall(r"[0-9]+", json.dumps(items)))


def test_only_what_was_on_the_screen_for_a_second_is_reported_as_seen(tab: Tab) -> None:
    reader, author = 8_800_001, 8_800_002
    tab.user = str(reader)
    people = [{"kind": "user", "id": str(id), "name": f"u{id}"} for id in (reader, author)]
    follow = {"kind": "follow", "follower_id": str(reader), "followee_id": str(author)}
    tab.product.ingest([*people, follow])
    posts = [tab.product.post(author, f"Post {n}. " + "Long. " * 120) for n in range(8)]
    tab.enter()
    first, last = tab.ids()[0], [id for id in tab.ids() if id in posts][-1]
    tab.page.wait_for_timeout(1_300)
    tab.page.goto("/docs")  # what waits is sent when the page is left
    eventually(lambda: _post(tab, first)["viewer"]["seen"])
    assert not _post(tab, last)["viewer"]["seen"]


def test_a_post_is_text_whatever_it_says(tab: Tab) -> None:
    reader = "8800011"
    tab.user = reader
    hostile = (
        "<img src=x onerror=alert(1)><script>alert(2)</script> &amp; "
        "javascript:alert(3) https://example.org/a\"onclick=\"b <a href='//evil'>"
    )
    tab.product.ingest([{"kind": "user", "id": reader, "name": "<i>Mallory</i>"}])
    media = [{"url": "https://example.org/picture.png", "alt": "<b>alt</b>"}]
    answer = tab.product.call("POST", "/posts", reader, json={"body": hostile, "media": media})
    assert answer.status_code == 201
    tab.enter()
    post = tab.page.locator(f"article[data-id='{answer.json()['id']}']")
    expect(post.locator(".body")).to_contain_text("<img src=x onerror=alert(1)><script>alert(2)")
    expect(post.get_by_role("heading", name="<i>Mallory</i>")).to_be_visible()
    expect(post.locator("img, script, i, b")).to_have_count(0)
    links = post.get_by_role("link").evaluate_all("all => all.map(each => each.href)")
    assert links == ["https://example.org/a", "https://example.org/picture.png"]


def test_the_drawer_opens_by_key_says_what_is_known_and_closes_with_escape(tab: Tab) -> None:
    tab.may_complain_of = "404"  # of a snapshot that is gone; the browser notes it
    tab.enter()
    tab.posts.first.focus()
    tab.page.keyboard.press("j")
    expect(tab.posts.nth(1)).to_be_focused()
    tab.page.keyboard.press("w")
    drawer = tab.page.get_by_role("dialog", name="Why this post")
    expect(drawer).to_be_visible()
    expect(drawer.locator(".because")).not_to_be_empty()
    tab.page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(tab.posts.nth(1)).to_be_focused()


def test_the_drawer_shows_scores_as_bars_and_the_rules_that_moved_a_post(tab: Tab) -> None:
    tab.page.route("**/feed/explain/**", lambda route: route.fulfill(json=EXPLANATION))
    tab.enter()
    tab.page.get_by_role("button", name="Why this post").first.click()
    drawer = tab.page.get_by_role("dialog")
    expect(drawer).to_contain_text("You follow Ada, <b>who</b> wrote this an hour ago.")
    expect(drawer).to_contain_text("No more than two posts of one author in a row")
    expect(drawer).to_contain_text("place 7 → 4")
    expect(drawer).to_contain_text("0.625")
    expect(drawer).to_contain_text("4 of 312")
    shares = drawer.locator(".bar").evaluate_all(
        "all => all.map(each => Number(getComputedStyle(each).getPropertyValue('--share')))"
    )
    assert shares == [0.8, 0.5, 0.625]
    drawer.get_by_role("button", name="Close").click()
    expect(drawer).to_be_hidden()


def test_a_snapshot_that_is_gone_is_said_to_be_gone(tab: Tab) -> None:
    tab.may_complain_of = "404"
    tab.page.route("**/feed/explain/**", lambda route: route.fulfill(status=404, json={}))
    tab.enter()
    tab.page.get_by_role("button", name="Why this post").first.click()
    expect(tab.page.get_by_role("dialog")).to_contain_text("Not available any more.")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": "building"}, "being put together"),
        ({"state": "degraded", "degraded": ["affinity"]}, "left out: who you like to read"),
        ({**NOTHING, "empty_because": "no_follows"}, "Nobody followed yet"),
        ({**NOTHING, "empty_because": "no_posts"}, "Nothing written yet"),
        ({**NOTHING, "empty_because": "all_filtered"}, "Everything here is hidden"),
        ({"next_cursor": None}, "That is everything."),
    ],
)
def test_the_state_of_a_feed_is_told(tab: Tab, changes: dict[str, Any], text: str) -> None:
    tab.answered("**/api/v1/feed", **changes)
    tab.page.goto("/")
    tab.page.get_by_role("button", name=f"User {tab.user}").click()
    expect(tab.page.get_by_text(text)).to_be_visible()


def test_a_renewed_order_and_a_page_that_failed_are_told_where_they_happen(tab: Tab) -> None:
    tab.may_complain_of = "503"
    failing = [True]

    def answer(route: Route) -> None:
        if failing:
            route.fulfill(**UNAVAILABLE)
            return
        given = route.fetch()
        page = given.json()
        page["snapshot"]["renewed"] = True
        route.fulfill(response=given, json=page)

    tab.page.route("**/api/v1/feed?cursor=*", answer)
    tab.enter()
    tab.posts.last.scroll_into_view_if_needed()
    retry = tab.page.get_by_role("button", name="Try again")
    expect(retry).to_be_visible()
    n = tab.posts.count()
    failing.clear()
    retry.click()
    expect(tab.posts.nth(n)).to_contain_text("from here on the order is new")


@pytest.mark.parametrize(
    ("auth", "texts"),
    [("jwt", ["foryou token 1", "Your token"]), ("header", ["X-User-Id", "gateway"])],
)
def test_without_an_identity_the_page_says_how_to_get_one(
    tab: Tab, auth: str, texts: list[str]
) -> None:
    tab.may_complain_of = "401"
    tab.page.route(
        "**/web/identity", lambda route: route.fulfill(json={"auth": auth, "people": []})
    )
    tab.page.goto("/")
    for text in texts:
        expect(tab.page.locator("#welcome")).to_contain_text(text)
    if auth == "jwt":
        tab.page.get_by_label("Your token").fill("not a token")
        tab.page.keyboard.press("Enter")
        expect(tab.page.get_by_role("alert")).to_contain_text("not valid")


def test_everything_has_a_name_a_role_and_a_place_in_the_order_of_focus(tab: Tab) -> None:
    tab.enter()
    named = tab.page.locator("button:visible, a[href]:visible, input")
    assert named.evaluate_all(NAMELESS) == []
    assert tab.posts.evaluate_all(UNLABELLED) == []
    assert tab.page.locator("h1:visible").count() == 1
    assert tab.page.get_by_role("main").count() == tab.page.get_by_role("feed").count() == 1
    ids = tab.page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))
    order = []
    for _ in range(9):
        tab.page.keyboard.press("Tab")
        order.append(tab.page.evaluate(FOCUSED).strip())
    first = ["skip", "For You", "ranked", "quiet", "HTTP reference", "post"]
    assert order[:6] == first
    assert {"action like", "action why"} <= set(order[6:])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_schemes(chromium: Browser, product: Product, scheme: Any) -> None:
    """By the contrast that WCAG 2.2 asks for at level AA: 4.5 to 1."""
    context = chromium.new_context(base_url=product.info["address"], color_scheme=scheme)
    tab = Tab(context.new_page(), product, product.info["users"][0])
    tab.enter()
    paper = _light(tab.page.locator("body"), "backgroundColor")
    assert (paper < 0.1) if scheme == "dark" else (paper > 0.8)
    for part in (
        ".post .body",
        ".post .meta",
        ".reason",
        ".why",
        ".quiet",
        "#mode-reason",
        "#session",
    ):
        ink = _light(tab.page.locator(part).first, "color")
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, part
    context.close()


def _light(part: Locator, style: str) -> float:
    """Return the relative luminance (WCAG 2.2) of a colour as the browser computed it."""
    text = part.evaluate("(element, style) => getComputedStyle(element)[style]", style)
    channels = [int(each) / 255 for each in re.findall(r"[0-9]+", text)[:3]]
    r, g, b = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("options", [{"viewport": PHONE, "has_touch": True, "is_mobile": True}])
def test_on_a_phone_nothing_scrolls_sideways_and_everything_can_be_tapped(
    tab: Tab, options: dict[str, Any]
) -> None:
    tab.page.route("**/feed/explain/**", lambda route: route.fulfill(json=EXPLANATION))
    tab.enter()
    width = "document.documentElement.scrollWidth"
    assert tab.page.evaluate(width) == PHONE["width"]
    boxes = tab.posts.first.get_by_role("button").evaluate_all(BOXES)
    assert all(w >= 24 and h >= 24 and right <= PHONE["width"] for w, h, right in boxes)
    assert len({round(box[1]) for box in boxes}) == 1, "one row"
    tab.page.get_by_role("button", name="Why this post").first.tap()
    expect(tab.page.get_by_role("dialog")).to_contain_text("Rules that moved it")
    assert tab.page.evaluate(width) == PHONE["width"]


def test_the_reference_lists_every_call_without_anything_from_elsewhere(tab: Tab) -> None:
    tab.page.goto("/docs")
    expect(tab.page.locator(".call").first).to_be_visible()
    paths = tab.product.client.get(f"{tab.product.info['address']}/openapi.json").json()["paths"]
    assert tab.page.locator(".call").count() == sum(len(methods) for methods in paths.values())
    tab.page.get_by_text("/api/v1/feed", exact=True).click()
    expect(tab.page.get_by_text("ranked | chronological: in the query")).to_be_visible()

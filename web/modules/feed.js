// The endless scroll: one session of a feed, opened once and turned page by page to its end.

import { byId, h } from "./dom.js";
import { degraded, emptyBecause } from "./words.js";

const AHEAD = "900px"; // the next page is asked for before the reader gets there
const LOOK_AGAIN_MS = 1500;
const LOOKS = 6;

export class Feed {
  /** `draw(item, snapshotId)` makes an article; `onOpen(page)` hears of each new session. */
  constructor({ api, draw, onOpen }) {
    Object.assign(this, { api, draw, onOpen });
    this.posts = byId("posts");
    this.end = byId("end");
    this.notice = byId("notice");
    this.sentinel = h("div", { class: "sentinel", "aria-hidden": "true" });
    this.observer = new IntersectionObserver((entries) => entries.some((each) => each.isIntersecting) && this.more(), { rootMargin: AHEAD });
    this.session = 0; // answers to an earlier session are thrown away
    this.looks = 0;
  }

  /** Open the feed anew; resolves to its first page, or null when that failed or came too late. */
  async open() {
    const session = (this.session += 1);
    this.cursor = null;
    this.isAsking = true;
    this.#busy(true);
    const page = await this.#ask(session, {}, () => this.open());
    if (!page) return null;
    this.posts.replaceChildren();
    this.count = 0;
    this.onOpen(page);
    this.#take(page);
    return page;
  }

  /** Give the next page, unless it is on its way or there is none. */
  async more() {
    if (this.isAsking || !this.cursor) return;
    this.isAsking = true;
    this.#busy(true);
    const page = await this.#ask(this.session, { cursor: this.cursor }, () => this.more());
    if (page) this.#take(page);
  }

  close() {
    this.session += 1;
    this.observer.disconnect();
    clearTimeout(this.timer);
    for (const part of [this.posts, this.end]) part.replaceChildren();
    this.notice.hidden = true;
  }

  async #ask(session, query, again) {
    clearTimeout(this.timer);
    try {
      const page = await this.api.get("/feed", query);
      return session === this.session ? page : null;
    } catch (problem) {
      if (session === this.session) this.#failed(problem, again);
      return null;
    } finally {
      if (session === this.session) this.isAsking = false;
    }
  }

  #take(page) {
    const articles = page.items.map((item) => this.draw(item, page.snapshot?.id ?? null));
    for (const article of articles) {
      article.setAttribute("aria-posinset", String((this.count += 1)));
      article.setAttribute("aria-setsize", page.next_cursor ? "-1" : String(this.count));
    }
    if (page.snapshot?.renewed) articles[0]?.prepend(h("p", { class: "renewed" }, "You were away for a while: from here on the order is new, without what you had already."));
    this.posts.append(...articles);
    this.cursor = page.next_cursor;
    this.#busy(false);
    this.#tell(page);
    this.observer.disconnect();
    if (this.cursor) {
      this.end.replaceChildren(this.sentinel);
      this.observer.observe(this.sentinel); // observing anew asks again while the end is in sight
    } else {
      this.end.replaceChildren(this.count ? h("p", { class: "over" }, "That is everything.") : this.#empty(page));
    }
  }

  #tell(page) {
    const texts = [];
    if (page.state === "building") texts.push("Your feed is being put together; until it is done, this comes straight from the archive.");
    if (page.degraded.length) texts.push(degraded(page.degraded));
    if (page.state === "building" && !this.count && (this.looks += 1) < LOOKS) this.timer = setTimeout(() => this.open(), LOOK_AGAIN_MS);
    else if (page.state !== "building") this.looks = 0;
    if (!texts.length) return;
    this.notice.replaceChildren(h("p", {}, texts.join(" ")), h("button", { class: "quiet", type: "button", onclick: () => this.open() }, "Look again"));
    this.notice.hidden = false;
  }

  #empty(page) {
    const [title, text] = emptyBecause(page.empty_because);
    return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, text));
  }

  #failed(problem, again) {
    this.#busy(false);
    this.observer.disconnect();
    const isStale = problem.code === "cursor_invalid" || problem.code === "cursor_mode_mismatch";
    const retry = isStale ? () => this.open() : again;
    const text = isStale ? "This feed is from an earlier visit and cannot go on." : problem.message;
    this.end.replaceChildren(h("div", { class: "failed" }, h("p", {}, text), h("button", { class: "plain", type: "button", onclick: retry }, isStale ? "Open it again" : "Try again")));
  }

  #busy(isBusy) {
    this.posts.setAttribute("aria-busy", String(isBusy));
    if (!isBusy) return;
    if (!this.cursor) this.notice.hidden = true;
    this.end.replaceChildren(h("p", { class: "loading" }, "Loading posts"), ...(this.cursor ? [this.sentinel] : []));
  }
}

// The new-posts pill: asks gently what was written since the feed was opened. Asking is no visit.

import { byId, icon } from "./dom.js";
import { count, list } from "./words.js";

const EVERY_MS = 15_000;
const SLOWEST_MS = 240_000;

export class Pill {
  /** `onPress` opens the feed anew. */
  constructor({ api, onPress }) {
    this.api = api;
    this.button = byId("pill");
    this.timer = null;
    this.button.onclick = onPress;
    this.turned = () => (document.hidden ? this.#rest() : this.#ask());
    document.addEventListener("visibilitychange", this.turned);
  }

  /** Ask from now on for what is newer than the session of this cursor. */
  since(cursor) {
    this.cursor = cursor;
    this.pause = EVERY_MS;
    this.button.hidden = true;
    this.#rest();
    this.#later();
  }

  close() {
    document.removeEventListener("visibilitychange", this.turned);
    this.cursor = null;
    this.button.hidden = true;
    this.#rest();
  }

  #rest() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  #later() {
    if (this.cursor && !document.hidden) this.timer ??= setTimeout(() => this.#ask(), this.pause);
  }

  async #ask() {
    this.#rest();
    const cursor = this.cursor;
    if (!cursor) return;
    try {
      const found = await this.api.get("/feed/updates", { cursor });
      if (cursor !== this.cursor) return;
      this.#show(found);
      this.pause = EVERY_MS;
    } catch (problem) {
      if (cursor !== this.cursor || problem.status === 400) return;
      this.pause = Math.min(SLOWEST_MS, 2 * Math.max(this.pause, problem.retryAfterS * 1000));
    }
    this.#later();
  }

  #show({ new_count: n, capped, authors }) {
    if (!n) {
      this.button.hidden = true;
      return;
    }
    const text = `${capped ? `${n} or more new posts` : count(n, "new post")} from ${list(authors.map((each) => each.name))}`;
    if (!this.button.hidden && this.button.textContent === text) return; // said once is enough
    this.button.replaceChildren(icon("up"), text);
    this.button.hidden = false;
  }
}

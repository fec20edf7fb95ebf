// The switch between ranked and newest first: it says which is on and why, and keeps a choice.

import { byId } from "./dom.js";
import { say } from "./toast.js";
import { modeReason } from "./words.js";

export class ModeSwitch {
  /** `onChange` opens the feed anew and resolves to its page. */
  constructor({ api, onChange }) {
    Object.assign(this, { api, onChange });
    this.form = byId("order");
    this.choices = [...this.form.querySelectorAll("input")];
    this.reason = byId("mode-reason");
    this.letGo = byId("mode-default");
    this.ended = new AbortController();
    const { signal } = this.ended;
    this.form.addEventListener("change", (event) => this.#choose(event.target.value), { signal });
    this.form.addEventListener("submit", (event) => event.preventDefault(), { signal });
    this.letGo.addEventListener("click", () => this.#choose("default"), { signal });
  }

  /** Show what a page says. */
  show({ mode, mode_reason }) {
    this.shown = mode;
    this.#check(mode);
    this.reason.textContent = modeReason(mode, mode_reason);
    this.letGo.hidden = mode_reason !== "preference";
    this.form.hidden = false;
  }

  close() {
    this.ended.abort();
    this.form.hidden = true;
  }

  async #choose(mode) {
    const hadFocus = document.activeElement === this.letGo;
    try {
      await this.api.put("/preferences", { feed_mode: mode });
    } catch {
      this.#check(this.shown);
      say("Your choice could not be saved. Try again in a moment.");
      return;
    }
    const page = await this.onChange();
    if (hadFocus) this.choices.find((each) => each.checked)?.focus();
    if (page && mode !== "default" && page.mode !== mode) say("Your choice is kept, but another order is on for now.");
  }

  #check(mode) {
    for (const choice of this.choices) choice.checked = choice.value === mode;
  }
}

// A like button: it changes at once, and goes back when the service does not take it.

import { h, icon } from "./dom.js";
import { eventOf, report } from "./events.js";
import { say } from "./toast.js";
import { count } from "./words.js";

export function likeButton(api, item, snapshotId) {
  const number = h("span", { class: "count" });
  const button = h("button", { class: "action like", type: "button", onclick: () => toggle() }, icon("like"), number);
  const others = item.counts.likes - (item.viewer.liked ? 1 : 0);
  let kept = item.viewer.liked; // what the service knows
  let wanted = kept; // what the viewer sees
  let isSending = false;

  function draw() {
    const likes = Math.max(0, others + (wanted ? 1 : 0));
    number.textContent = String(likes);
    button.setAttribute("aria-pressed", String(wanted));
    button.setAttribute("aria-label", `Like, ${count(likes, "like")}`);
  }

  function toggle() {
    wanted = !wanted;
    draw();
    if (!isSending) send();
  }

  async function send() {
    isSending = true;
    try {
      while (wanted !== kept) {
        const sent = wanted;
        await report(api, eventOf(sent ? "like" : "unlike", item, snapshotId));
        kept = sent;
      }
    } catch {
      wanted = kept;
      draw();
      say("That could not be saved, so it was undone. Try again in a moment.");
    }
    isSending = false;
  }

  draw();
  return button;
}

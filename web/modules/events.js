// Reports what the viewer did. An event keeps its id for ever, so sending it again counts once.

import { Problem } from "./api.js";

const MOST_AT_ONCE = 200;
const MOST_KEPT = 1000;
const EVERY_MS = 4000;

/** Make an event of now. */
export function eventOf(type, item, snapshotId) {
  return {
    event_id: uuid(),
    type,
    post_id: item.id,
    at: new Date().toISOString(),
    snapshot_id: snapshotId ?? null,
    position: item.position,
  };
}

/** Send one event now; it failed unless the service took it. */
export async function report(api, event) {
  const { rejected } = await api.post("/events", { events: [event] });
  if (rejected.length) throw new Problem(422, rejected[0].code, rejected[0].detail);
}

/** Gathers events that can wait, and sends them a few seconds later or when the page is left. */
export class Batch {
  constructor(api) {
    this.api = api;
    this.waiting = [];
    this.timer = null;
    this.leaving = () => document.hidden && this.send({ last: true });
    document.addEventListener("visibilitychange", this.leaving);
  }

  add(event) {
    this.waiting = [...this.waiting, event].slice(-MOST_KEPT);
    this.timer ??= setTimeout(() => this.send(), EVERY_MS);
  }

  async send({ last = false } = {}) {
    clearTimeout(this.timer);
    this.timer = null;
    const events = this.waiting.slice(0, MOST_AT_ONCE);
    if (!events.length) return;
    this.waiting = this.waiting.slice(events.length);
    try {
      await this.api.post("/events", { events }, { last });
    } catch (problem) {
      const isTheirs = problem.status >= 400 && problem.status < 500 && problem.status !== 429;
      if (!isTheirs) for (const event of events) this.add(event);
    }
  }

  /** Send what is left and end. */
  close() {
    document.removeEventListener("visibilitychange", this.leaving);
    this.send({ last: true });
  }
}

/** `crypto.randomUUID` exists on https and loopback only; this exists everywhere. */
function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

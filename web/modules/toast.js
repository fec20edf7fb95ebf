// Says one short thing for a few seconds, to eyes and to screen readers.

import { byId } from "./dom.js";

const SHOWN_MS = 6000;
let timer = null;

export function say(text) {
  const toast = byId("toast");
  toast.textContent = text;
  toast.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => (toast.hidden = true), SHOWN_MS);
}

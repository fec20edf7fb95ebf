// Who is asking: one of a few people (dev), a token, or whoever a gateway says. Kept for this tab.

import { avatar, byId, h } from "./dom.js";

const KEPT_AS = "foryou.who";
const ID = /^[1-9][0-9]{0,18}$/;

/** Read whom this tab was before a reload: { id, name } or { token }; null: nobody yet. */
export function whoWasHere() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT_AS));
  } catch {
    return null;
  }
}

/** Remember for this tab who is here; null forgets. */
export function remember(who) {
  if (who) sessionStorage.setItem(KEPT_AS, JSON.stringify(who));
  else sessionStorage.removeItem(KEPT_AS);
}

/** Say it in the headers that the service understands. */
export function headersOf(auth, who) {
  if (auth === "dev") return who ? { "X-User-Id": who.id } : null;
  if (auth === "jwt") return who?.token ? { Authorization: `Bearer ${who.token}` } : null;
  return {}; // a gateway adds its own
}

/** Name who is here, to be shown; null: only the gateway knows. */
export function personOf(who) {
  if (!who?.token) return who;
  const id = subjectOf(who.token);
  return { id: ID.test(id) ? id : "1", name: `User ${id}` };
}

function subjectOf(token) {
  try {
    return String(JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"))).sub);
  } catch {
    return "unknown";
  }
}

/** Show how to become somebody; `onChosen` is given who it is. */
export function welcome({ auth, people }, onChosen, refusal = "") {
  const section = byId("welcome");
  const title = h("h1", { id: "welcome-title", tabindex: "-1" }, auth === "dev" ? "Who do you want to be?" : "Who is asking?");
  const shown = { dev: () => choose(people, onChosen), jwt: () => askForToken(onChosen), header: () => behindGateway() };
  section.replaceChildren(title, refusal ? h("p", { class: "refusal", role: "alert" }, refusal) : "", ...shown[auth]());
  section.hidden = false;
  title.focus({ preventScroll: true });
}

function choose(people, onChosen) {
  const cards = people.map((person) => h("li", {}, h("button", { class: "person", type: "button", onclick: () => onChosen(person) },
    avatar(person), h("span", {}, h("strong", {}, person.name), h("span", { class: "meta" }, `User ${person.id}`)))));
  const lead = people.length
    ? "These people follow the most others, so their feeds are full. Each tab can be somebody else."
    : "Nobody is here yet. Bring your own data with foryou import, then come back; or be any id.";
  return [h("p", { class: "lead" }, lead), people.length ? h("ul", { class: "people" }, cards) : "", anybody(onChosen)];
}

function anybody(onChosen) {
  const field = h("input", { id: "anybody", name: "id", inputmode: "numeric", autocomplete: "off", pattern: "[1-9][0-9]{0,18}", required: true, title: "A positive whole number" });
  const chosen = (event) => {
    event.preventDefault();
    if (ID.test(field.value)) onChosen({ id: field.value, name: `User ${field.value}` });
  };
  return h("form", { class: "ask", onsubmit: chosen }, h("label", { for: "anybody" }, "Or be any other id"), h("div", { class: "row" }, field, h("button", { class: "plain" }, "Be this one")));
}

function askForToken(onChosen) {
  const field = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const chosen = (event) => {
    event.preventDefault();
    onChosen({ token: field.value.trim() });
  };
  return [
    h("p", { class: "lead" }, "This service knows its callers by a signed token. Whoever runs it can make one, for the user with id 1:"),
    h("pre", {}, h("code", {}, "foryou token 1")),
    h("form", { class: "ask", onsubmit: chosen },
      h("label", { for: "token" }, "Your token"),
      h("div", { class: "row" }, field, h("button", { class: "plain" }, "Open my feed")),
      h("p", { class: "meta" }, "It stays in this tab, goes to this service only, and is forgotten when the tab is closed.")),
  ];
}

function behindGateway() {
  return [
    h("p", { class: "lead" }, "This service trusts a gateway in front of it to say who is asking, and this request came without that."),
    h("p", {}, "Open this page through the gateway, signed in there. It has to set the header ", h("code", {}, "X-User-Id"), " on every request."),
    h("button", { class: "plain", type: "button", onclick: () => location.reload() }, "Try again"),
  ];
}

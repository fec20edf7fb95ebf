// Puts the first page together: who is here, and then that person's feed.

import { Api, readIdentity } from "./api.js";
import { byId, drawAvatar, h } from "./dom.js";
import { Batch } from "./events.js";
import { Feed } from "./feed.js";
import { Impressions } from "./impressions.js";
import { listenToKeys } from "./keys.js";
import { ModeSwitch } from "./mode.js";
import { Pill } from "./pill.js";
import { postArticle } from "./post.js";
import { headersOf, personOf, remember, welcome, whoWasHere } from "./who.js";
import { WhyDrawer } from "./why.js";
import { sessionOf } from "./words.js";

let close = () => {}; // ends what the person who was here before has running

async function start() {
  listenToKeys(byId("posts"));
  try {
    const identity = await readIdentity();
    byId("leave").onclick = () => ask(identity);
    enter(identity, whoWasHere());
  } catch (problem) {
    const retry = h("button", { class: "plain", type: "button", onclick: () => location.reload() }, "Try again");
    byId("welcome").replaceChildren(h("h1", { id: "welcome-title" }, "Not available just now"), h("p", { class: "lead" }, problem.message), retry);
    byId("welcome").hidden = false;
  }
}

/** Ask who is here. */
function ask(identity, refusal) {
  close();
  close = () => {};
  remember(null);
  byId("feed").hidden = true;
  byId("you").hidden = true;
  welcome(identity, (who) => enter(identity, who, { isNew: true }), refusal);
}

/** Show the feed of whoever is here; ask when nobody is. */
function enter(identity, who, { isNew = false } = {}) {
  const headers = headersOf(identity.auth, who);
  if (!headers) {
    ask(identity);
    return;
  }
  const api = new Api(headers, () => ask(identity, identity.auth === "jwt" ? "That token is not valid, or no longer." : ""));
  remember(who);
  close = visit(api);
  showWho(who);
  byId("welcome").hidden = true;
  byId("feed").hidden = false;
  if (isNew) byId("feed-title").focus({ preventScroll: true });
}

/** Run one person's visit; returns what ends it. */
function visit(api) {
  const batch = new Batch(api);
  const why = new WhyDrawer(api);
  let impressions = new Impressions(batch);
  const mode = new ModeSwitch({ api, onChange: () => feed.open() });
  const pill = new Pill({ api, onPress: () => toTheTop() });
  const feed = new Feed({ api, draw, onOpen: opened });

  function draw(item, snapshotId) {
    const article = postArticle(item, { api, snapshotId, onWhy: (...asked) => why.open(...asked) });
    impressions.watch(article, item, snapshotId);
    return article;
  }

  function opened(page) {
    impressions.close();
    impressions = new Impressions(batch);
    mode.show(page);
    byId("session").textContent = sessionOf(page);
    pill.since(page.updates_cursor);
    window.scrollTo({ top: 0 });
  }

  async function toTheTop() {
    if (await feed.open()) byId("posts").firstElementChild?.focus({ preventScroll: true });
  }

  feed.open();
  return () => [feed, pill, mode, impressions, batch, why].forEach((part) => part.close());
}

function showWho(who) {
  const person = personOf(who);
  byId("you").hidden = !person;
  if (!person) return;
  drawAvatar(byId("you-avatar"), person);
  byId("you-name").textContent = person.name;
}

start();

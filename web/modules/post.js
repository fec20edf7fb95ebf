// One post of a feed as an article, with what can be done to it.

import { avatar, h, icon } from "./dom.js";
import { likeButton } from "./like.js";
import { say } from "./toast.js";
import { ago, count, inFull, list, plain } from "./words.js";

const ADDRESS = /https?:\/\/[^\s<>"']+[^\s<>"'.,;:!?)\]]/gi;

/** Make the article. `context` has the api, the snapshot's id and `onWhy`. */
export function postArticle(item, { api, snapshotId, onWhy }) {
  const nameId = `post-${item.id}-author`;
  const article = h("article", { class: "post", tabindex: "0", "aria-labelledby": nameId, "data-id": item.id, "data-position": item.position });
  const content = [
    reasonLine(item),
    byline(item, nameId),
    ...bodyOf(item),
    h("div", { class: "actions" },
      likeButton(api, item, snapshotId),
      tally("comment", item.counts.comments, "comment"),
      tally("repost", item.counts.reposts, "repost"),
      h("span", { class: "spring" }),
      h("button", { class: "action why", type: "button", onclick: () => onWhy(item, snapshotId) }, icon("why"), h("span", {}, "Why", h("span", { class: "wide" }, " this post"))),
      h("button", { class: "action hide", type: "button", onclick: () => hide() }, icon("hide"), h("span", { class: "wide" }, "Hide"))),
  ];

  async function hide() {
    const undo = h("button", { class: "quiet undo", type: "button", onclick: () => show() }, "Undo");
    article.replaceChildren(h("p", { class: "gone" }, h("span", { id: nameId }, `Post by ${item.author.name} hidden`), undo));
    article.classList.add("is-hidden");
    undo.focus();
    try {
      await api.put(`/hidden/${item.id}`);
    } catch {
      restore();
      say("The post could not be hidden. Try again in a moment.");
    }
  }

  async function show() {
    try {
      await api.delete(`/hidden/${item.id}`);
      restore();
    } catch {
      say("That could not be undone. Try again in a moment.");
    }
  }

  function restore() {
    article.classList.remove("is-hidden");
    article.replaceChildren(...content);
    article.focus({ preventScroll: true });
  }

  article.append(...content);
  return article;
}

function reasonLine(item) {
  // The reason of a plain repost names its reposters already.
  const isRepost = item.repost_of && !item.body && !item.media.length;
  const by = isRepost ? [] : item.reposted_by.map((each) => each.name);
  const more = by.length > 2 ? `${by[0]} and ${count(by.length - 1, "other")}` : list(by);
  const text = [item.reason, by.length ? `Reposted by ${more}` : null].filter(Boolean).join(" · ");
  return h("p", { class: item.in_network ? "reason" : "reason from-beyond" }, text);
}

function byline(item, nameId) {
  return h("header", { class: "byline" },
    avatar(item.author),
    h("h2", { id: nameId, dir: "auto" }, item.author.name),
    time(item.created_at),
    item.edited_at ? h("span", { class: "meta", title: inFull(item.edited_at) }, "edited") : null,
    item.viewer.seen ? h("span", { class: "meta" }, "seen") : null);
}

const time = (at) => h("time", { class: "meta", datetime: at, title: inFull(at) }, ago(at));

function bodyOf({ body, media, original, reply_to }) {
  return [
    reply_to ? h("p", { class: "meta reply" }, "A reply") : null,
    body ? h("p", { class: "body", dir: "auto" }, linked(body)) : null,
    media.length ? mediaList(media) : null,
    original ? quoted(original) : null,
  ].filter(Boolean);
}

function quoted(original) {
  return h("blockquote", { class: "original" },
    h("p", { class: "byline" }, avatar(original.author), h("cite", { dir: "auto" }, original.author.name), time(original.created_at)),
    ...bodyOf({ ...original, original: null, reply_to: null }));
}

/** Media stay links: nothing is loaded from elsewhere until somebody asks for it. */
function mediaList(media) {
  return h("ul", { class: "media" }, media.map(({ url, alt }) => h("li", {}, link(url, alt || plain("media")))));
}

function linked(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(ADDRESS)) {
    parts.push(text.slice(end, found.index), link(found[0], found[0].replace(/^https?:\/\//i, "")));
    end = found.index + found[0].length;
  }
  return [...parts, text.slice(end)].filter((part) => part !== "");
}

/** Link to the web and nowhere else: a post may hold `javascript:` and worse. */
function link(address, text) {
  const url = URL.canParse(address) ? new URL(address) : null;
  if (!url || !["http:", "https:"].includes(url.protocol)) return text;
  return h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow ugc" }, text);
}

function tally(name, n, one) {
  return h("span", { class: "action tally" }, icon(name), h("span", { class: "count", "aria-hidden": "true" }, String(n)), h("span", { class: "unseen" }, count(n, one)));
}

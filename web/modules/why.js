// The drawer that says why a post is where it is: scores as bars, and the rules that moved it.

import { byId, h } from "./dom.js";
import { figure, inFull, plain, rule, source } from "./words.js";

const SCORES = { light: "By the formula", heavy: "By the model", final: "In the end" };

export class WhyDrawer {
  constructor(api) {
    this.api = api;
    this.dialog = byId("why");
    this.body = byId("why-body");
    this.asked = 0;
    byId("why-close").onclick = () => this.dialog.close();
    this.dialog.onclick = ({ target }) => target === this.dialog && this.dialog.close();
  }

  /** Open the drawer for a post; Escape closes it, and the focus goes back to where it was. */
  async open(item, snapshotId) {
    const asked = (this.asked += 1);
    this.body.replaceChildren(about(item), h("p", { class: "loading" }, "Looking it up"));
    if (!this.dialog.open) this.dialog.showModal();
    const told = snapshotId ? await this.#told(item, snapshotId) : unranked(item);
    if (asked === this.asked) this.body.replaceChildren(about(item), ...told);
  }

  close() {
    this.asked += 1;
    this.dialog.close();
  }

  async #told(item, snapshot) {
    try {
      return explained(await this.api.get(`/feed/explain/${item.id}`, { snapshot }));
    } catch (problem) {
      if (problem.status !== 404) return [h("p", { class: "because" }, problem.message)];
      return [
        h("p", { class: "because" }, "Not available any more."),
        h("p", { class: "meta" }, "How a feed was ordered is kept for as long as one can scroll it. Open the feed again to ask about what is in it now."),
      ];
    }
  }
}

function about(item) {
  return h("p", { class: "about" },
    h("strong", { dir: "auto" }, item.author.name), " ",
    h("span", { dir: "auto" }, item.body || item.original?.body || ""));
}

function unranked(item) {
  return [
    h("p", { class: "because" }, `${item.reason}.`),
    h("p", { class: "meta" }, "This part of the feed is newest first: nothing is scored and no rule moves anything."),
    facts([["Where it came from", source(item.source)], ["Written", inFull(item.created_at)]]),
  ];
}

function explained(told) {
  const { score, snapshot } = told;
  return [
    h("p", { class: "because" }, told.because),
    scores(score),
    multipliers(told.multipliers ?? []),
    moves(told.moves ?? []),
    features(told.features ?? []),
    part("Where it stands", facts([
      ["Place", Number.isInteger(told.position) ? `${told.position + 1} of ${snapshot.size}` : null],
      ["Where it came from", told.source ? source(told.source) : null],
      ["Ranked by", plain(snapshot.ranker)],
      ["Model", snapshot.model_version],
      ["Weights", snapshot.weights_version],
      ["Ordered", inFull(snapshot.created_at)],
    ])),
  ].filter(Boolean);
}

function scores(score) {
  const given = Object.entries(SCORES).filter(([name]) => Number.isFinite(score?.[name]));
  if (!given.length) return null;
  const full = Math.max(1, ...given.map(([name]) => score[name]));
  return part("Score", bars(given.map(([name, label]) => ({ label, text: figure(score[name]), share: score[name] / full, isLast: name === "final" }))));
}

function multipliers(given) {
  if (!given.length) return null;
  return part("What changed the score", bars(given.map((each) => ({ label: rule(each.rule), text: `× ${figure(each.factor)}`, share: each.factor }))));
}

function moves(given) {
  const told = given.map((each) => h("li", {},
    h("span", {}, rule(each.rule)),
    h("span", { class: each.to < each.from ? "move is-up" : "move" }, `place ${each.from + 1} → ${each.to + 1}`)));
  return part("Rules that moved it", told.length ? h("ul", { class: "moves" }, told) : h("p", { class: "meta" }, "None: it stands where its score put it."));
}

function features(given) {
  if (!given.length) return null;
  return part("What was known", facts(given.map(({ name, value, unit }) => [plain(name), feature(value, unit)])));
}

const feature = (value, unit) => [typeof value === "number" ? figure(value) : String(value), unit].filter(Boolean).join(" ");

const part = (title, content) => h("section", {}, h("h3", {}, title), content);

/** Draw labelled bars; a share is 0 to 1 of the width, and the number stands beside it as text. */
function bars(rows) {
  return h("ul", { class: "bars" }, rows.map(({ label, text, share, isLast }) => h("li", { class: isLast ? "is-final" : null },
    h("span", { class: "bar-label" }, label),
    h("span", { class: "bar-value" }, text),
    h("span", { class: "bar", "aria-hidden": "true", vars: { "--share": String(Math.min(1, Math.max(0, share))) } }))));
}

function facts(rows) {
  const known = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

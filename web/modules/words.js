// What the service says in codes, in plain words. The only module that knows the codes.

const MODE_REASONS = {
  preference: "You chose this order.",
  request: "Asked for just now.",
  override: "Set for you by the people who run this service.",
  cohort: "The group you belong to gets this order.",
  holdout: "You are in a small group that stays with newest first, for comparison.",
  default: "Everybody gets this order until they choose.",
  kill_switch: "For the moment everybody gets this order; your choice is kept.",
  fallback: "The ranking is not available right now.",
};

/** Say why a feed has the mode it has. */
export function modeReason(mode, reason) {
  if (reason === "rollout")
    return mode === "ranked"
      ? "Ranking is being introduced step by step, and you have it."
      : "Ranking is being introduced step by step; it has not come to you yet.";
  return MODE_REASONS[reason] ?? plain(reason);
}

/** Say what was opened: how much is in this order, and that it stays. */
export function sessionOf({ mode, snapshot }) {
  if (mode === "chronological") return "Everything from the people you follow, newest first.";
  return snapshot ? `${count(snapshot.size, "post")} in this order. It stays put while you read.` : "";
}

const EMPTY = {
  no_follows: ["Nobody followed yet", "A feed is made of the people you follow. Follow somebody, and their posts appear here."],
  no_posts: ["Nothing written yet", "The people you follow have not posted anything. Their first posts will appear here."],
  all_filtered: ["Everything here is hidden", "There are posts, but you have hidden them or muted or blocked who wrote them."],
};

/** Say why a feed is empty: a title and a sentence. */
export const emptyBecause = (reason) => EMPTY[reason] ?? ["Nothing here", "There is nothing to show."];

const DEGRADED = {
  chain: "what you saw before",
  served_log: "what you saw before",
  snapshot: "keeping this order",
  pushed_feed: "your prepared feed",
  author_outboxes: "authors with many followers",
  below_floor: "older posts",
  popular: "popular posts",
  network_likes: "what people you follow like",
  affinity: "who you like to read",
  post_signals: "counts of likes",
};

/** Say which parts were left out of a page. */
export function degraded(parts) {
  const named = [...new Set(parts.map((part) => DEGRADED[part] ?? plain(part)))];
  return `Some parts did not answer in time and were left out: ${list(named)}.`;
}

const RULES = {
  spacing: "No more than two posts of one author in a row",
  author_run: "No more than two posts of one author in a row",
  format_run: "No more than three posts of one kind in a row",
  format_spacing: "No more than three posts of one kind in a row",
  one_original: "One original appears once",
  author_decay: "Further posts of one author count less",
  seen: "You have seen it before",
  seen_later: "You have seen it before",
  oon: "From beyond the people you follow",
  oon_factor: "From beyond the people you follow",
  oon_share: "A bounded share from beyond the people you follow",
  oon_run: "No more than two in a row from beyond the people you follow",
  new_author: "A hand up for somebody new",
  new_author_lift: "A hand up for somebody new",
};

/** Name a rule of the mixer. */
export const rule = (name) => RULES[name] ?? plain(name);

const SOURCES = {
  pushed_feed: "People you follow",
  author_outbox: "People you follow who have many followers",
  author_outboxes: "People you follow who have many followers",
  followed_posts: "People you follow",
  own_posts: "Your own posts",
  below_floor: "Older posts of people you follow",
  popular: "Popular right now",
  network_likes: "Liked by people you follow",
};

/** Name where a post came from. */
export const source = (name) => SOURCES[name] ?? plain(name);

/** Read a code as words: `recency_decay` as "Recency decay". */
export function plain(code) {
  const words = String(code).replaceAll(/[_.:-]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Join names: "A", "A and B", "A, B and C". */
export function list(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** Count things: "1 new post", "2 new posts". */
export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

/** Say how long ago something was; beyond a week, its date. */
export function ago(time, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 7 * 86_400) return count(Math.floor(seconds / 86_400), "day");
  return new Date(time).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
}

/** Write a time in full. */
export const inFull = (time) =>
  new Date(time).toLocaleString("en", { dateStyle: "full", timeStyle: "short" });

/** Write a number with at most three figures that matter. */
export const figure = (value) =>
  new Intl.NumberFormat("en", { maximumSignificantDigits: 3 }).format(value);

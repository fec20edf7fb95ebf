// Moves through posts by key. Only while a post has the focus, so that no key is taken elsewhere.

const ACTIONS = { l: ".like", w: ".why", x: ".hide" };
const STEPS = { j: 1, k: -1, PageDown: 1, PageUp: -1 };

export function listenToKeys(posts) {
  posts.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const article = event.target.closest("article");
    if (!article) return;
    if (event.key in STEPS) move(article, STEPS[event.key]);
    else if (event.key in ACTIONS) article.querySelector(ACTIONS[event.key])?.click();
    else return;
    event.preventDefault();
  });
}

function move(article, step) {
  const next = step > 0 ? article.nextElementSibling : article.previousElementSibling;
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "start" });
}

// Reports each post that was on the screen for a second: half of it, or half of the screen full.

import { eventOf } from "./events.js";

const LOOKED_AT_MS = 1000;
const STEPS = Array.from({ length: 21 }, (_, step) => step / 20);

export class Impressions {
  constructor(batch) {
    this.batch = batch;
    this.posts = new Map(); // element -> { item, snapshotId, timer, isThere }
    this.observer = new IntersectionObserver((entries) => entries.forEach((each) => this.#moved(each)), { threshold: STEPS });
    this.turned = () => this.posts.forEach((_, element) => this.#judge(element));
    document.addEventListener("visibilitychange", this.turned);
  }

  watch(element, item, snapshotId) {
    this.posts.set(element, { item, snapshotId, timer: null, isThere: false });
    this.observer.observe(element);
  }

  close() {
    document.removeEventListener("visibilitychange", this.turned);
    this.posts.forEach((_, element) => this.#forget(element));
  }

  #moved({ target, intersectionRatio, intersectionRect, rootBounds }) {
    const post = this.posts.get(target);
    if (!post) return;
    const half = rootBounds ? rootBounds.height / 2 : Infinity;
    post.isThere = intersectionRatio >= 0.5 || intersectionRect.height >= half;
    this.#judge(target);
  }

  #judge(element) {
    const post = this.posts.get(element);
    const isSeen = post.isThere && !document.hidden;
    if (isSeen) post.timer ??= setTimeout(() => this.#seen(element), LOOKED_AT_MS);
    else {
      clearTimeout(post.timer);
      post.timer = null;
    }
  }

  #seen(element) {
    const { item, snapshotId } = this.posts.get(element);
    this.#forget(element);
    this.batch.add(eventOf("impression", item, snapshotId));
  }

  #forget(element) {
    clearTimeout(this.posts.get(element).timer);
    this.observer.unobserve(element);
    this.posts.delete(element);
  }
}

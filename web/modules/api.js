// Speaks HTTP with the service, as one person. Every failure is a Problem.

const PREFIX = "/api/v1";

/** An answer that is no success, or no answer at all (status 0). */
export class Problem extends Error {
  constructor(status, code, detail, retryAfterS = 0) {
    super(detail);
    this.status = status;
    this.code = code;
    this.retryAfterS = retryAfterS;
  }
}

export class Api {
  /** `headers` say who is asking; `onUnknown` is told when the service does not accept them. */
  constructor(headers, onUnknown = () => {}) {
    this.headers = headers;
    this.onUnknown = onUnknown;
  }

  get = (path, query) => this.call("GET", path, { query });
  put = (path, body) => this.call("PUT", path, { body });
  delete = (path) => this.call("DELETE", path);
  /** Post; `last` lets the request outlive the page. */
  post = (path, body, { last = false } = {}) => this.call("POST", path, { body, keepalive: last });

  async call(method, path, { query = {}, body, keepalive = false } = {}) {
    const answer = await send(addressOf(path, query), {
      method,
      keepalive,
      headers: { ...this.headers, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (answer.ok) return answer.status === 204 ? null : answer.json();
    const problem = await problemOf(answer);
    if (problem.status === 401) this.onUnknown(problem);
    throw problem;
  }
}

/** Ask how callers are known here, and whom one can be. */
export async function readIdentity() {
  const answer = await send("/web/identity", {});
  if (!answer.ok) throw await problemOf(answer);
  return answer.json();
}

function addressOf(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  return PREFIX + path + (given.length ? `?${new URLSearchParams(given)}` : "");
}

async function send(address, options) {
  try {
    return await fetch(address, options);
  } catch {
    throw new Problem(0, "unreachable", "The service cannot be reached.");
  }
}

async function problemOf(answer) {
  const given = await answer.json().catch(() => ({}));
  const detail = given.detail ?? "The service answered with an error.";
  return new Problem(answer.status, given.code ?? "internal", detail, Number(answer.headers.get("Retry-After") ?? 0));
}

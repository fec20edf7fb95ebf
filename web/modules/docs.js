// Draws /openapi.json as a page: each call with its parameters, its body and its answers.

import { byId, h } from "./dom.js";
import { plain } from "./words.js";

async function start() {
  const answer = await fetch("/openapi.json").catch(() => null);
  const calls = byId("calls");
  calls.setAttribute("aria-busy", "false");
  if (!answer?.ok) {
    calls.replaceChildren(h("p", { class: "notice", role: "alert" }, "The description of the HTTP surface cannot be read just now."));
    return;
  }
  const document_ = await answer.json();
  const groups = byTag(document_);
  byId("contents").replaceChildren(...[...groups.keys()].map((tag) => h("a", { href: `#${tag}` }, plain(tag))));
  calls.replaceChildren(...[...groups].map(([tag, each]) => h("section", { id: tag, class: "group" }, h("h2", {}, plain(tag)), each.map((call) => drawCall(call, document_)))));
}

function byTag({ paths }) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(paths))
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), { path, method, operation }]);
    }
  return groups;
}

function drawCall({ path, method, operation }, document_) {
  const body = Object.values(operation.requestBody?.content ?? {})[0]?.schema;
  const told = (operation.description ?? operation.summary ?? "").split("\n\n");
  return h("details", { class: "call" },
    h("summary", {}, h("span", { class: "method" }, method.toUpperCase()), h("code", {}, path), h("span", { class: "meta" }, told[0])),
    h("div", { class: "call-body" },
      told.slice(1).map((text) => h("p", {}, text)),
      fields("Parameters", (operation.parameters ?? []).map((each) => [each.name, each.schema, each.required, each.description ?? each.schema?.description ?? `in the ${each.in}`])),
      body ? fields("Body", propertiesOf(body, document_)) : null,
      h("h3", {}, "Answers"),
      h("dl", { class: "facts" }, Object.entries(operation.responses).map(([status, each]) => h("div", {}, h("dt", {}, status), h("dd", {}, each.description))))));
}

function fields(title, rows) {
  if (!rows.length) return null;
  return [h("h3", {}, title), h("dl", { class: "facts" }, rows.map(([name, schema, isRequired, told]) => h("div", {},
    h("dt", {}, h("code", {}, name), isRequired ? " (required)" : ""),
    h("dd", {}, [typeOf(schema), told].filter(Boolean).join(": ")))))];
}

function propertiesOf(schema, document_) {
  const found = resolved(schema, document_);
  const required = new Set(found.required ?? []);
  return Object.entries(found.properties ?? {}).map(([name, each]) => [name, each, required.has(name), each.description]);
}

function resolved(schema, document_) {
  if (!schema.$ref) return schema;
  return schema.$ref.split("/").slice(1).reduce((at, key) => at[key], document_);
}

function typeOf(schema = {}) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.anyOf) return [...new Set(schema.anyOf.map(typeOf))].filter((type) => type !== "null").join(" | ");
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  return schema.format ?? schema.type ?? "anything";
}

start();

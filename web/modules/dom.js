// Makes elements. Text goes in as text and nothing else, so a post can never become markup.

/** Make an element: `on…` functions listen, `vars` are CSS custom properties, null is left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (typeof value === "function") element.addEventListener(name.slice(2), value);
  else if (name === "vars") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
  else element.setAttribute(name, value === true ? "" : value);
}

const SVG = "http://www.w3.org/2000/svg";

/** Make a picture from icons.svg; what it means must stand beside it as text. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `/web/icons.svg#${name}`);
  svg.append(use);
  return svg;
}

/** Make the round sign of a person: a letter, and a colour that stays with the id. */
export function avatar(person) {
  const element = h("span", { class: "avatar", "aria-hidden": "true" });
  drawAvatar(element, person);
  return element;
}

/** Draw a person's sign on an element that is there. */
export function drawAvatar(element, { id, name }) {
  const letters = name.split(/\s+/).map((word) => Array.from(word)[0] ?? "");
  element.textContent = letters.slice(0, 2).join("").toUpperCase();
  element.style.setProperty("--hue", String((Number(BigInt(id) % 360n) * 137) % 360));
}

export const byId = (id) => document.getElementById(id);

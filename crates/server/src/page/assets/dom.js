// Creates elements. Every text becomes a text node, so text from runs is never parsed as HTML.

/**
 * Creates an element: `h("a", {href: "#/runs"}, "Runs")`. A property that starts with `on` is a
 * listener; `null` and `false` leave an attribute or a child out.
 */
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Shows a status by a sign, a colour and a word. */
export function status(word) {
  return h("span", { class: `status status-${word}` }, word.replaceAll("_", " "));
}

/** Shows a time relative to now, with the exact time on hover. */
export function time(text) {
  if (!text) return "";
  const date = new Date(text);
  const seconds = Math.round((Date.now() - date.getTime()) / 1000);
  const exact = `${date.toISOString()} (local: ${date.toLocaleString()})`;
  return h("time", { datetime: text, title: exact }, relative(seconds));
}

function relative(seconds) {
  if (seconds < 2) return "now";
  if (seconds < 90) return `${seconds} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

/** Shows the time between two moments; `until` is now if it is missing. */
export function duration(from, until) {
  if (!from) return "";
  const ms = (until ? new Date(until) : new Date()) - new Date(from);
  if (ms < 1000) return `${Math.max(0, ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

/** Longest text of a value that is shown at once, in characters. */
const SHOWN = 20000;

/** Shows a JSON value. A long one is cut, and offered whole. */
export function json(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
  const block = h("pre", { tabindex: "0" }, text.slice(0, SHOWN));
  if (text.length <= SHOWN) return block;
  const rest = text.length - SHOWN;
  const more = h("button", { type: "button", onclick: () => {
    block.textContent = text;
    more.remove();
  } }, `Show ${rest.toLocaleString()} more characters`);
  return h("div", {}, block, more);
}

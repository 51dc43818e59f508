// The views by address, the keyboard, and what all views share.

import { ApiError, get, hasToken, setToken } from "./api.js";
import { fill, h } from "./dom.js";
import { catalogueView, healthView } from "./catalogue.js";
import { chatView } from "./chat.js";
import { inboxView } from "./inbox.js";
import { runView } from "./run.js";
import { runsView } from "./runs.js";
import { workflowView, workflowsView } from "./workflows.js";

/** Views by the first part of the address. */
const VIEWS = {
  runs: (view, id) => (id ? runView(view, id) : runsView(view)),
  inbox: inboxView,
  chat: chatView,
  workflows: (view, name) => (name ? workflowView(view, name) : workflowsView(view)),
  catalogue: catalogueView,
  health: healthView,
};
/** Addresses of the keys that follow `g`. */
const KEYS = { r: "runs", i: "inbox", c: "chat", w: "workflows", t: "catalogue", h: "health" };
/** Time in milliseconds between two looks at the inbox. */
const INBOX_INTERVAL = 5000;

const main = document.getElementById("main");
const notice = document.getElementById("notice");
let current = new AbortController();

/** Shows a problem until it is closed or another one follows. */
export function showProblem(error) {
  if (error.name === "AbortError") return;
  const code = error instanceof ApiError ? ` (${error.code})` : "";
  fill(notice, h("p", { class: "error" }, error.message + code),
    h("button", { type: "button", onclick: () => { notice.hidden = true; } }, "Close"));
  notice.hidden = false;
}

function showConnection(isOpen) {
  document.getElementById("connection").hidden = isOpen;
}

async function show() {
  current.abort();
  current = new AbortController();
  showConnection(true);
  const [name = "runs", ...rest] = location.hash.replace(/^#\/?/, "").split("?")[0].split("/").filter(Boolean);
  const view = VIEWS[name];
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.getAttribute("href") === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  fill(main);
  if (!view) {
    fill(main, h("h1", {}, "No such view"), h("p", {}, h("a", { href: "#/runs" }, "Runs")));
    return;
  }
  const place = { root: h("div", {}), signal: current.signal, fail: showProblem, onConnection: showConnection };
  main.append(place.root);
  try {
    await view(place, rest.map(decodeURIComponent).join("/"));
    main.focus({ preventScroll: true });
  } catch (error) {
    showProblem(error);
  }
}

async function countQuestions() {
  const count = document.getElementById("inbox-count");
  if (document.hidden) return;
  try {
    const { total } = await get("api/v1/questions?limit=1");
    count.textContent = total;
    count.hidden = total === 0;
  } catch {
    count.hidden = true;
  }
}

function showToken() {
  document.getElementById("token").textContent = hasToken() ? "Log out" : "Log in";
}

document.getElementById("token").addEventListener("click", () => {
  if (hasToken()) setToken(null);
  else setToken(prompt("Token of this server"));
  showToken();
  show();
});

let pressed = "";
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (pressed === "g" && KEYS[event.key]) location.hash = `#/${KEYS[event.key]}`;
  else if (event.key === "/") {
    const search = document.querySelector("[data-search]");
    if (search) { event.preventDefault(); search.focus(); }
  } else if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
  else if (event.key === "?") showProblem(new Error("g r runs · g i inbox · g c chat · g w workflows · g t catalogue · j k move · Enter open · / search"));
  pressed = event.key;
});

/** Moves the focus between the rows or entries of a view. */
function move(step) {
  const entries = [...document.querySelectorAll("[data-entry]")];
  const at = entries.indexOf(document.activeElement);
  entries[Math.min(Math.max(at + step, 0), entries.length - 1)]?.focus();
}

addEventListener("hashchange", show);
showToken();
show();
countQuestions();
setInterval(countQuestions, INBOX_INTERVAL);

// The catalogue of tools, agents and servers, and the health of the runtime.

import { get } from "./api.js";
import { fill, h, json } from "./dom.js";

export async function catalogueView({ root, signal }) {
  const [tools, agents, servers] = await Promise.all(["tools", "agents", "servers"].map((kind) => get(`api/v1/${kind}`, signal)));
  const search = h("input", { "aria-label": "Search", placeholder: "search", "data-search": true });
  const list = h("div", {});
  const draw = () => {
    const word = search.value.trim();
    const matching = (entries) => entries.filter((entry) => entry.name.includes(word));
    fill(list, section("Tools", matching(tools)), section("Agents", matching(agents)), section("Servers", matching(servers)));
  };
  search.addEventListener("input", draw);
  fill(root, h("h1", {}, "Catalogue"), h("div", { class: "bar" }, search), list);
  draw();
}

function section(title, entries) {
  return [h("h2", {}, `${title} (${entries.length})`), entries.map((entry) => h("details", { class: "card" },
    h("summary", { "data-entry": true }, h("strong", {}, entry.name), " ", entry.description),
    entry.input_schema === undefined ? null : [h("div", {}, "Input"), json(entry.input_schema)],
    entry.output_schema === undefined ? null : [h("div", {}, "Output"), json(entry.output_schema)],
    entry.policy === undefined ? null : [h("div", {}, "Policy"), json(entry.policy)]))];
}

export async function healthView({ root, signal }) {
  // A failing part is a response with status 503, which is not an error of this view.
  const health = await get("api/v1/health", signal).catch((error) => {
    if (error.status === 503) return { status: "failing", problems: [] };
    throw error;
  });
  fill(root, h("h1", {}, "Health"), h("p", {}, health.status === "ok" ? "All parts can be used." : "A part cannot be used."),
    health.problems.map((problem) => h("div", { class: "card" }, h("h2", {}, problem.part), h("p", { class: "error" }, problem.problem))),
    health.version ? h("p", { class: "muted" }, `Version ${health.version}`) : null);
}

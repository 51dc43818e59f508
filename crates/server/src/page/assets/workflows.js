// Workflows: the list, and one workflow with its graph and the form that starts it.

import { get, getText, part, post } from "./api.js";
import { fill, h } from "./dom.js";
import { schemaForm } from "./form.js";

export async function workflowsView({ root, signal }) {
  const workflows = await get("api/workflows", signal);
  const search = h("input", { "aria-label": "Search", placeholder: "search", "data-search": true });
  const list = h("div", {});
  const draw = () => {
    const found = workflows.filter((workflow) => workflow.workflow_id.includes(search.value.trim()));
    fill(list, found.map((workflow) => h("div", { class: "card" },
      h("a", { href: `#/workflows/${part(workflow.workflow_id)}`, "data-entry": true }, workflow.workflow_id),
      h("p", {}, workflow.description))),
    found.length === 0 ? h("p", { class: "muted" }, "No workflow matches. A program registers workflows with #[workflow] or as documents.") : null);
  };
  search.addEventListener("input", draw);
  fill(root, h("h1", {}, "Workflows"), h("div", { class: "bar" }, search), list);
  draw();
}

export async function workflowView({ root, signal, fail }, name) {
  const path = `api/v1/workflows/${part(name)}`;
  const workflow = await get(path, signal);
  const form = schemaForm(workflow.input_schema);
  const start = async (event) => {
    event.preventDefault();
    try {
      const started = await post(`${path}/runs`, { input_data: form.read() ?? {}, options: { stream: true } });
      location.hash = `#/runs/${part(started.run_id)}`;
    } catch (error) {
      fail(error);
    }
  };
  const graph = h("div", { class: "graph", tabindex: "0", "aria-label": "Graph", hidden: true });
  fill(root, h("h1", {}, workflow.workflow_id), h("p", {}, workflow.description),
    h("p", { class: "muted" }, h("a", { href: `#/runs?workflow_id=${part(name)}` }, "Runs"), " · definition ", h("span", { class: "mono" }, workflow.definition)),
    h("div", { class: "columns" },
      h("form", { onsubmit: start, "aria-label": "Start" }, form.element, h("button", { class: "primary" }, "Start")), graph));
  const text = await getText(`${path}/graph.svg?standalone=false`).catch(() => null);
  if (text === null) return;
  const drawing = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (drawing.nodeName !== "svg") return;
  fill(graph, document.importNode(drawing, true));
  graph.hidden = false;
}

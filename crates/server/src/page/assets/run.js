// One run: its graph, its nodes, the detail of a node, its events, and its controls.

import { follow, get, getText, part, post } from "./api.js";
import { duration, fill, h, json, status, time } from "./dom.js";
import { questionCard } from "./inbox.js";

/** Number of events that are shown at once. The others are one click away. */
const SHOWN_EVENTS = 300;
/** Time in milliseconds in which several events cause one reload. */
const COLLECT = 150;
const ENDED = ["success", "failed", "cancelled"];

export async function runView({ root, signal, fail, onConnection }, id) {
  const path = `api/v1/runs/${part(id)}`;
  const head = h("div", {});
  const controls = h("div", { class: "bar" });
  const questions = h("div", {});
  const graph = h("div", { class: "graph", tabindex: "0", "aria-label": "Graph" });
  const nodes = h("tbody");
  const detail = h("div", { "aria-live": "polite" });
  const output = h("div", {});
  const events = eventList();
  let selected = null;
  let timer = null;

  const act = async (suffix, body) => {
    try {
      await post(`${path}/${suffix}`, body);
    } catch (error) {
      fail(error);
    }
    await load();
  };

  const choose = async (name) => {
    selected = name;
    for (const row of nodes.children) row.classList.toggle("selected", row.dataset.node === name);
    const found = await get(`${path}/nodes/${part(name)}/detail`, signal);
    fill(detail, nodeDetail(found, () => act(`nodes/${part(name)}/retry`)));
  };

  const load = async () => {
    const run = await get(path, signal);
    document.title = `${run.workflow_id} ${run.status}`;
    fill(head, h("h1", {}, run.workflow_id, " ", status(run.status)),
      h("p", { class: "muted" }, h("span", { class: "mono" }, run.run_id), " · started ", time(run.started_at),
        run.triggered_by ? ` by ${run.triggered_by}` : "", " · ", duration(run.started_at, run.finished_at),
        run.usage ? ` · ${run.usage.total_tokens.toLocaleString()} tokens` : ""),
      run.error ? h("p", { class: "error" }, run.error) : null);
    fill(controls, buttons(run, act));
    fill(nodes, run.node_runs.map((node) => h("tr", { "data-node": node.node_id, class: node.node_id === selected ? "selected" : null },
      h("td", {}, status(node.status)),
      h("td", {}, h("button", { type: "button", class: "quiet", "data-entry": true, onclick: () => choose(node.node_id).catch(fail) }, node.node_id)),
      h("td", {}, node.attempt || ""),
      h("td", {}, duration(node.started_at, node.finished_at)),
      h("td", { class: "error" }, node.error ?? ""))));
    fill(output, run.output === undefined ? null : [h("h2", {}, "Output"), json(run.output)],
      Object.keys(run.state_snapshot).length > 0 ? [h("h2", {}, "State"), json(run.state_snapshot)] : null);
    const open = ENDED.includes(run.status) ? [] : await get(`${path}/questions`, signal);
    fill(questions, open.map((question) => questionCard(question, load, fail)));
    await drawGraph(graph, path, choose, fail);
    return run;
  };

  fill(root, head, controls, questions,
    h("div", { class: "columns" },
      h("section", { "aria-label": "Graph and nodes" }, graph, h("h2", {}, "Nodes"),
        h("div", { class: "table-box" }, h("table", {},
          h("thead", {}, h("tr", {}, ["Status", "Node", "Attempts", "Time", "Error"].map((word) => h("th", { scope: "col" }, word)))), nodes))),
      h("section", { "aria-label": "Detail" }, detail, output)),
    h("h2", {}, "Events"), events.element);

  await load();
  const soon = () => {
    if (timer !== null || signal.aborted) return;
    timer = setTimeout(() => { timer = null; load().catch(fail); }, COLLECT);
  };
  // Not awaited: the stream ends with the run.
  follow(`${path}/stream?form=events`, (event) => { events.add(event); soon(); }, signal, onConnection).catch(fail);
}

function buttons(run, act) {
  if (ENDED.includes(run.status)) return [];
  const cancel = () => {
    const running = run.node_runs.filter((node) => node.status === "running").length;
    if (confirm(`Cancel run ${run.run_id}? ${running} nodes are running.`)) act("cancel");
  };
  const isPaused = run.status === "paused" && run.pause_reason === "operator";
  const button = (word, action, kind) => h("button", { type: "button", class: kind, onclick: action }, word);
  return [
    isPaused || run.status === "queued" ? button("Continue", () => act("resume"), "primary") : null,
    run.status === "running" ? button("Pause", () => act("pause")) : null,
    button("Cancel", cancel, "danger"),
  ];
}

/** Draws the graph that the server has laid out. Its text is escaped there. */
async function drawGraph(element, path, choose, fail) {
  const text = await getText(`${path}/graph.svg?standalone=false`).catch(() => null);
  if (text === null) {
    element.hidden = true;
    return;
  }
  const drawing = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (drawing.nodeName !== "svg") return;
  element.hidden = false;
  const { scrollLeft, scrollTop } = element;
  fill(element, document.importNode(drawing, true));
  element.scrollTo(scrollLeft, scrollTop);
  for (const node of element.querySelectorAll("[data-node]")) {
    node.addEventListener("click", () => choose(node.dataset.node).catch(fail));
  }
}

function nodeDetail(node, retry) {
  return h("div", {}, h("h2", {}, node.node_id, " ", status(node.status)),
    node.status === "failed" ? h("button", { type: "button", onclick: retry }, "Retry") : null,
    node.resolved_dependencies.length > 0 ? [h("h3", {}, "Dependencies"), json(node.resolved_dependencies)] : null,
    node.attempts.map((attempt) => attemptCard(attempt)),
    node.calls.map((call) => h("details", { class: "card" },
      h("summary", {}, h("span", { class: "mono" }, call.path), " ", status(call.status)),
      call.attempts.map((attempt) => attemptCard(attempt)))));
}

function attemptCard(attempt) {
  return h("div", { class: "card" },
    h("div", { class: "muted" }, `Attempt ${attempt.number} · `, time(attempt.started_at), " · ", duration(attempt.started_at, attempt.finished_at),
      attempt.answered_by ? ` · answered by ${attempt.answered_by}` : ""),
    attempt.error ? h("p", { class: "error" }, attempt.error) : null,
    attempt.input === undefined ? null : [h("div", {}, "Input"), json(attempt.input)],
    attempt.output === undefined ? null : [h("div", {}, "Output"), json(attempt.output)]);
}

/** A list of events that shows the newest ones, and earlier ones on request. */
function eventList() {
  const list = h("div", { class: "events", tabindex: "0", role: "log", "aria-label": "Events" });
  const earlier = h("button", { type: "button", hidden: true, onclick: () => { shown += SHOWN_EVENTS; draw(); } }, "Show earlier events");
  const all = [];
  let shown = SHOWN_EVENTS;
  let isDue = false;

  const row = (event) => h("div", { class: "event" },
    h("span", { class: "muted" }, event.seq),
    h("span", { class: "muted" }, new Date(event.time).toLocaleTimeString()),
    h("span", {}, event.name),
    h("span", { title: JSON.stringify(event.payload) }, `${event.path ?? ""} ${JSON.stringify(event.payload ?? {})}`));

  const draw = () => {
    isDue = false;
    earlier.hidden = all.length <= shown;
    const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 20;
    fill(list, all.slice(-shown).map(row));
    if (atEnd) list.scrollTop = list.scrollHeight;
  };

  return {
    element: h("div", {}, earlier, list),
    add(event) {
      if (event.part) return;
      all.push(event);
      if (!isDue) {
        isDue = true;
        requestAnimationFrame(draw);
      }
    },
  };
}

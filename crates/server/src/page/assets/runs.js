// The list of runs.

import { get, part } from "./api.js";
import { duration, fill, h, status, time } from "./dom.js";

const STATUSES = ["queued", "running", "paused", "compensating", "success", "failed", "cancelled"];
/** Time in milliseconds between two looks at the list. */
const INTERVAL = 2000;

export async function runsView({ root, signal, fail, onConnection }) {
  const query = new URLSearchParams(location.hash.split("?")[1] ?? "");
  const statusField = h("select", { "aria-label": "Status" }, h("option", { value: "" }, "any status"),
    STATUSES.map((word) => h("option", { value: word }, word)));
  const name = h("input", { "aria-label": "Workflow or agent", placeholder: "workflow or agent", "data-search": true });
  const caller = h("input", { "aria-label": "Caller", placeholder: "caller" });
  statusField.value = query.get("status") ?? "";
  name.value = query.get("workflow_id") ?? "";
  caller.value = query.get("caller") ?? "";
  const body = h("tbody");
  const foot = h("div", { class: "bar" });
  const empty = h("div", {});
  let after = [];
  let seen = new Map();

  const filters = () => {
    const found = new URLSearchParams();
    if (statusField.value) found.set("status", statusField.value);
    if (name.value) found.set("workflow_id", name.value.trim());
    if (caller.value) found.set("caller", caller.value.trim());
    return found;
  };

  const row = (run) => {
    const changed = seen.has(run.run_id) && seen.get(run.run_id) !== run.updated_at;
    seen.set(run.run_id, run.updated_at);
    return h("tr", { class: changed ? "flash" : null },
      h("td", {}, status(run.status), run.pause_reason ? h("div", { class: "muted" }, run.pause_reason) : null),
      h("td", {}, h("a", { href: `#/runs/${part(run.run_id)}`, "data-entry": true }, run.workflow_id)),
      h("td", { class: "mono" }, run.run_id),
      h("td", {}, run.triggered_by ?? ""),
      h("td", {}, time(run.started_at)),
      h("td", {}, duration(run.started_at, run.finished_at)),
      h("td", {}, run.usage ? run.usage.total_tokens.toLocaleString() : ""),
      h("td", { class: "error" }, run.error ?? ""));
  };

  const load = async () => {
    const parameters = filters();
    parameters.set("limit", "50");
    if (after.length > 0) parameters.set("after", after.at(-1));
    const page = await get(`api/v1/runs?${parameters}`, signal);
    onConnection(true);
    // Rows are not replaced while one has the focus, so that the keyboard keeps its place.
    if (!body.contains(document.activeElement)) fill(body, page.items.map(row));
    fill(foot,
      h("button", { type: "button", disabled: after.length === 0, onclick: () => { after.pop(); load().catch(fail); } }, "Newer"),
      h("button", { type: "button", disabled: !page.next, onclick: () => { after.push(page.next); load().catch(fail); } }, "Older"),
      page.total === undefined ? null : h("span", { class: "muted" }, `${page.total.toLocaleString()} runs`));
    fill(empty, page.items.length === 0 && firstRun());
  };

  const change = () => {
    after = [];
    history.replaceState(null, "", `#/runs?${filters()}`);
    load().catch(fail);
  };
  for (const field of [statusField, name, caller]) field.addEventListener("change", change);

  fill(root, h("h1", {}, "Runs"), h("div", { class: "bar" }, statusField, name, caller),
    h("div", { class: "table-box" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Status", "Name", "Run", "Caller", "Started", "Duration", "Tokens", "Error"].map((word) => h("th", { scope: "col" }, word)))),
      body)),
    empty, foot);
  await load();
  const timer = setInterval(() => {
    if (!document.hidden && after.length === 0) load().catch(() => onConnection(false));
  }, INTERVAL);
  signal.addEventListener("abort", () => clearInterval(timer));
}

function firstRun() {
  return h("div", { class: "card" }, h("p", {}, "No run matches. Start one:"),
    h("pre", {}, `curl -X POST ${location.origin}/api/v1/workflows/NAME/runs -H 'content-type: application/json' -d '{"input_data": {}}'`),
    h("p", {}, "or choose a ", h("a", { href: "#/workflows" }, "workflow"), "."));
}

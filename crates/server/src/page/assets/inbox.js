// Open questions, and the form that answers one.

import { get, part, post } from "./api.js";
import { fill, h, json, time } from "./dom.js";
import { schemaForm } from "./form.js";

/** Time in milliseconds between two looks at the inbox. */
const INTERVAL = 3000;

export async function inboxView({ root, signal, fail, onConnection }) {
  const list = h("ul", { class: "list" });
  const place = h("div", { "aria-live": "polite" });
  let selected = null;

  const load = async () => {
    const page = await get("api/v1/questions?limit=200", signal);
    onConnection(true);
    const key = (question) => `${question.run_id} ${question.question_id}`;
    const stays = page.items.some((question) => key(question) === selected);
    fill(list, page.items.map((question) => h("li", {}, h("button", {
      type: "button", "data-entry": true, "aria-current": key(question) === selected ? "true" : null,
      onclick: () => choose(question),
    }, h("div", {}, question.message), h("div", { class: "muted" }, question.workflow_id, " · ", time(question.asked_at))))));
    if (page.items.length === 0) {
      selected = null;
      fill(place, h("p", { class: "muted" }, "No run waits for an answer."));
    } else if (!stays) choose(page.items[0]);
  };

  const choose = (question) => {
    selected = `${question.run_id} ${question.question_id}`;
    fill(place, questionCard(question, () => { selected = null; return load(); }, fail));
  };

  fill(root, h("h1", {}, "Inbox"), h("div", { class: "columns narrow-left" }, list, place));
  await load();
  const timer = setInterval(() => {
    if (!document.hidden && !place.contains(document.activeElement)) load().catch(() => onConnection(false));
  }, INTERVAL);
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** The JSON Schema of the changed arguments, if the question is about a call. */
function argumentsSchema(schema) {
  const granted = (schema.oneOf ?? []).find((form) => form.properties?.decision?.const === "granted");
  const found = granted?.properties?.arguments;
  return found ? { ...found, $defs: { ...schema.$defs, ...found.$defs } } : null;
}

/** A question with the form that answers it. Calls `done()` after the answer. */
export function questionCard(question, done, fail) {
  const schema = question.answer_schema;
  const isApproval = (schema.oneOf ?? []).some((form) => form.properties?.decision);
  const send = async (answer) => {
    const path = `api/v1/runs/${part(question.run_id)}/questions/${part(question.question_id)}/answer`;
    try {
      await post(path, { answer });
    } catch (error) {
      fail(error);
    }
    await done();
  };
  const head = [
    h("h2", {}, question.message),
    h("p", { class: "muted" }, h("a", { href: `#/runs/${part(question.run_id)}` }, question.workflow_id), " · ", question.node_id, " · asked ", time(question.asked_at),
      question.triggered_by ? ` · for ${question.triggered_by}` : "",
      question.deadline ? [" · until ", new Date(question.deadline).toLocaleString()] : null),
  ];
  return h("div", { class: "card" }, head, isApproval ? approval(question, schema, send, fail) : value(schema, send, fail));
}

function approval(question, schema, send, fail) {
  const edited = argumentsSchema(schema);
  const form = edited ? schemaForm(edited, question.about) : null;
  const comment = h("input", { "aria-label": "Comment", placeholder: "comment" });
  const grant = () => {
    const answer = { decision: "granted" };
    if (comment.value) answer.comment = comment.value;
    try {
      const changed = form?.read();
      // Unchanged arguments are left out, so that the record shows who changed them.
      if (form && JSON.stringify(changed) !== JSON.stringify(question.about)) answer.arguments = changed;
    } catch (error) {
      fail(error);
      return;
    }
    send(answer);
  };
  const deny = () => send(comment.value ? { decision: "denied", comment: comment.value } : { decision: "denied" });
  return [
    form ? form.element : question.about === null ? null : json(question.about),
    h("div", { class: "bar" }, comment,
      h("button", { type: "button", class: "primary", onclick: grant }, "Grant"),
      h("button", { type: "button", class: "danger", onclick: deny }, "Deny")),
  ];
}

function value(schema, send, fail) {
  const form = schemaForm({ properties: { answer: schema }, required: ["answer"], $defs: schema.$defs });
  const answer = () => {
    try {
      send(form.read().answer);
    } catch (error) {
      fail(error);
    }
  };
  return [form.element, h("button", { type: "button", class: "primary", onclick: answer }, "Answer")];
}

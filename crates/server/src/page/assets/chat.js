// A conversation with an agent in a session.

import { follow, get, part, post } from "./api.js";
import { fill, h } from "./dom.js";
import { questionCard } from "./inbox.js";

export async function chatView({ root, signal, fail, onConnection }) {
  const agents = await get("api/v1/agents", signal);
  if (agents.length === 0) {
    fill(root, h("h1", {}, "Chat"), h("p", { class: "muted" }, "This program has no agent. Register one with Runtime::builder().agent(..)."));
    return;
  }
  const agent = h("select", { "aria-label": "Agent" }, agents.map(({ name }) => h("option", { value: name }, name)));
  const session = h("input", { "aria-label": "Session", value: `chat-${crypto.randomUUID()}` });
  const log = h("div", { role: "log", "aria-label": "Messages" });
  const text = h("textarea", { "aria-label": "Message", placeholder: "message", "data-search": true });
  const submit = h("button", { class: "primary" }, "Send");
  const stop = h("button", { type: "button", class: "danger", hidden: true }, "Stop");
  let run = null;

  stop.addEventListener("click", () => post(`api/v1/runs/${part(run)}/cancel`).catch(fail));

  const send = async (event) => {
    event.preventDefault();
    const message = text.value.trim();
    if (message === "") return;
    submit.disabled = true;
    try {
      const body = { message, session_id: session.value, options: { stream: true } };
      ({ run_id: run } = await post(`api/v1/agents/${part(agent.value)}/runs`, body));
      text.value = "";
      log.append(h("div", { class: "message user" }, message));
      stop.hidden = false;
      await answer(run);
    } catch (error) {
      fail(error);
    }
    stop.hidden = true;
    submit.disabled = false;
    text.focus();
  };

  /** Shows the answer of a run while it arrives. */
  const answer = async (id) => {
    const piece = h("div", {});
    const calls = h("div", { class: "muted" });
    const questions = h("div", {});
    log.append(h("div", { class: "message" }, calls, piece, questions,
      h("a", { href: `#/runs/${part(id)}` }, "run")));
    const ask = async () => {
      const open = await get(`api/v1/runs/${part(id)}/questions`, signal);
      fill(questions, open.map((question) => questionCard(question, ask, fail)));
    };
    await follow(`api/v1/runs/${part(id)}/stream?form=task`, (chunk) => {
      const content = typeof chunk.content === "string" ? chunk.content : JSON.stringify(chunk.content);
      switch (chunk.chunk_type) {
        case "response": piece.append(content); break;
        case "tool_call_request": calls.append(h("div", {}, `called ${chunk.metadata.path}`)); break;
        case "tool_approval_request":
        case "user_input_request": ask().catch(fail); break;
        case "complete": piece.textContent = typeof chunk.content === "string" ? chunk.content : chunk.content?.text ?? piece.textContent; fill(questions); break;
        case "error":
        case "cancelled": piece.append(h("p", { class: "error" }, content)); fill(questions); break;
        default: break;
      }
    }, signal, onConnection);
  };

  fill(root, h("h1", {}, "Chat"), h("div", { class: "bar" }, agent, session), log,
    h("form", { onsubmit: send }, text, h("div", { class: "bar" }, submit, stop)));
}

// Requests to the API, and event streams that reconnect without loss.

/** Address of the server, which may be mounted below any path: the folder above this file. */
const BASE = new URL("../", import.meta.url).href;
/** Shortest and longest time in milliseconds before a lost stream is opened again. */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10000;

/** Name of the token in the storage of the tab. It is gone when the tab is closed. */
const TOKEN = "agentflow-token";

export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

/** An error response of the API. */
export class ApiError extends Error {
  constructor(problem) {
    super(problem.detail);
    this.status = problem.status;
    this.code = problem.code;
    this.pointer = problem.pointer;
  }
}

function headers(more) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { authorization: `Bearer ${token}`, ...more } : more;
}

async function check(response) {
  if (response.ok) return response;
  const fallback = { status: response.status, code: "error", detail: `the server answered ${response.status}` };
  throw new ApiError(await response.json().catch(() => fallback));
}

async function send(method, path, body, signal) {
  const response = await fetch(BASE + path, {
    method,
    headers: headers(body === undefined ? {} : { "content-type": "application/json" }),
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  });
  await check(response);
  return response.status === 204 ? null : response.json();
}

export const get = (path, signal) => send("GET", path, undefined, signal);
export const post = (path, body = {}) => send("POST", path, body);

/** Returns the text of a response, such as a drawing. */
export async function getText(path) {
  return (await check(await fetch(BASE + path, { headers: headers({}) }))).text();
}

/** Encodes a name as a part of a path. */
export const part = encodeURIComponent;

/**
 * Follows an event stream until it ends or `signal` aborts. Calls `onData(data)` for each frame. A
 * stream that is cut is opened again after the last event that arrived.
 */
export async function follow(path, onData, signal, onConnection = () => {}) {
  let last = 0;
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    try {
      const response = await fetch(BASE + path, { headers: headers({ "last-event-id": String(last) }), signal });
      if (response.status === 204) return;
      await check(response);
      onConnection(true);
      wait = FIRST_WAIT;
      for await (const frame of frames(response.body)) {
        if (frame.id) last = frame.id;
        if (frame.data) onData(frame.data);
      }
    } catch (error) {
      if (signal.aborted) return;
      // A refusal stays one. Everything else is a lost connection.
      if (error instanceof ApiError && error.status < 500 && error.status !== 429) throw error;
      onConnection(false);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

async function* frames(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const frame = {};
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith("id: ")) frame.id = Number(line.slice(4));
        if (line.startsWith("data: ")) frame.data = JSON.parse(line.slice(6));
      }
      text = text.slice(end + 2);
      yield frame;
    }
  }
}

// Speaks with the server: the data of the console, MCP as any agent speaks it, and the stream of events.

import { parse, stringify } from "./json.js";

/** The address of the server, with the path under which it is nested. */
export const base = new URL("..", import.meta.url);
export const REVISION = "2026-07-28";

const TOKEN = "marquetry.token";
const META = "io.modelcontextprotocol/";

/** The token is stored for this tab, and sent in a header. Text that a header cannot hold is ignored. */
export const token = {
  get: () => /^[!-~]*$/.exec(sessionStorage.getItem(TOKEN) ?? "")?.[0] ?? "",
  set(text) {
    if (text) sessionStorage.setItem(TOKEN, text);
    else sessionStorage.removeItem(TOKEN);
  },
};

export class Failure extends Error {
  constructor(message, status, data) {
    super(message);
    this.status = status;
    this.data = data;
  }
}

export async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let response;
  try {
    response = await fetch(new URL(path, base), { ...options, headers, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("the server does not answer; is it still running?", 0);
  }
  if (response.status === 401)
    document.dispatchEvent(new CustomEvent("token-needed", { detail: token.get() ? "the token is not accepted" : "" }));
  return response;
}

export async function refusal(response) {
  let message = `the server answered ${response.status}`;
  try {
    const body = JSON.parse(await response.text());
    message = typeof body.error === "string" ? body.error : (body.error?.message ?? body.message ?? message);
  } catch {
    /* The status says enough. */
  }
  return new Failure(message, response.status);
}

let late = 0;
/** Whether an answer is late. Browsers allow six connections to a host, and each window of the console holds one. */
export const isLate = () => late > 0;

/** Gets an answer of the console. */
export async function got(path, options) {
  let isCounted = 0;
  const timer = setTimeout(() => {
    isCounted = 1;
    late += 1;
  }, 5000);
  const response = await ask(`api/console/${path}`, options).finally(() => {
    clearTimeout(timer);
    late -= isCounted;
  });
  if (!response.ok) throw await refusal(response);
  return response;
}

/** Gets data of the console. */
export const data = async (path, options) => (await got(path, options)).json();

export const post = (path, body) =>
  data(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: stringify(body) });

/** Gets an answer that the console keeps, as text. */
export const text = async (path) => (await got(path)).text();

/** A header may hold only printable ASCII; other text is sent in base64. */
export function headerText(value) {
  if (/^[!-~]([ -~]*[!-~])?$/.test(value) && !value.startsWith("=?base64?")) return value;
  const raw = new TextEncoder().encode(value);
  return `=?base64?${btoa(Array.from(raw, (it) => String.fromCharCode(it)).join(""))}?=`;
}

/** The headers that repeat arguments which a tool's schema marks with `x-mcp-header`. */
export function repeated(schema, args, headers) {
  for (const [name, property] of Object.entries(schema?.properties ?? {})) {
    const value = args?.[name];
    const mark = property?.["x-mcp-header"];
    if (value === undefined || value === null) continue;
    if (typeof value === "object") repeated(property, value, headers);
    // The server ignores a mark that is not a valid header name.
    else if (typeof mark === "string" && /^[\w!#$%&'*+.^`|~-]+$/.test(mark))
      headers[`Mcp-Param-${mark}`] = headerText(String(value));
  }
}

let lastRequest = 0;

/**
 * Sends a request; `server` binds it to one server. Returns { result, error, call, ms, messages }:
 * `call` is the id of the record, `messages` what came before the answer.
 */
export async function rpc(method, params = {}, { signal, schema, onmessage, server } = {}) {
  lastRequest += 1;
  const id = lastRequest;
  const meta = {
    [`${META}protocolVersion`]: REVISION,
    [`${META}clientInfo`]: { name: "marquetry-console", version: document.documentElement.dataset.version ?? "0" },
    [`${META}clientCapabilities`]: {
      ...(method === "tools/call" && { elicitation: { form: {}, url: {} } }),
      extensions: { [`${META}ui`]: { mimeTypes: ["text/html;profile=mcp-app"] } },
    },
    progressToken: id,
  };
  const message = { jsonrpc: "2.0", id, method, params: { ...params, _meta: { ...params._meta, ...meta } } };
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": REVISION,
    "Mcp-Method": method,
  };
  const name = { "tools/call": params.name, "prompts/get": params.name, "resources/read": params.uri }[method];
  if (name !== undefined) headers["Mcp-Name"] = headerText(name);
  if (server !== undefined) headers["Marquetry-Server"] = encodeURIComponent(server);
  repeated(schema, params.arguments, headers);
  const began = performance.now();
  const messages = [message];
  const body = stringify(message);
  // A question that is given up is answered while its page closes. Browsers keep only short requests alive then.
  const keepalive = "inputResponses" in params && body.length < 60_000;
  const response = await ask("mcp", { method: "POST", headers, body, signal, keepalive });
  const call = response.headers.get("Marquetry-Call") ?? undefined;
  let answer;
  const take = (text) => {
    const found = parse(text);
    messages.push(found);
    if (found.id === id && found.method === undefined) answer = found;
    else onmessage?.(found);
  };
  if ((response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) {
    for await (const event of events(response.body)) if (event.data) take(event.data);
  } else {
    const said = await response.text();
    try {
      take(said);
    } catch {
      throw new Failure(said.slice(0, 300) || `the server answered ${response.status}`, response.status);
    }
  }
  if (!answer && response.ok) throw new Failure("the connection ended before the answer", 0);
  answer ??= messages[messages.length - 1];
  return {
    result: answer.result,
    error: answer.error,
    call,
    ms: performance.now() - began,
    messages,
    status: response.status,
  };
}

/** As `rpc`, for requests whose error is a failure of the page's part. */
export async function result(method, params, options) {
  const { result: found, error, status } = await rpc(method, params, options);
  if (error) throw new Failure(`${error.message ?? "refused"} (${error.code ?? status})`, status, error);
  return found;
}

/** Gets all pages of a list, up to 10,000 items. */
export async function list(method, member) {
  const items = [];
  let cursor;
  do {
    const page = await result(method, cursor === undefined ? {} : { cursor });
    items.push(...(page[member] ?? []));
    cursor = page.nextCursor;
  } while (cursor !== undefined && items.length < 10_000);
  return items;
}

/** Reads a stream of server-sent events. `heard` is called for all that comes, also for comments. */
export async function* events(body, heard = () => {}) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const event = { name: "message", data: "" };
      for (const line of rest.slice(0, end).split("\n")) {
        // With `s`: a message may hold U+2028 and U+2029, which are line ends for `.` alone, and
        // none for JSON or a stream of events.
        const [, field, text] = /^(\w*):? ?(.*)$/s.exec(line.replace(/\r$/, "")) ?? [];
        if (field === "id") event.id = text;
        if (field === "event") event.name = text;
        if (field === "data") event.data += (event.data && "\n") + text;
      }
      rest = rest.slice(end + 2);
      yield event;
    }
  }
}

/** Follows the events of the console: each is dispatched on `live` under its name; "reset" asks pages to refetch. */
export const live = new EventTarget();
let position;
let state = "connecting";
let since = Date.now();
let controller;

export function liveState() {
  return { state, since };
}

function setState(next) {
  if (state === next) return;
  state = next;
  since = Date.now();
  live.dispatchEvent(new Event("state"));
}

/**
 * Notes the last event before the page fetches its data. The stream begins after it, so that no
 * event is lost between the two.
 */
export async function begin() {
  try {
    const now = await data("state");
    position ??= now.position;
  } catch {
    /* The page says why. */
  }
}

// The server sends something every 15 s; a connection that is silent for longer is dead.
const MAX_SILENCE = 40_000;

async function readEvents(onevent) {
  controller = new AbortController();
  const query = position === undefined ? "" : `?after=${encodeURIComponent(position)}`;
  let silence;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => controller.abort(), MAX_SILENCE);
  };
  heard();
  try {
    const response = await ask(`api/console/events${query}`, { signal: controller.signal });
    if (!response.ok) throw await refusal(response);
    for await (const event of events(response.body, heard)) {
      if (event.id) position = event.id;
      setState("live");
      onevent();
      if (event.data) live.dispatchEvent(new CustomEvent(event.name, { detail: JSON.parse(event.data) }));
    }
  } finally {
    clearTimeout(silence);
  }
}

let isFollowing = false;
/** Keeps the stream open while the page is visible, and reconnects after a loss. */
export async function follow() {
  if (isFollowing) return;
  isFollowing = true;
  let pause = 250;
  // Tabs that a browser brings back are hidden at first.
  if (document.hidden) {
    setState("paused");
    await wake(0);
  }
  while (isFollowing) {
    try {
      await readEvents(() => {
        pause = 250;
      });
      setState("lost");
    } catch (error) {
      if (error.status === 401 || error.status === 403) {
        isFollowing = false;
        setState("refused");
        return;
      }
      if (document.hidden) setState("paused");
      else setState("lost");
    }
    await wake(pause);
    pause = Math.min(5000, pause * 2);
  }
}

/** Waits for a while, and until the page is visible. */
function wake(pause) {
  return new Promise((done) => {
    const later = () =>
      document.hidden ? document.addEventListener("visibilitychange", () => done(), { once: true }) : done();
    setTimeout(later, pause);
  });
}

/**
 * Browsers allow six connections to a host: a hidden page closes its own after this time, in
 * milliseconds.
 */
export const HIDDEN_FOR = 3000;
let hiding;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => controller?.abort(), HIDDEN_FOR);
});

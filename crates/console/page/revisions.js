// One call as clients of each revision of MCP make it, what both sides say, and what differs.

import { ask, data, events, headerText, list, refusal, repeated } from "./api.js";
import { badge, button, duration, empty, fill, h, link, newId, table, to } from "./dom.js";
import { isEqual, isObject, parse, stringify } from "./json.js";
import { tree } from "./result.js";

const SESSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const STATELESS = "2026-07-28";
/** A tool that asks again and again is given up after so many questions. */
const MOST_ROUNDS = 10;
const META = "io.modelcontextprotocol/";
const UI = { [`${META}ui`]: { mimeTypes: ["text/html;profile=mcp-app"] } };

/** The capabilities that a kind of client declares. Before 2025-06-18 servers could not ask the user. */
const SETS = {
  none: { label: "no capabilities", of: () => ({}) },
  all: {
    label: "questions and Views",
    of: (revision) => ({
      ...(revision >= "2025-06-18" ? { elicitation: revision >= "2025-11-25" ? { form: {}, url: {} } : {} } : {}),
      extensions: UI,
    }),
  },
};

/** The lines that differ between two values, at most `most`. */
export function differences(a, b, path = "", found = [], most = 50) {
  if (found.length >= most || isEqual(a, b)) return found;
  const at = path || "the whole answer";
  if (isObject(a) && isObject(b)) {
    for (const key of new Set([...Object.keys(a), ...Object.keys(b)]))
      differences(a[key], b[key], path ? `${path}.${key}` : key, found, most);
  } else if (Array.isArray(a) && Array.isArray(b) && a.length === b.length) {
    a.forEach((item, index) => differences(item, b[index], `${path}[${index}]`, found, most));
  } else if (b === undefined) found.push(`${at} is missing`);
  else if (a === undefined) found.push(`${at} is added`);
  else found.push(`${at} differs`);
  return found;
}

/** Sends one message of a client. Answers of the server's own requests are sent on the way. */
async function exchange(message, { revision, session, schema, log, signal }) {
  const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  if (message.method !== "initialize" && revision >= "2025-06-18") headers["MCP-Protocol-Version"] = revision;
  if (session) headers["Mcp-Session-Id"] = session;
  if (revision === STATELESS) {
    headers["Mcp-Method"] = message.method;
    headers["Mcp-Name"] = headerText(message.params.name);
    repeated(schema, message.params.arguments, headers);
  }
  log.push({ sent: true, message });
  const response = await ask("mcp", { method: "POST", headers, body: stringify(message), signal });
  const found = { session: response.headers.get("Mcp-Session-Id"), call: response.headers.get("Marquetry-Call") };
  const take = (text) => {
    const got = parse(text);
    log.push({ sent: false, message: got });
    if (got.method === undefined) found.answer = got;
    else if (got.id !== undefined) {
      // The question is declined, so that the call goes on.
      const answer =
        got.method === "elicitation/create"
          ? { result: { action: "decline" } }
          : got.method === "ping"
            ? { result: {} }
            : { error: { code: -32601, message: "the page Revisions does not answer requests" } };
      exchange({ jsonrpc: "2.0", id: got.id, ...answer }, { revision, session, log, signal }).catch(() => {});
    }
  };
  if ((response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) {
    for await (const event of events(response.body)) if (event.data) take(event.data);
  } else {
    const text = await response.text();
    if (/^\s*[{[]/.test(text)) take(text);
    else if (!response.ok) throw await refusal(new Response(text, { status: response.status }));
  }
  return found;
}

/** Calls the tool once, as a client of the revision with the capabilities does. */
async function callAs({ revision, capabilities, tool: { name, inputSchema }, args, signal }) {
  const log = [];
  const began = performance.now();
  const clientInfo = { name: "marquetry-console", version: document.documentElement.dataset.version ?? "0" };
  const params = { name, arguments: args };
  const it = { revision, schema: inputSchema, log, signal };
  let found;
  if (revision === STATELESS) {
    params._meta = {
      [`${META}protocolVersion`]: revision,
      [`${META}clientInfo`]: clientInfo,
      [`${META}clientCapabilities`]: capabilities,
    };
    for (let id = 1; id <= MOST_ROUNDS; id += 1) {
      found = await exchange({ jsonrpc: "2.0", id, method: "tools/call", params: { ...params } }, it);
      const { resultType, inputRequests = {}, requestState } = found.answer?.result ?? {};
      if (resultType !== "input_required") break;
      // A question without an answer would hold up those of the next call.
      params.inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: "decline" }]));
      params.requestState = requestState;
    }
  } else {
    const opened = await exchange(
      { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: revision, capabilities, clientInfo } },
      it,
    );
    if (!opened.answer?.result) return { log, answer: opened.answer, ms: performance.now() - began };
    it.session = opened.session;
    it.revision = opened.answer.result.protocolVersion;
    try {
      await exchange({ jsonrpc: "2.0", method: "notifications/initialized" }, it);
      found = await exchange({ jsonrpc: "2.0", id: 2, method: "tools/call", params }, it);
    } finally {
      if (it.session)
        ask("mcp", {
          method: "DELETE",
          headers: { "Mcp-Session-Id": it.session, "MCP-Protocol-Version": it.revision },
        }).catch(() => {});
    }
  }
  return { log, answer: found.answer, call: found.call, agreed: it.revision, ms: performance.now() - began };
}

function outcome({ answer }) {
  if (!answer) return "no answer";
  if (answer.error) return "rpc_error";
  if (answer.result?.resultType === "input_required") return "input_required";
  return answer.result?.isError ? "tool_failed" : "ok";
}

function messagesOf(log) {
  return log.map(({ sent, message }) =>
    h(
      "details",
      h("summary", `${sent ? "→" : "←"} ${message.method ?? (message.error ? "error" : "result")}`),
      tree(message),
    ),
  );
}

/** The messages between the gateway and the upstream in the call. */
async function upstreamSide(call) {
  if (!call) return empty("The call has no record.");
  const { messages } = await data(`messages?call=${encodeURIComponent(call)}`);
  const found = messages.filter((it) => it.side === "upstream").reverse();
  if (!found.length)
    return empty("The log has no message to the server for this call.", "Tools of this program itself have none.");
  const whole = await Promise.all(
    found.slice(0, 50).map(async (it) => ({ sent: it.sent, text: (await data(`messages/${it.id}`)).text })),
  );
  return whole.map(({ sent, text }) => {
    try {
      return messagesOf([{ sent, message: parse(text) }]);
    } catch {
      return h("pre", { tabIndex: 0, "aria-label": "Message" }, text);
    }
  });
}

async function revisionOf(server) {
  if (!server) return undefined;
  return (await data(`servers/${encodeURIComponent(server)}`).catch(() => undefined))?.connection?.revision;
}

/** The beginning of a text, in whole words. */
const firstWords = (text) => (text.length > 120 ? `${text.slice(0, 120).replace(/\s+\S*$/, "")} …` : text);

export async function revisions(context) {
  const all = await list("tools/list", "tools");
  if (!all.length) return empty("No server offers a tool.", link("#/servers", "See why"));
  if (!context.name)
    return [
      h("p", "Choose a tool, and see one call as clients of each revision of MCP make it."),
      table(
        "Tools",
        ["Tool", "Description"],
        all.map((it) => [link(to("revisions", it.name), it.name), firstWords(it.description ?? "")]),
      ),
    ];
  const tool = all.find((it) => it.name === context.name);
  if (!tool) return empty(`No tool is called ${context.name}.`, link("#/revisions", "All tools"));

  const args = h("textarea.code", { rows: 5, spellcheck: "false", id: newId("json") });
  args.value = context.query.get("args") ?? "{}";
  const kinds = [STATELESS, ...SESSIONS].flatMap((revision) => Object.keys(SETS).map((set) => ({ revision, set })));
  for (const kind of kinds) {
    kind.box = h("input", { type: "checkbox", id: newId("kind"), checked: true });
    kind.label = `${kind.revision}, ${SETS[kind.set].label}`;
  }
  const status = h("p", { role: "status" });
  const place = h("div");
  let running;
  context.onLeave(() => running?.abort());
  const run = async () => {
    if (running) return;
    let given;
    try {
      given = parse(args.value.trim() || "{}");
    } catch (error) {
      fill(status, h("span.bad", `The arguments are not JSON: ${error.message}`));
      args.focus();
      return;
    }
    const chosen = kinds.filter((it) => it.box.checked);
    running = new AbortController();
    const { signal } = running;
    const found = [];
    // One after the other: the calls could disturb each other.
    for (const kind of chosen) {
      fill(status, badge("running"), ` ${kind.label}`);
      try {
        found.push({
          ...kind,
          ...(await callAs({
            revision: kind.revision,
            capabilities: SETS[kind.set].of(kind.revision),
            tool,
            args: given,
            signal,
          })),
        });
      } catch (error) {
        if (signal.aborted) break;
        found.push({ ...kind, log: [], failure: error.message });
      }
      if (context.isShown()) fill(place, await shownResults(found));
    }
    fill(status, `${found.length} calls were made.`);
    running = undefined;
  };
  return [
    h(
      "p",
      "This calls the tool once for each kind of client that is ticked, and shows what the client and the server behind the gateway get. Questions to the user are declined.",
    ),
    h("p", link(to("tools", tool.name), "Form of the tool")),
    h("label", { for: args.id }, "Arguments as JSON"),
    args,
    h(
      "fieldset",
      h("legend", "Clients"),
      kinds.map(({ box, label }) => h("label", { for: box.id, class: "switch" }, box, ` ${label} `)),
    ),
    h("p", button("Run", run, { class: "primary", "data-run": "" })),
    status,
    place,
  ];
}

async function shownResults(found) {
  const first = found.find((it) => it.answer?.result);
  const record = first?.call ? await data(`calls/${first.call}`).catch(() => undefined) : undefined;
  const revision = await revisionOf(record?.server);
  const compared = (it) => {
    if (it.failure) return it.failure;
    if (it.answer?.error) return it.answer.error.message;
    if (it === first) return "the others are compared with this one";
    return differences(first?.answer.result, it.answer?.result).join("; ") || "the same answer";
  };
  return [
    revision ? h("p", `The server behind the gateway speaks ${revision}; other revisions are translated.`) : null,
    table(
      "Clients",
      ["Client", "Outcome", "Time", "Answer", "Record"],
      found.map((it) => [
        it.agreed && it.agreed !== it.revision ? `${it.label} (agreed on ${it.agreed})` : it.label,
        badge(it.failure ? "failed" : outcome(it)),
        it.ms === undefined ? "" : duration(Math.round(it.ms * 1000)),
        compared(it),
        it.call ? link(to("calls", it.call), "record") : "",
      ]),
    ),
    found.map((it) => {
      const details = h("details.revision", h("summary", `Messages: ${it.label}`));
      details.addEventListener("toggle", async () => {
        if (!details.open || details.childElementCount > 1) return;
        const upstream = h("div", "loading…");
        details.append(
          h("h2", "Client and gateway"),
          h("div", messagesOf(it.log)),
          h("h2", "Gateway and server"),
          upstream,
        );
        fill(upstream, await upstreamSide(it.call).catch((error) => error.message));
      });
      return details;
    }),
  ];
}

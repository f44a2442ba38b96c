// An MCP server whose Views do nothing by themselves: the tests act for their authors, by
// evaluating scripts in their frames. And a server that gives Views which no host may show.

import { createInterface } from "node:readline";
import { officialApp, page } from "./views-upstream.mjs";

const VIEW = "text/html;profile=mcp-app";

/** The official `App`, connected; `told` has what the host told it. */
const APP = `
globalThis.told = [];
const app = globalThis.app = new App({ name: 'lab', version: '1' }, { tools: { listChanged: true } }, { autoResize: false });
app.ontoolinput = (params) => told.push(['input', params.arguments]);
app.ontoolresult = (params) => told.push(['result', params]);
app.onteardown = async (params) => { parent.postMessage({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'torn down: ' + (params?.reason ?? '') } }, '*'); return {}; };
app.onlisttools = async () => ({ tools: [{ name: 'shout', description: 'Writes in capitals', inputSchema: { type: 'object', properties: { text: { type: 'string' } } }, annotations: { readOnlyHint: true } }, { name: 'erase', description: 'Changes <b>something</b>', inputSchema: { type: 'object' } }] });
app.oncalltool = async ({ name, arguments: given }) => {
  if (given.fail) throw new Error('no voice');
  return { content: [{ type: 'text', text: String(given.text).toUpperCase() }], structuredContent: { name } };
};
await app.connect();
document.getElementById('log').textContent = 'connected';
`;

/** A View that sends what it is told to send, and keeps what it gets. It answers nothing unless `polite` is set. */
const RAW = `
globalThis.got = [];
globalThis.polite = false;
globalThis.send = (message) => parent.postMessage(message, '*');
addEventListener('message', ({ data, source }) => {
  got.push({ data, fromHost: source === parent });
  if (polite && source === parent && data?.id !== undefined && data.method) send({ jsonrpc: '2.0', id: data.id, result: {} });
});
let next = 1000;
globalThis.ask = (method, params = {}) => new Promise((done) => {
  const id = next++;
  const hear = ({ data }) => { if (data?.id === id && !data.method) { removeEventListener('message', hear); done(data); } };
  addEventListener('message', hear);
  send({ jsonrpc: '2.0', id, method, params });
});
globalThis.start = async () => {
  const answer = await ask('ui/initialize', { appInfo: { name: 'raw', version: '1' }, appCapabilities: {}, protocolVersion: '2026-01-26' });
  send({ jsonrpc: '2.0', method: 'ui/notifications/initialized', params: {} });
  return answer;
};
document.getElementById('log').textContent = 'loaded';
`;

const SELF = process.env.LAB_TARGET ?? "http://127.0.0.1:9";
const html = (text, meta) => ({ mimeType: VIEW, text, ...(meta ? { _meta: { ui: meta } } : {}) });
const BREAKOUT = [
  "*",
  "https:",
  "'unsafe-eval'",
  "data:",
  "blob:",
  `${SELF}; script-src *`,
  `${SELF}\r\nX-Other: y`,
  `${SELF} *`,
  "https://*",
  "http://127.0.0.1:*; connect-src *",
  "http://a,*",
  "\u0000http://a",
  "",
  7,
  null,
  ["*"],
  { a: 1 },
];

/** Views by the names of their tools. Each makes the contents of its resource. */
const VIEWS = {
  app: () => [html(page(officialApp() + APP))],
  raw: () => [html(page(RAW))],
  breakout: () => [
    html(page(RAW), {
      csp: { connectDomains: BREAKOUT, resourceDomains: BREAKOUT, frameDomains: BREAKOUT, baseUriDomains: BREAKOUT },
      permissions: { camera: true, "geolocation; x": {}, microphone: "self", clipboardWrite: {} },
      domain: "evil.example; x",
      prefersBorder: "yes",
    }),
  ],
  listed: () => [html(page(RAW))],
  declared: () => [html(page(RAW), { csp: { connectDomains: [SELF] } })],
  nothing: () => [],
  two: () => [html("<p>one"), html("<p>two")],
  typeless: () => [{ text: "<p>x" }],
  othertype: () => [{ mimeType: "text/html", text: "<p>x" }],
  textless: () => [{ mimeType: VIEW }],
  latin: () => [{ mimeType: VIEW, blob: Buffer.from("<!doctype html><p>caf\xe9", "latin1").toString("base64") }],
  notbase64: () => [{ mimeType: VIEW, blob: "<!doctype html>" }],
  blob: () => [{ mimeType: VIEW, blob: Buffer.from(page(RAW)).toString("base64") }],
  large: () => [html(`<!doctype html><p>${"x".repeat(24 << 20)}`)],
  empty: () => [html("")],
};

const any = { type: "object" };
/** The question of the tool `asks`. */
const QUESTION = {
  message: "Which room?",
  requestedSchema: { type: "object", required: ["room"], properties: { room: { type: "string", title: "Room" } } },
};
const asked = new Map();
const located = {
  type: "object",
  properties: {
    region: { type: "string", "x-mcp-header": "Region" },
    options: { type: "object", properties: { limit: { type: "integer", "x-mcp-header": "Limit" } } },
  },
};

const TOOLS = [
  ...[...Object.keys(VIEWS), "missing"].map((name) => ({
    name,
    description: `Has the View ${name}`,
    inputSchema:
      name === "raw"
        ? { type: "object", properties: { word: { type: "string" }, pin: { type: "string", format: "password" } } }
        : any,
    _meta: { ui: { resourceUri: `ui://lab/${name}.html` } },
  })),
  { name: "helper", description: "For Views", inputSchema: any, _meta: { ui: { visibility: ["app"] } } },
  { name: "located", description: "Has arguments that headers repeat", inputSchema: located },
  { name: "asks", description: "Asks the user, and says what was answered", inputSchema: any },
  { name: "cancellations", description: "Returns the calls that were cancelled", inputSchema: any },
  { name: "secret", description: "Not for Views", inputSchema: any, _meta: { ui: { visibility: ["model"] } } },
];

/** A resource that this server alone has. */
const OWN = `lab:notes-of-${process.env.LAB_NAME ?? "lab"}`;

const write = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

/**
 * The waits of calls by the id of their request, and the calls that were cancelled, with whether
 * their wait was still to go on.
 */
const waits = new Map();
const cancelled = [];

/** Waits as a call does that takes long, unless it is cancelled. */
const wait = (id, tool, ms) =>
  new Promise((done) => {
    const timer = setTimeout(() => {
      waits.delete(id);
      done(true);
    }, ms);
    waits.set(id, () => {
      clearTimeout(timer);
      waits.delete(id);
      cancelled.push({ tool, stopped: true });
      done(false);
    });
  });

async function call({ name, arguments: given = {}, _meta: meta }, id) {
  if (given.ms && !(await wait(id, name, given.ms))) return undefined;
  if (name === "cancellations")
    return { content: [{ type: "text", text: "see structuredContent" }], structuredContent: { cancelled } };
  if (given.progress)
    write({
      method: "notifications/progress",
      params: { progressToken: meta.progressToken, progress: 1, message: "x".repeat(given.progress) },
    });
  if (name === "asks") {
    const id = `question-${asked.size}`;
    given = await new Promise((done) => {
      asked.set(id, done);
      write({ id, method: "elicitation/create", params: QUESTION });
    });
  }
  return { content: [{ type: "text", text: `${name} was called` }], structuredContent: { given }, _meta: { own: 1 } };
}

function answer({ id, method, params }) {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: "2025-11-25",
        capabilities: { tools: {}, resources: {} },
        serverInfo: { name: "lab", version: "1.0" },
      };
    case "ping":
      return {};
    case "tools/list":
      return { tools: TOOLS };
    case "tools/call":
      return call(params, id);
    case "resources/list":
      return {
        resources: [
          { uri: OWN, name: "notes" },
          {
            uri: "ui://lab/listed.html",
            name: "listed",
            mimeType: VIEW,
            _meta: { ui: { csp: { connectDomains: [SELF] }, prefersBorder: false } },
          },
        ],
      };
    case "resources/templates/list":
      return { resourceTemplates: [] };
    case "resources/read": {
      if (params.uri === OWN) return { contents: [{ uri: OWN, text: "notes" }] };
      const view = VIEWS[/^ui:\/\/lab\/(\w+)\.html$/.exec(params.uri)?.[1]];
      if (!view)
        throw Object.assign(new Error(`Resource not found: ${params.uri}`), {
          code: -32602,
          data: { uri: params.uri },
        });
      return { contents: view().map((it) => ({ uri: params.uri, ...it })) };
    }
    default:
      throw Object.assign(new Error(`method not found: ${method}`), { code: -32601 });
  }
}

createInterface({ input: process.stdin }).on("line", async (line) => {
  const message = JSON.parse(line);
  if (message.method === undefined) asked.get(message.id)?.(message.result ?? message.error);
  if (message.method === "notifications/cancelled") waits.get(message.params.requestId)?.();
  if (message.id === undefined || message.method === undefined) return;
  const reply = { id: message.id };
  try {
    reply.result = await answer(message);
    // A cancelled request has no answer.
    if (reply.result === undefined) return;
  } catch (error) {
    reply.error = { code: error.code ?? -32603, message: error.message, data: error.data };
  }
  write(reply);
});

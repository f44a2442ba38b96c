// An MCP server whose Views have the sizes that Views in the field have, and whose answers have
// values that look like secrets.

import { createInterface } from "node:readline";

const SCRIPT = `
globalThis.got = [];
addEventListener('message', ({ data }) => got.push(data));
let next = 0;
globalThis.send = (message) => parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
globalThis.ask = (method, params) => new Promise((done) => {
  const id = next++;
  addEventListener('message', ({ data }) => { if (data?.id === id && !data.method) done(data.result); });
  send({ id, method, params });
});
addEventListener('message', ({ data }) => { if (data?.method === 'ui/resource-teardown') send({ id: data.id, result: {} }); });
globalThis.initialized = await ask('ui/initialize', { protocolVersion: '2026-01-26', appInfo: { name: 'sizes', version: '1' }, appCapabilities: { availableDisplayModes: ['inline', 'fullscreen'] } });
send({ method: 'ui/notifications/initialized', params: {} });
let last = 0;
const report = () => {
  const height = Math.ceil(document.documentElement.getBoundingClientRect().height);
  if (height !== last) send({ method: 'ui/notifications/size-changed', params: { height } });
  last = height;
};
globalThis.polls ? setInterval(report, 300) : new ResizeObserver(report).observe(document.documentElement);
report();
document.querySelector('p').textContent = 'ready';
`;
const view = (css, before = "") =>
  `<!doctype html><style>html,body{margin:0}${css}</style><body><p>…</p><script>${before}</script><script type="module">${SCRIPT}</script>`;
const VIEWS = {
  plain: view(""),
  margin: view("body{min-height:100vh;padding-bottom:40px}"),
  factor: view("body{min-height:120vh}"),
  polling: view("body{min-height:100vh;padding-bottom:24px}", "globalThis.polls = true"),
};

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const text = (it) => ({ type: "text", text: it });
const paged = { nextPageToken: "page-2", rows: [1, 2] };
const RESULTS = {
  small: { content: [text("t")], structuredContent: paged },
  picture: { content: [{ type: "image", data: PIXEL, mimeType: "image/png" }], structuredContent: paged },
  long: { content: [text("x".repeat(200_000))], structuredContent: paged },
  structured: {
    content: [text("t")],
    structuredContent: { ...paged, rows: Array.from({ length: 30_000 }, (_, at) => at) },
  },
  failing: { content: [text("y".repeat(200_000))], structuredContent: paged, isError: true },
};
const uriOf = (name) => `ui://sizes/${name in VIEWS ? name : "plain"}${name === "spelled" ? "-spelled" : ""}.html`;
const NAMES = [...Object.keys(VIEWS), ...Object.keys(RESULTS), "slow", "spelled"];

async function answer({ method, params }) {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: "2025-11-25",
        capabilities: { tools: {}, resources: {} },
        serverInfo: { name: "sizes", version: "1" },
      };
    case "tools/list":
      return {
        tools: NAMES.map((name) => ({
          name,
          inputSchema: { type: "object" },
          _meta: { ui: { resourceUri: uriOf(name) } },
        })),
      };
    case "tools/call":
      if (params.name === "slow") {
        await new Promise((done) => setTimeout(done, 4_000));
        return { content: [text("late")] };
      }
      return { content: [text("t")], ...RESULTS[params.name], _meta: { sessionId: "s-1" } };
    case "resources/read": {
      const name = /(\w+)(-spelled)?\.html$/.exec(params.uri);
      const mimeType = name[2] ? 'text/html; charset=utf-8; profile="mcp-app"' : "text/html;profile=mcp-app";
      return { contents: [{ uri: params.uri, mimeType, text: VIEWS[name[1]] }] };
    }
    default:
      return { resources: [], resourceTemplates: [], prompts: [] };
  }
}

createInterface({ input: process.stdin }).on("line", async (line) => {
  const message = JSON.parse(line);
  if (message.id === undefined || message.method === undefined) return;
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: message.id, result: await answer(message) })}\n`);
});

// An MCP server with one tool that takes its time, and a View that writes down what it is told.

import { createInterface } from "node:readline";

const VIEW = "text/html;profile=mcp-app";
const PAGE = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>View</title></head>
<body><button id="link">link</button><button id="full">full</button><pre id="log"></pre><script>
const seen = [];
const note = (it) => { seen.push(it); document.getElementById('log').textContent = JSON.stringify(seen); };
let last = 0;
const waiting = new Map();
const send = (message) => parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
const ask = (method, params) => new Promise((done, failed) => { const id = last++; waiting.set(id, { done, failed }); send({ id, method, params }); });
addEventListener('message', ({ data: { id, method, params, result, error } }) => {
  if (method === undefined) { const it = waiting.get(id); waiting.delete(id); if (error) it.failed(error); else it.done(result); return; }
  if (method === 'ui/notifications/tool-input') note('input');
  if (method === 'ui/notifications/tool-result') note('result');
  if (method === 'ui/notifications/tool-cancelled') note('cancelled');
  if (method === 'ui/notifications/host-context-changed' && params.displayMode) note('mode ' + params.displayMode);
  if (method.endsWith('list_changed')) note(method);
  if (id !== undefined) send({ id, result: {} });
});
document.getElementById('link').onclick = () => ask('ui/open-link', { url: 'https://example.com/a/long/path?with=query#and-part' }).catch((error) => note('link denied'));
document.getElementById('full').onclick = () => ask('ui/request-display-mode', { mode: 'fullscreen' });
ask('ui/initialize', { appInfo: { name: 'slow', version: '1' }, appCapabilities: { availableDisplayModes: ['inline', 'fullscreen'] }, protocolVersion: '2026-01-26' })
  .then(() => send({ method: 'ui/notifications/initialized', params: {} }));
</script></body></html>`;
const TOOLS = [
  {
    name: "slow",
    description: "Waits",
    inputSchema: { type: "object", properties: { ms: { type: "integer" } } },
    _meta: { ui: { resourceUri: "ui://probe/app.html" } },
  },
];

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

async function answer({ method, params }) {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: "2025-11-25",
        capabilities: { tools: { listChanged: true }, resources: { listChanged: true } },
        serverInfo: { name: "slow", version: "1.0" },
      };
    case "ping":
      return {};
    case "tools/list":
      return { tools: TOOLS };
    case "tools/call": {
      const { ms = 0 } = params.arguments ?? {};
      await new Promise((done) => setTimeout(done, ms));
      // A negative time adds a tool.
      if (ms < 0) {
        TOOLS.push({ name: `more${TOOLS.length}`, inputSchema: { type: "object" } });
        say({ method: "notifications/tools/list_changed" });
      }
      return { content: [{ type: "text", text: "over" }] };
    }
    case "resources/list":
      return { resources: [{ uri: "ui://probe/app.html", name: "app", mimeType: VIEW }] };
    case "resources/templates/list":
      return { resourceTemplates: [] };
    case "resources/read":
      return { contents: [{ uri: params.uri, mimeType: VIEW, text: PAGE }] };
    default:
      throw Object.assign(new Error(`method not found: ${method}`), { code: -32601 });
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.id === undefined || message.method === undefined) continue;
  answer(message).then(
    (result) => say({ id: message.id, result }),
    (error) => say({ id: message.id, error: { code: error.code ?? -32603, message: error.message } }),
  );
}

// A host of MCP Apps for tests: the official AppBridge in this process, and in the browser two
// pages that only pass messages on.
import http from "node:http";
import { AppBridge } from "@modelcontextprotocol/ext-apps/app-bridge";

export { startBrowser as launch } from "./support.mjs";

/** The policy of a View that declares nothing: MCP Apps 2026-01-26, "Content Security Policy". */
export const DEFAULT_CSP =
  "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; " +
  "object-src 'none'; connect-src 'none'; frame-src 'none'; base-uri 'self'; form-action 'none'";

const HOST_PAGE = (
  proxy,
) => `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Host</title>
<style>html { color-scheme: light dark } body { margin: 0 } iframe { display: block; width: 100%; height: 300px; border: 0 }</style>
<iframe sandbox="allow-scripts allow-same-origin" title="View"></iframe>
<script>
const frame = document.querySelector("iframe");
addEventListener("message", (event) => {
  if (event.source === frame.contentWindow && event.origin === ${JSON.stringify(proxy)}) toBridge(event.data);
});
fromBridge = (message) => frame.contentWindow.postMessage(message, ${JSON.stringify(proxy)});
resize = (height) => frame.style.height = height + "px";
frame.src = ${JSON.stringify(`${proxy}/proxy`)};
</script>`;

const PROXY_PAGE = `<!doctype html><meta charset="utf-8"><title>Sandbox</title>
<style>html, body { margin: 0; height: 100% } iframe { display: block; width: 100%; height: 100%; border: 0 }</style>
<script>
let inner;
addEventListener("message", (event) => {
  if (event.source === parent) {
    if (event.data?.method === "ui/notifications/sandbox-resource-ready") {
      inner = document.createElement("iframe");
      inner.setAttribute("sandbox", "allow-scripts");
      inner.srcdoc = event.data.params.html;
      document.body.append(inner);
    } else inner?.contentWindow.postMessage(event.data, "*");
  } else if (event.source === inner?.contentWindow) {
    if (!String(event.data?.method ?? "").startsWith("ui/notifications/sandbox-")) parent.postMessage(event.data, "*");
  }
});
addEventListener("DOMContentLoaded", () => parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/sandbox-proxy-ready", params: {} }, "*"));
</script><body></body>`;

async function listen(answer) {
  const server = http.createServer((request, response) => answer(request.url, response));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, origin: `http://127.0.0.1:${server.address().port}` };
}

/** The two pages, each on its own origin. */
export async function serveHost() {
  const page = (response, body, headers = {}) =>
    response.writeHead(200, { "content-type": "text/html; charset=utf-8", ...headers }).end(body);
  const proxy = await listen((url, response) =>
    url === "/proxy"
      ? page(response, PROXY_PAGE, { "content-security-policy": DEFAULT_CSP })
      : response.writeHead(404).end(),
  );
  const host = await listen((url, response) =>
    url === "/host" ? page(response, HOST_PAGE(proxy.origin)) : response.writeHead(404).end(),
  );
  return {
    url: `${host.origin}/host`,
    close: () => {
      for (const { server } of [host, proxy]) {
        server.closeAllConnections();
        server.close();
      }
    },
  };
}

/** The messages between AppBridge and the host page, as a transport. */
class PageTransport {
  sent = [];
  received = [];
  constructor(page) {
    this.page = page;
  }
  async start() {}
  async send(message) {
    // The page may show the next View already, which would take a late answer for one of its own requests.
    if (this.isLeft) return;
    this.sent.push(message);
    await this.page
      .evaluate((it) => fromBridge(it), message)
      .catch((error) => {
        if (!this.isLeft && !this.page.isClosed()) throw error;
      });
  }
  async close() {
    this.onclose?.();
  }
  receive(message) {
    this.received.push(message);
    this.onmessage?.(message);
  }
}

/** What a host offers that offers all that our Views use. */
export const ALL_CAPABILITIES = {
  openLinks: {},
  serverTools: {},
  serverResources: {},
  logging: {},
  message: { text: {} },
  updateModelContext: { text: {}, structuredContent: {} },
  downloadFile: {},
};

/**
 * Opens a View in a page. `tools` are functions by name, each from arguments to a CallToolResult;
 * `listed` are the names that `tools/list` gives (all of `tools`), or `null` for a host that cannot
 * list. `close` leaves the page to the next View; `discard` is for a page that was changed.
 */
export async function openView(
  browser,
  site,
  {
    html,
    tools = {},
    listed = Object.keys(tools),
    client = null,
    capabilities,
    context = {},
    viewport = { width: 900, height: 800 },
    colorScheme = "light",
    input,
    result,
  } = {},
) {
  const shown = await takePage(browser, viewport, colorScheme);
  const { page } = shown;
  const { errors, requests } = shown;
  const seen = { calls: [], links: [], messages: [], contexts: [], modes: [], downloads: [], sizes: [], log: [] };
  let hostContext = {
    theme: colorScheme,
    displayMode: "inline",
    availableDisplayModes: ["inline", "fullscreen"],
    containerDimensions: { maxHeight: 4000 },
    locale: "en",
    platform: "web",
    ...context,
  };
  const bridge = new AppBridge(client, { name: "test-host", version: "1.0.0" }, capabilities ?? ALL_CAPABILITIES, {
    hostContext,
  });
  if (!client) {
    bridge.oncalltool = async ({ name, arguments: args }, extra) => {
      seen.calls.push({ name, args });
      if (!tools[name]) throw Object.assign(new Error(`unknown tool ${name}`), { code: -32602 });
      return tools[name](args, extra);
    };
    // AppBridge itself lists no tools.
    if (listed)
      bridge.setRequestHandler("tools/list", async () => ({
        tools: listed.map((name) => ({ name, inputSchema: { type: "object" } })),
      }));
  }
  bridge.onopenlink = async ({ url }) => {
    seen.links.push(url);
    return {};
  };
  bridge.onmessage = async (message) => {
    seen.messages.push(message);
    return {};
  };
  bridge.onupdatemodelcontext = async (params) => {
    seen.contexts.push(params);
    return {};
  };
  bridge.ondownloadfile = async ({ contents }) => {
    seen.downloads.push(...contents);
    return {};
  };
  bridge.onrequestdisplaymode = async ({ mode }) => {
    seen.modes.push(mode);
    hostContext = { ...hostContext, displayMode: mode };
    bridge.setHostContext(hostContext);
    return { mode };
  };
  bridge.onsizechange = (size) => {
    seen.sizes.push(size);
    if (size?.height) page.evaluate((height) => resize(height), size.height).catch(() => {});
  };
  bridge.onloggingmessage = (params) => seen.log.push(params);
  bridge.onsandboxready = () => bridge.sendSandboxResourceReady({ html });
  const initialized = new Promise((resolve) => (bridge.oninitialized = resolve));
  const transport = new PageTransport(page);
  shown.receive = (message) => transport.receive(message);
  await bridge.connect(transport);
  await page.goto(site.url);
  await initialized;
  const frame = page.frames().find((it) => it.parentFrame()?.parentFrame());
  if (input) await bridge.sendToolInput({ arguments: input });
  if (result) await bridge.sendToolResult(result);
  const setContext = (change) => {
    hostContext = { ...hostContext, ...change };
    return bridge.setHostContext(hostContext);
  };
  return {
    page,
    frame,
    bridge,
    transport,
    seen,
    errors,
    requests,
    setContext,
    close: () => {
      transport.isLeft = true;
      return givePage(browser, shown);
    },
    discard: () => page.context().close(),
  };
}

/**
 * Pages of each browser that no View uses now. A View has no origin, so that nothing of it remains
 * when its page loads the next one; to make a page takes Chromium longer than to load one.
 */
const free = new WeakMap();

async function takePage(browser, viewport, colorScheme) {
  const kind = JSON.stringify([viewport, colorScheme]);
  const waiting = (free.get(browser) ?? []).findIndex((it) => it.kind === kind);
  if (waiting >= 0) return free.get(browser).splice(waiting, 1)[0];
  const context = await browser.newContext({ viewport, colorScheme });
  const page = await context.newPage();
  const shown = { kind, page, errors: [], requests: [], receive: () => {} };
  page.on("pageerror", (error) => shown.errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && shown.errors.push(message.text()));
  page.on("request", (request) => shown.requests.push(request.url()));
  await page.exposeFunction("toBridge", (message) => shown.receive(message));
  return shown;
}

async function givePage(browser, shown) {
  shown.receive = () => {};
  // The View is gone before the next test begins.
  await shown.page.goto("about:blank");
  Object.assign(shown, { errors: [], requests: [] });
  free.set(browser, [...(free.get(browser) ?? []), shown]);
}

/** A result whose structured content is this. */
export function data(structuredContent) {
  return { content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent };
}

/**
 * Waits until `holds` returns a true value, and returns it. The error has the text of `what`, and
 * what `state` returns at the end.
 */
export async function eventually(what, holds, { milliseconds = 15_000, state } = {}) {
  const end = Date.now() + milliseconds;
  for (;;) {
    const value = await holds();
    if (value) return value;
    if (Date.now() > end)
      throw new Error(
        `${what}: not within ${milliseconds} ms${state ? `; at the end: ${JSON.stringify(await state())}` : ""}`,
      );
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

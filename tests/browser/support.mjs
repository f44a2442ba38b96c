// Starts the server and the browser for tests.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = fileURLToPath(new URL(".", import.meta.url));

/** The program under test. */
const folder = process.env.MARQUETRY_BUILT;
export const program = folder
  ? join(folder, "marquetry")
  : (process.env.MARQUETRY_BIN ?? join(here, "../../target/debug/marquetry"));
// The first is Chromium without the parts of a desktop browser. With it the tests take 193 s of CPU
// time instead of 304 (docs/benchmarks.md).
const browserProgram =
  process.env.CHROMIUM ??
  ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
    existsSync,
  );

/** The upstream of most tests, as `mcp.json` has it. */
export const upstream = { command: process.execPath, args: [join(here, "upstream.mjs")] };

/** An example server of the authors of MCP Apps, as `mcp.json` has it. It has no network. */
export function exampleServer(name) {
  const file = join(here, `node_modules/@modelcontextprotocol/server-${name}/dist/index.js`);
  return {
    command: process.execPath,
    args: ["--import", new URL("offline.mjs", import.meta.url).href, file, "--stdio"],
  };
}

/** Waits for a promise, but not for ever: it fails after `ms`, and says what did not come about. */
export async function within(promise, what, ms = 20_000) {
  let limit;
  try {
    return await Promise.race([
      promise,
      new Promise((_, failed) => {
        limit = setTimeout(() => failed(new Error(`not within ${ms} ms: ${what}`)), ms);
      }),
    ]);
  } finally {
    clearTimeout(limit);
  }
}

/** Starts the server. Returns { url, text(), stop() }. `config` is TOML, `servers` are those of an `mcp.json`. */
export async function startServer({ config = "", servers = { lab: upstream }, port = 0, env = {}, more = [] } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "marquetry-browser-"));
  writeFileSync(join(folder, "marquetry.toml"), config, { mode: 0o600 });
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: servers }), { mode: 0o600 });
  const args = [
    "serve",
    "--listen",
    `127.0.0.1:${port}`,
    "--config",
    join(folder, "marquetry.toml"),
    "--mcp-config",
    join(folder, "mcp.json"),
    ...more,
  ];
  const home = { HOME: folder, XDG_DATA_HOME: folder, XDG_STATE_HOME: folder, XDG_CONFIG_HOME: folder };
  const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, ...home, ...env } });
  let text = "";
  const ended = new Promise((done) => child.once("exit", done));
  const url = await new Promise((done, failed) => {
    const limit = setTimeout(() => failed(new Error(`the server does not listen:\n${text}`)), 30_000);
    child.stderr.on("data", (chunk) => {
      text += chunk;
      const found = /listens on (http:\/\/[^/\s]+)\/mcp/.exec(text);
      if (found) {
        clearTimeout(limit);
        done(found[1]);
      }
    });
    child.once("error", failed);
    child.once("exit", (code) => failed(new Error(`the server ended with ${code}:\n${text}`)));
  });
  return {
    url,
    text: () => text,
    async stop(signal = "SIGTERM") {
      child.kill(signal);
      try {
        await within(ended, `the server ends by ${signal}`);
      } finally {
        child.kill("SIGKILL");
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Calls a tool as an agent does, beside the page. Returns { result, error, id }: `id` names the record. */
export async function callTool(server, name, args = {}, token, capabilities = {}, extra = {}) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "agent", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
  const response = await fetch(`${server.url}/mcp`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": "tools/call",
      "Mcp-Name": name,
      ...(token ? { Authorization: `Bearer ${token}` } : {}),
    },
    signal: AbortSignal.timeout(60_000),
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name, arguments: args, ...extra, _meta: meta },
    }),
  });
  const body = await response.text();
  const text = body.startsWith("{")
    ? body
    : body
        .split("\n")
        .filter((line) => line.startsWith("data: {"))
        .at(-1)
        ?.slice(6);
  return { ...JSON.parse(text), id: response.headers.get("marquetry-call") };
}

/** Starts Chromium, with more arguments if there are some. Without it the tests cannot run, and say so. */
export async function startBrowser(more = []) {
  if (!browserProgram)
    throw new Error(
      "Chromium is missing: apt-get install chromium-headless-shell, or name it in the variable CHROMIUM",
    );
  // No name of another host is found, whatever a page asks for.
  const offline = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost";
  // A View has a process of its own, as in a desktop browser: its endless loop must not stop the page.
  const args = ["--no-sandbox", "--disable-dev-shm-usage", "--site-per-process", offline, ...more];
  return chromium.launch({ executablePath: browserProgram, args });
}

export const WIDTHS = [1280, 390, 320];
export const THEMES = ["light", "dark"];

/**
 * Opens the console. Returns the page of playwright, with `problems`: errors of scripts, refusals
 * of the policy, and requests that went to another server. `foreign` has the addresses of other
 * hosts alone, also those that a frame asked for.
 */
export async function openPage(
  browser,
  server,
  hash = "#/",
  { width = 1280, theme = "light", token, reducedMotion = "reduce", wait = true } = {},
) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme: theme, reducedMotion });
  const page = await context.newPage();
  page.problems = [];
  page.foreign = [];
  page.on("pageerror", (error) => page.problems.push(`error: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !/Failed to load resource/.test(text)) page.problems.push(`console: ${text}`);
  });
  page.on("request", (request) => {
    const { origin, protocol, hostname } = new URL(request.url());
    if (!/^https?:|^wss?:/.test(protocol)) return;
    if (origin !== server.url) page.problems.push(`foreign request: ${request.url()}`);
    if (!/^(127\.0\.0\.1|localhost)$/.test(hostname)) page.foreign.push(request.url());
  });
  // For work on the page without a build of the program: MARQUETRY_PAGE names the folder of its files.
  if (process.env.MARQUETRY_PAGE) await servePageFrom(page, server, process.env.MARQUETRY_PAGE);
  if (token) await page.addInitScript((text) => sessionStorage.setItem("marquetry.token", text), token);
  await page.goto(`${server.url}/${hash}`);
  if (wait) await shown(page, hash);
  return page;
}

async function servePageFrom(page, server, folder) {
  const types = { js: "text/javascript", css: "text/css" };
  await page.route(`${server.url}/console/*`, (route) => {
    const name = new URL(route.request().url()).pathname.split("/").at(-1);
    return route.fulfill({ body: readFileSync(join(folder, name)), contentType: types[name.split(".").at(-1)] });
  });
}

/** Waits until a page of the console shows its content. */
export async function shown(page, hash) {
  await page.waitForFunction(
    (wanted) => {
      const main = document.querySelector("main");
      return (
        main?.dataset.ready !== undefined &&
        !main.querySelector("[data-loading]") &&
        (wanted === undefined || main.dataset.ready.split("?")[0] === wanted.split("?")[0])
      );
    },
    hash,
    { timeout: 10_000 },
  );
}

/** Waits until the page of the console has a text that fits. */
export async function has(page, pattern, name = pattern) {
  const fits = (wanted) => new RegExp(wanted).test(document.querySelector("main")?.innerText ?? "");
  await page.waitForFunction(fits, pattern, { timeout: 10_000, polling: 20 }).catch(async () => {
    throw new Error(`${name}: the page has no ${pattern}, but ${await page.locator("main").innerText()}`);
  });
}

/** Goes to another page of the console, as a link does. */
export async function go(page, hash) {
  await page.evaluate((next) => {
    location.hash = next;
  }, hash);
  await shown(page, hash);
}

/** Opens the View of a call, and returns the frame of the View's own document. */
export async function openCallView(page, id) {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, `#/calls/${id}?tab=view`);
  const view = page.frameLocator("main iframe").frameLocator("iframe");
  await view.locator("body").waitFor({ state: "attached", timeout: 20_000 });
  return view;
}

/** The folder for screenshots, if they are wanted. */
export const shotsFolder = () => process.env.MARQUETRY_SCREENSHOTS;

const axe = readFileSync(join(here, "node_modules/axe-core/axe.min.js"), "utf8");

/**
 * Returns what axe-core finds, one line each. It is evaluated by the debugger, so that the policy
 * of the page stays as it is.
 */
export async function findings(page) {
  const session = await page.context().newCDPSession(page);
  const { result: there } = await session.send("Runtime.evaluate", { expression: "typeof axe" });
  if (there.value === "undefined") await session.send("Runtime.evaluate", { expression: axe });
  const { result } = await within(
    session.send("Runtime.evaluate", {
      expression:
        "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((it) => JSON.stringify(it.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`)))",
      awaitPromise: true,
    }),
    "axe has looked at the page",
    30_000,
  );
  await session.detach();
  return JSON.parse(result.value);
}

/** Returns the bytes of a text without the indentation of its lines, which is the formatter's. */
export const withoutIndentation = (text) => Buffer.byteLength(text.replace(/^ +/gm, ""));

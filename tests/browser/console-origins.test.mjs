// Who may not call: pages of other origins, of other ports of this machine, and of a name that was
// bound to this machine after the page was loaded (DNS rebinding). Real pages in a real browser,
// for every door of the server.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { callTool, startBrowser, startServer } from "./support.mjs";
import { labUpstream } from "./views-lab.mjs";

let server;
let browser;
let other;
before(async () => {
  other = createServer((_, response) =>
    response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>other</title>"),
  );
  await new Promise((done) => other.listen(0, "127.0.0.1", done));
  // The attacker's name leads to this machine.
  [server, browser] = await Promise.all([
    startServer({ servers: { lab: labUpstream() } }),
    startBrowser([
      "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    ]),
  ]);
  await callTool(server, "lab__raw", {});
});
after(async () => {
  await browser?.close();
  await server?.stop();
  other?.close();
});

/** What a hostile page tries. Each outcome is a text; what was reached begins with "reached". */
async function attack(url) {
  const call = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: {
      name: "lab__raw",
      arguments: {},
      _meta: {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { name: "x", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
      },
    },
  });
  const old = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } },
  });
  const view = JSON.stringify({
    tool: "lab__raw",
    contents: { contents: [{ uri: "ui://lab/raw.html", mimeType: "text/html;profile=mcp-app", text: "<p>" }] },
  });
  const json = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  const tries = {
    page: ["", {}],
    script: ["console/app.js", {}],
    state: ["api/console/state", {}],
    calls: ["api/console/calls", {}],
    messages: ["api/console/messages", {}],
    events: ["api/console/events", {}],
    conversation: ["api/console/conversation", {}],
    session: ["api/console/session", { method: "POST", headers: json, body: '{"code":"x"}' }],
    restart: ["api/console/servers/lab/restart", { method: "POST" }],
    hosting: ["api/console/views", { method: "POST", headers: json, body: view }],
    "hosting without preflight": [
      "api/console/views",
      { method: "POST", headers: { "Content-Type": "text/plain" }, body: view },
    ],
    mcp: [
      "mcp",
      {
        method: "POST",
        headers: { ...json, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "lab__raw" },
        body: call,
      },
    ],
    "mcp without preflight": ["mcp", { method: "POST", headers: { "Content-Type": "text/plain" }, body: call }],
    session_of_mcp: ["mcp", { method: "POST", headers: json, body: old }],
    stream: ["mcp", { headers: { Accept: "text/event-stream" } }],
    api: ["api/tools", {}],
  };
  const outcomes = {};
  for (const [name, [path, options]] of Object.entries(tries)) {
    for (const mode of ["cors", "no-cors"]) {
      if (mode === "no-cors" && name !== "page" && !/without preflight|state|restart|stream/.test(name)) continue;
      outcomes[`${name} ${mode}`] = await fetch(`${url}/${path}`, {
        ...options,
        mode,
        signal: AbortSignal.timeout(3_000),
      }).then(
        async (it) => (it.type === "opaque" ? "opaque" : `${it.ok ? "reached" : "refused"} ${it.status}`),
        () => "blocked",
      );
    }
  }
  outcomes.socket = await new Promise((done) => {
    const socket = new WebSocket(`${url.replace("http", "ws")}/api/console/views/socket`, [
      "marquetry-view",
      "guessed",
    ]);
    socket.onopen = () => done("reached");
    socket.onerror = () => done("blocked");
    setTimeout(() => done("no answer"), 5_000);
  });
  outcomes.frame = await new Promise((done) => {
    const frame = document.createElement("iframe");
    frame.onload = () => {
      try {
        done(frame.contentDocument?.title === "Marquetry" ? "reached" : "blocked");
      } catch {
        done("blocked");
      }
    };
    frame.src = `${url}/`;
    document.body.append(frame);
    setTimeout(() => done("blocked"), 3_000);
  });
  const form = document.createElement("form");
  form.method = "post";
  form.enctype = "text/plain";
  form.action = `${url}/mcp`;
  form.target = "sink";
  const field = document.createElement("input");
  field.name = call.slice(0, -1).replace('"x"', '"form"');
  field.value = "}";
  form.append(field);
  document.body.insertAdjacentHTML("beforeend", '<iframe name="sink"></iframe>');
  document.body.append(form);
  form.submit();
  await new Promise((done) => setTimeout(done, 300));
  return outcomes;
}

/** Runs the attack on a page of `address`, and checks that the server did nothing for it. */
async function nothingHappens(page, url) {
  const before = await (await fetch(`${server.url}/api/console/state`)).json();
  const outcomes = await page.evaluate(`(${attack})(${JSON.stringify(url)})`);
  for (const [name, outcome] of Object.entries(outcomes))
    assert.match(outcome, /^(blocked|refused 40[0-9]|refused 415|opaque)$/, `${name}: ${outcome}`);
  const now = await (await fetch(`${server.url}/api/console/state`)).json();
  assert.equal(now.stats.calls, before.stats.calls, "no tool was called");
  assert.equal(now.server.upstreams[0].restarts, 0);
  return outcomes;
}

test("a page of another port of this machine calls nothing", { timeout: 60_000 }, async () => {
  const page = await (await browser.newContext()).newPage();
  await page.goto(`http://127.0.0.1:${other.address().port}/`);
  await nothingHappens(page, server.url);
  await page.context().close();
});

test("a page of the same port under another name calls nothing", { timeout: 60_000 }, async () => {
  const page = await (await browser.newContext()).newPage();
  await page.goto(`http://localhost:${other.address().port}/`);
  await nothingHappens(page, server.url);
  await page.context().close();
});

test("a page of another host calls nothing", { timeout: 60_000 }, async () => {
  const page = await (await browser.newContext()).newPage();
  await page.goto(`http://evil.example:${other.address().port}/`);
  await nothingHappens(page, server.url);
  await page.context().close();
});

test("a page whose name was bound to this machine calls nothing", { timeout: 60_000 }, async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const rebound = server.url.replace("127.0.0.1", "evil.example");
  // The refusal is a document of the attacker's origin: what a page could do that came from there
  // before its name led here.
  assert.equal((await page.goto(`${rebound}/attack`)).status(), 403);
  const outcomes = await nothingHappens(page, rebound);
  // It is one origin for the browser, so that each answer is read: every door refuses by itself.
  assert.deepEqual(
    Object.entries(outcomes).filter(([name, outcome]) => /(cors)$/.test(name) && !/^refused 40/.test(outcome)),
    [],
  );
  await context.close();
});

test("a View that was opened elsewhere is not shown in another page", { timeout: 60_000 }, async () => {
  // The frame's document says who may have it in a frame: the console alone.
  const opened = await fetch(`${server.url}/api/console/views`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Origin: server.url },
    body: JSON.stringify({
      tool: "lab__raw",
      contents: { contents: [{ uri: "ui://lab/raw.html", mimeType: "text/html;profile=mcp-app", text: "<p>" }] },
    }),
  });
  assert.equal(opened.status, 200);
  const { frame } = await opened.json();
  const page = await (await browser.newContext()).newPage();
  await page.goto(`http://127.0.0.1:${other.address().port}/`);
  const messages = await page.evaluate(
    (url) =>
      new Promise((done) => {
        const got = [];
        addEventListener("message", ({ data }) => got.push(data));
        const it = document.createElement("iframe");
        it.src = url;
        document.body.append(it);
        setTimeout(() => done(got), 1_000);
      }),
    frame,
  );
  assert.deepEqual(messages, [], "the proxy did not start");
  await page.context().close();
});

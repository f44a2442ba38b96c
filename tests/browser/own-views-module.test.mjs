// The View's side of the protocol (crates/views/files/view.js) without a browser: a window that only passes messages.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HostError, PROTOCOL_VERSION, View, applyContext } from "../../crates/views/files/view.js";

const ALL = {
  openLinks: {},
  serverTools: {},
  serverResources: {},
  logging: {},
  message: { text: {} },
  updateModelContext: { text: {} },
  downloadFile: {},
};

/** A window in a frame. `sent` has what the page posted to its parent. */
class FakeWindow {
  sent = [];
  origins = [];
  listeners = new Set();
  parent = {
    postMessage: (message, origin) => {
      this.sent.push(structuredClone(message));
      this.origins.push(origin);
      this.arrived?.();
    },
  };
  addEventListener(name, listener) {
    assert.equal(name, "message");
    this.listeners.add(listener);
  }
  removeEventListener(_name, listener) {
    this.listeners.delete(listener);
  }
  deliver(data, { source = this.parent, origin = "https://host.example" } = {}) {
    for (const listener of [...this.listeners]) listener({ data, source, origin });
  }
  /** Waits for a message that fits. */
  async next(fits) {
    for (;;) {
      const at = this.sent.findIndex(fits);
      if (at >= 0) return this.sent.splice(at, 1)[0];
      await new Promise((resolve) => (this.arrived = resolve));
    }
  }
  request(method) {
    return this.next((message) => message.method === method && message.id !== undefined);
  }
  answer(request, result) {
    this.deliver({ jsonrpc: "2.0", id: request.id, result });
  }
  refuse(request, code, message) {
    this.deliver({ jsonrpc: "2.0", id: request.id, error: { code, message } });
  }
}

async function connected({ capabilities = ALL, hostContext = {}, ...options } = {}) {
  const window = new FakeWindow();
  const view = new View({ name: "test", version: "1.2.3", displayModes: ["inline", "fullscreen"], window, ...options });
  options.before?.(view);
  const connecting = view.connect();
  const request = await window.request("ui/initialize");
  window.answer(request, {
    protocolVersion: PROTOCOL_VERSION,
    hostInfo: { name: "host", version: "1" },
    hostCapabilities: capabilities,
    hostContext,
  });
  await connecting;
  return { window, view, request };
}

const refusal = (reason, code) => (error) =>
  error instanceof HostError && error.reason === reason && error.code === code;

test("the handshake has all members, and initialized follows the answer", async () => {
  const { window, view, request } = await connected({ hostContext: { theme: "dark" } });
  assert.deepEqual(request.params, {
    appInfo: { name: "test", version: "1.2.3" },
    appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
    protocolVersion: "2026-01-26",
  });
  assert.deepEqual(window.sent, [{ jsonrpc: "2.0", method: "ui/notifications/initialized", params: {} }]);
  assert.equal(view.hostInfo.name, "host");
  assert.equal(view.hostContext.theme, "dark");
  assert.ok(view.isConnected);
});

test("nothing but the handshake is sent before the host has answered", async () => {
  const window = new FakeWindow();
  const view = new View({ name: "test", version: "1", window });
  const connecting = view.connect();
  view.reportSize(1, 2);
  view.log("info", "early");
  await assert.rejects(view.request("tools/list"), refusal("closed", undefined));
  assert.deepEqual(
    window.sent.map((message) => message.method),
    ["ui/initialize"],
  );
  view.close();
  await assert.rejects(connecting, refusal("closed", undefined));
});

test("a page without a host, a host of another version and a host that refuses are errors", async () => {
  const alone = {};
  alone.parent = alone;
  await assert.rejects(new View({ name: "t", version: "1", window: alone }).connect(), refusal("no-host", undefined));
  for (const [answer, reason] of [
    [{ protocolVersion: "2030-01-01", hostContext: {} }, "unsupported"],
    [{}, "unsupported"],
  ]) {
    const window = new FakeWindow();
    const view = new View({ name: "t", version: "1", window });
    const connecting = view.connect();
    window.answer(await window.request("ui/initialize"), answer);
    await assert.rejects(connecting, refusal(reason, undefined));
    assert.equal(window.listeners.size, 0);
    await assert.rejects(view.connect(), refusal("closed", undefined));
  }
  const window = new FakeWindow();
  const connecting = new View({ name: "t", version: "1", window }).connect();
  window.refuse(await window.request("ui/initialize"), -32603, "no");
  await assert.rejects(connecting, refusal("refused", -32603));
});

test("a host that does not answer the handshake is given up", async () => {
  const window = new FakeWindow();
  const view = new View({ name: "t", version: "1", window, timeoutMs: 10 });
  await assert.rejects(view.connect(), refusal("timeout", undefined));
});

test("input, partial input, result and cancellation come in order", async () => {
  const events = [];
  const { window } = await connected({
    before: (view) => {
      for (const name of ["partial-input", "input", "result", "cancelled", "list-changed"])
        view.on(name, (value) => void events.push([name, value]));
    },
  });
  const send = (method, params) => window.deliver({ jsonrpc: "2.0", method, params });
  send("ui/notifications/tool-input-partial", { arguments: { a: 1 } });
  send("ui/notifications/tool-input", { arguments: { a: 1, b: 2 } });
  send("ui/notifications/tool-input", {});
  send("ui/notifications/tool-result", { content: [], structuredContent: { x: 1 } });
  send("ui/notifications/tool-cancelled", {});
  send("notifications/tools/list_changed");
  send("ui/notifications/unknown", {});
  assert.deepEqual(events, [
    ["partial-input", { a: 1 }],
    ["input", { a: 1, b: 2 }],
    ["input", {}],
    ["result", { content: [], structuredContent: { x: 1 } }],
    ["cancelled", undefined],
    ["list-changed", "tools"],
  ]);
});

test("a handler that fails keeps no other from its turn, and is logged", async (context) => {
  context.mock.method(console, "error", () => {});
  const seen = [];
  const { window } = await connected({
    before: (view) =>
      view
        .on("result", () => {
          throw new Error("broken");
        })
        .on("result", () => void seen.push("second")),
  });
  window.deliver({ jsonrpc: "2.0", method: "ui/notifications/tool-result", params: { content: [] } });
  assert.deepEqual(seen, ["second"]);
  const log = await window.next((message) => message.method === "notifications/message");
  assert.deepEqual(log.params, { level: "error", logger: "test", data: "result: broken" });
});

test("messages of other windows, of other origins and of other forms are ignored", async () => {
  const events = [];
  const { window } = await connected({ before: (view) => view.on("input", (value) => void events.push(value)) });
  const input = { jsonrpc: "2.0", method: "ui/notifications/tool-input", params: { arguments: {} } };
  window.deliver(input, { source: {} });
  window.deliver(input, { source: null });
  window.deliver(input, { origin: "https://evil.example" });
  for (const data of [
    null,
    undefined,
    "text",
    7,
    [],
    {},
    { ...input, jsonrpc: "1.0" },
    { jsonrpc: "2.0" },
    { jsonrpc: "2.0", method: 7 },
    { jsonrpc: "2.0", id: null, result: {} },
  ])
    window.deliver(data);
  assert.deepEqual(events, []);
  window.deliver({ jsonrpc: "2.0", method: "ui/notifications/tool-input", params: 7 });
  assert.deepEqual(events, [{}]);
});

test("after the handshake only the host's origin is talked to; a host without an origin gets all", async () => {
  const { window, view } = await connected();
  assert.deepEqual(window.origins, ["*", "https://host.example"]);
  view.reportSize(1, 2);
  assert.equal(window.origins.at(-1), "https://host.example");
  const opaque = new FakeWindow();
  const other = new View({ name: "t", version: "1", window: opaque });
  const connecting = other.connect();
  const request = await opaque.request("ui/initialize");
  opaque.deliver(
    { jsonrpc: "2.0", id: request.id, result: { protocolVersion: PROTOCOL_VERSION, hostContext: {} } },
    { origin: "null" },
  );
  await connecting;
  assert.deepEqual(opaque.origins, ["*", "*"]);
});

test("requests of the host are answered, also those with the id 0; an answer of ours and a request of theirs may have one id", async () => {
  const { window, view } = await connected();
  window.sent.length = 0;
  window.deliver({ jsonrpc: "2.0", id: 0, method: "ping" });
  assert.deepEqual(window.sent.pop(), { jsonrpc: "2.0", id: 0, result: {} });
  window.deliver({ jsonrpc: "2.0", id: "x", method: "tools/call", params: {} });
  assert.equal(window.sent.pop().error.code, -32601);
  const call = view.callTool("t");
  const { id } = await window.request("tools/call");
  window.deliver({ jsonrpc: "2.0", id, method: "ping" });
  assert.deepEqual(window.sent.pop(), { jsonrpc: "2.0", id, result: {} });
  window.deliver({ jsonrpc: "2.0", id, result: { content: [] } });
  assert.deepEqual(await call, { content: [] });
});

test("a tool call carries a progress token, and progress starts its time again", async () => {
  const { window, view } = await connected({ timeoutMs: 60 });
  const progress = [];
  const call = view.callTool("slow", { a: 1 }, { onProgress: (params) => progress.push(params.progress) });
  const request = await window.request("tools/call");
  assert.deepEqual(request.params, { name: "slow", arguments: { a: 1 }, _meta: { progressToken: request.id } });
  for (let step = 1; step <= 3; step++) {
    await new Promise((resolve) => setTimeout(resolve, 35));
    window.deliver({
      jsonrpc: "2.0",
      method: "notifications/progress",
      params: { progressToken: request.id, progress: step },
    });
  }
  window.answer(request, { content: [], isError: true });
  assert.deepEqual(await call, { content: [], isError: true });
  assert.deepEqual(progress, [1, 2, 3]);
});

test("a request that is not answered, or is cancelled, is told to the host", async () => {
  const { window, view } = await connected({ timeoutMs: 15 });
  const late = view.callTool("late");
  const request = await window.request("tools/call");
  await assert.rejects(late, refusal("timeout", undefined));
  const cancelled = await window.next((message) => message.method === "notifications/cancelled");
  assert.equal(cancelled.params.requestId, request.id);
  window.answer(request, {});
  const controller = new AbortController();
  const stopped = view.readResource("ui://x", { signal: controller.signal, timeoutMs: 0 });
  const second = await window.request("resources/read");
  controller.abort();
  await assert.rejects(stopped, refusal("cancelled", undefined));
  assert.equal(
    (await window.next((message) => message.method === "notifications/cancelled")).params.requestId,
    second.id,
  );
  await assert.rejects(view.readResource("ui://x", { signal: controller.signal }), refusal("cancelled", undefined));
});

test("the number of requests in flight is bounded, and what cannot be cloned is refused", async () => {
  const { window, view } = await connected();
  await assert.rejects(view.callTool("t", { f: () => {} }), refusal("refused", undefined));
  const calls = Array.from({ length: 64 }, () => view.callTool("t").catch((error) => error.reason));
  await assert.rejects(view.callTool("t"), refusal("refused", undefined));
  view.close();
  assert.deepEqual(new Set(await Promise.all(calls)), new Set(["closed"]));
  assert.equal(window.listeners.size, 0);
});

test("what the host does not offer is not asked for", async () => {
  const { window, view } = await connected({
    capabilities: { openLinks: {} },
    hostContext: { availableDisplayModes: ["inline"] },
  });
  window.sent.length = 0;
  for (const work of [
    () => view.callTool("t"),
    () => view.listTools(),
    () => view.readResource("x"),
    () => view.listResources(),
    () => view.sendMessage("x"),
    () => view.setModelContext({}),
    () => view.downloadFile([]),
  ]) {
    await assert.rejects(work(), refusal("unsupported", undefined));
  }
  assert.equal(await view.requestDisplayMode("fullscreen"), "inline");
  assert.equal(await view.requestDisplayMode("pip"), "inline");
  view.log("info", "nobody reads it");
  assert.deepEqual(window.sent, []);
  assert.equal(view.can("openLinks"), true);
  assert.equal(view.can("openLinks.x"), false);
  assert.equal(view.can("constructor"), false);
});

test("links, messages, context, files and display modes have their forms, and isError is a refusal", async () => {
  const { window, view } = await connected({ hostContext: { availableDisplayModes: ["inline", "fullscreen"] } });
  const check = async (work, method, params, result = {}) => {
    const done = work();
    const request = await window.request(method);
    assert.deepEqual(request.params, params);
    window.answer(request, result);
    return done;
  };
  await check(() => view.openLink("https://a.example/"), "ui/open-link", { url: "https://a.example/" });
  await check(() => view.sendMessage("hi"), "ui/message", { role: "user", content: [{ type: "text", text: "hi" }] });
  await check(() => view.setModelContext({ content: "x", structuredContent: { a: 1 } }), "ui/update-model-context", {
    content: [{ type: "text", text: "x" }],
    structuredContent: { a: 1 },
  });
  await check(() => view.setModelContext(), "ui/update-model-context", {});
  const file = { type: "resource", resource: { uri: "file:///a", text: "a" } };
  await check(() => view.downloadFile([file]), "ui/download-file", { contents: [file] });
  for (const [work, method, params] of [
    [() => view.openLink("x"), "ui/open-link", { url: "x" }],
    [() => view.sendMessage([]), "ui/message", { role: "user", content: [] }],
    [() => view.downloadFile([]), "ui/download-file", { contents: [] }],
  ]) {
    await assert.rejects(check(work, method, params, { isError: true }), refusal("refused", -32000));
  }
  assert.equal(
    await check(
      () => view.requestDisplayMode("fullscreen"),
      "ui/request-display-mode",
      { mode: "fullscreen" },
      { mode: "fullscreen" },
    ),
    "fullscreen",
  );
  assert.equal(view.hostContext.displayMode, "fullscreen");
  // The host may choose another mode than the one that was asked for.
  assert.equal(
    await check(
      () => view.requestDisplayMode("inline"),
      "ui/request-display-mode",
      { mode: "inline" },
      { mode: "fullscreen" },
    ),
    "fullscreen",
  );
});

test("lists are read page by page", async () => {
  const { window, view } = await connected();
  const listing = view.listTools();
  window.answer(await window.request("tools/list"), { tools: [{ name: "a" }], nextCursor: "2" });
  const second = await window.request("tools/list");
  assert.deepEqual(second.params, { cursor: "2" });
  window.answer(second, { tools: [{ name: "b" }] });
  assert.deepEqual(
    (await listing).map((tool) => tool.name),
    ["a", "b"],
  );
});

// seed: 001/mcp-apps-life-07
test("a change of the context replaces its members and keeps the others", async () => {
  const changes = [];
  const { window, view } = await connected({
    hostContext: { theme: "light", styles: { variables: { "--a": "1" } } },
    before: (view) => view.on("context", (_context, change) => void changes.push(change)),
  });
  window.deliver({
    jsonrpc: "2.0",
    method: "ui/notifications/host-context-changed",
    params: { theme: "dark", unknown: 1 },
  });
  assert.deepEqual(view.hostContext, { theme: "dark", styles: { variables: { "--a": "1" } }, unknown: 1 });
  assert.deepEqual(changes.at(-1), { theme: "dark", unknown: 1 });
});

test("teardown waits for its handlers, is answered once, and ends all", async () => {
  let finish;
  const { window, view } = await connected({
    before: (view) => view.on("teardown", () => new Promise((resolve) => (finish = resolve))),
  });
  const call = view.callTool("t");
  await window.request("tools/call");
  window.sent.length = 0;
  window.deliver({ jsonrpc: "2.0", id: 9, method: "ui/resource-teardown", params: { reason: "closed" } });
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(window.sent, []);
  finish();
  await assert.rejects(call, refusal("closed", undefined));
  assert.deepEqual(window.sent, [{ jsonrpc: "2.0", id: 9, result: {} }]);
  assert.equal(view.isConnected, false);
  assert.equal(window.listeners.size, 0);
  view.reportSize(1, 1);
  assert.equal(window.sent.length, 1);
});

test("a handler of teardown that never ends does not hold up the host for ever", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { window } = await connected({ before: (view) => view.on("teardown", () => new Promise(() => {})) });
  window.deliver({ jsonrpc: "2.0", id: 9, method: "ui/resource-teardown", params: {} });
  context.mock.timers.tick(1_000);
  assert.deepEqual(await window.next((message) => message.id === 9), { jsonrpc: "2.0", id: 9, result: {} });
});

test("the context is applied to a document: theme, variables, fonts once, insets, display mode", () => {
  const style = { properties: {}, setProperty: (name, value) => (style.properties[name] = value) };
  const attributes = new Set();
  const head = [];
  const root = {
    dataset: {},
    style,
    toggleAttribute: (name, isOn) => (isOn ? attributes.add(name) : attributes.delete(name)),
  };
  const document = {
    documentElement: root,
    head: { append: (it) => head.push(it) },
    getElementById: (id) => head.find((it) => it.id === id),
    createElement: () => ({}),
  };
  const context = {
    theme: "dark",
    styles: {
      variables: { "--color-text-primary": "red", color: "blue", "--bad": 7 },
      css: { fonts: "@font-face {}" },
    },
    safeAreaInsets: { top: 4, right: 0, bottom: 0, left: 0 },
    displayMode: "fullscreen",
    locale: "de-DE",
  };
  applyContext(document, context);
  applyContext(document, context);
  assert.equal(root.dataset.theme, "dark");
  assert.equal(style.colorScheme, "dark");
  assert.equal(style.properties["--color-text-primary"], "red");
  assert.equal(style.properties["--inset-top"], "4px");
  assert.ok(!("color" in style.properties) && !("--bad" in style.properties));
  assert.equal(head.length, 1);
  assert.ok(attributes.has("data-fill"));
  applyContext(document, { containerDimensions: { maxHeight: 500 }, locale: "no such locale!" });
  assert.ok(!attributes.has("data-fill"));
  assert.equal(root.dataset.locale, "de-DE");
  applyContext(document, { containerDimensions: { height: 500 } });
  assert.ok(attributes.has("data-fill"));
});

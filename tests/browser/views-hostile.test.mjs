// What a hostile View sends to its host: floods, wrong JSON-RPC, messages without end, forged
// messages of the sandbox. Each is refused and logged, and the page goes on.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, openPage, startBrowser, startServer } from "./support.mjs";
import { labUpstream, openLabView, openRawView } from "./views-lab.mjs";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([startServer({ servers: { lab: labUpstream() } }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const opened = () => openPage(browser, server);
const refusals = async (view) => (await view.audit()).filter((it) => it.verdict.is !== "accepted");

test("wrong JSON-RPC is refused and logged, and the View goes on", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  await view.frame.evaluate(() => {
    const deep = {};
    let at = deep;
    for (let level = 0; level < 5_000; level += 1) {
      at.x = {};
      at = at.x;
    }
    const circle = {};
    circle.circle = circle;
    const wrong = [
      "text",
      '{"jsonrpc":"2.0","id":1,"method":"ping"}',
      7,
      true,
      null,
      undefined,
      [],
      [{ jsonrpc: "2.0", id: 1, method: "ping" }],
      {},
      { jsonrpc: "2.0" },
      { jsonrpc: "1.0", id: 1, method: "ping" },
      { id: 1, method: "ping" },
      { jsonrpc: "2.0", id: null, method: "ping" },
      { jsonrpc: "2.0", id: {}, method: "ping" },
      { jsonrpc: "2.0", id: 1.5, method: "ping" },
      { jsonrpc: "2.0", id: NaN, method: "ping" },
      { jsonrpc: "2.0", id: 1, method: 5 },
      { jsonrpc: "2.0", id: 1, method: "ping", params: 5 },
      { jsonrpc: "2.0", id: 1, method: "ping", result: {} },
      { jsonrpc: "2.0", id: 1, result: {}, error: { code: 1, message: "" } },
      { jsonrpc: "2.0", id: 99_999, result: {} },
      { jsonrpc: "2.0", id: 99_998, error: { code: "x" } },
      { jsonrpc: "2.0", id: 2, method: "ping", params: deep },
      circle,
      new Map([["a", 1]]),
      new Uint8Array(8),
      10n,
      new Date(0),
      /x/,
      { toJSON: "x", jsonrpc: "2.0" },
      new Blob(["x"]),
      { jsonrpc: "2.0", id: "x".repeat(100_000), method: "ping" },
      { jsonrpc: "2.0", id: 3, method: "m".repeat(100_000) },
      { jsonrpc: "2.0", method: "__proto__", params: { constructor: { prototype: {} } } },
      JSON.parse('{"__proto__": {"isAdmin": true}, "jsonrpc": "2.0", "method": "ping", "id": 4}'),
    ];
    for (const it of wrong) {
      try {
        send(it);
      } catch {
        /* What cannot be cloned is not sent. */
      }
    }
  });
  assert.deepEqual((await view.frame.evaluate(() => ask("ping"))).result, {});
  assert.ok((await refusals(view)).length >= 15, `${(await refusals(view)).length} are in the log`);
  assert.equal(await page.evaluate(() => ({}).isAdmin), undefined);
  assert.equal(await view.isThere(), true);
  assert.deepEqual(
    page.problems.filter((it) => !/^foreign request: .*\/view\//.test(it)),
    [],
  );
  await page.context().close();
});

// X8
test("requests before the handshake are refused, and notifications before it change nothing", {
  timeout: 60_000,
}, async () => {
  const page = await opened();
  const view = await openLabView(page, server, "lab__raw");
  const early = await view.frame.evaluate(async () => {
    send({ jsonrpc: "2.0", method: "ui/notifications/initialized", params: {} });
    send({ jsonrpc: "2.0", method: "ui/notifications/size-changed", params: { height: 4_000 } });
    const answers = [];
    for (const [method, params] of [
      ["tools/call", { name: "helper" }],
      ["ui/open-link", { url: "https://example.com/" }],
      ["ui/message", { role: "user", content: [{ type: "text", text: "x" }] }],
      ["resources/read", { uri: "ui://lab/raw.html" }],
      ["ui/request-display-mode", { mode: "fullscreen" }],
    ])
      answers.push([method, await ask(method, params)]);
    return answers;
  });
  for (const [method, { error, result }] of early)
    assert.equal(error?.code, -32600, `${method}: ${JSON.stringify(result ?? error)}`);
  assert.equal(await page.locator("dialog[open]").count(), 0);
  // Nothing was said to the View before its own handshake.
  assert.deepEqual(
    (await view.frame.evaluate(() => got)).filter(({ data }) => data.method !== undefined),
    [],
  );
  const { result } = await view.frame.evaluate(() => start());
  assert.ok(result.hostContext);
  await view.frame.waitForFunction(
    () => got.some(({ data }) => data.method === "ui/notifications/tool-input"),
    undefined,
    { polling: 50 },
  );
  assert.equal(
    (await view.frame.evaluate(() => got)).filter(({ data }) => data.method === "ui/notifications/tool-input").length,
    1,
  );
  await page.context().close();
});

// X7, X9; `sandbox-message-forwarding`, `sandbox-no-self-requests`
test("forged messages of the sandbox change nothing", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  await view.frame.evaluate(async () => {
    for (const target of [parent, top]) {
      for (const method of ["sandbox-proxy-ready", "sandbox-resource-ready", "sandbox-other"])
        target.postMessage(
          {
            jsonrpc: "2.0",
            method: `ui/notifications/${method}`,
            params: { html: "<h1 id=forged>", sandbox: "allow-scripts allow-same-origin" },
          },
          "*",
        );
      target.postMessage({ jsonrpc: "2.0", id: 50, method: "ui/notifications/sandbox-proxy-ready" }, "*");
    }
    // The console itself takes nothing from the inner frame.
    top.postMessage({ jsonrpc: "2.0", id: 51, method: "ui/open-link", params: { url: "https://evil.example/" } }, "*");
    top.postMessage({ message: { jsonrpc: "2.0", id: 52, method: "ping" } }, "*");
    await ask("ping");
  });
  assert.equal(await view.isThere(), true);
  assert.equal(
    await view.proxy.evaluate(() => document.querySelectorAll("iframe").length),
    1,
    "the HTML is loaded once",
  );
  assert.equal(await view.frame.evaluate(() => document.getElementById("forged")), null);
  assert.equal(await page.locator("dialog[open]").count(), 0);
  assert.equal(
    (await view.audit()).filter(
      (it) => it.method?.startsWith("ui/notifications/sandbox-") && it.direction === "from-view",
    ).length,
    0,
    "the proxy keeps them",
  );
  await page.context().close();
});

test("a message of 100 MB is refused, and the View goes on", { timeout: 120_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  const answer = await view.frame.evaluate(async () => {
    send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "x".repeat(100 << 20) } });
    return ask("ui/update-model-context", { content: [{ type: "text", text: "y".repeat(100 << 20) }] });
  });
  assert.ok(answer.error, "the request is answered with an error");
  const large = (await refusals(view)).filter((it) => it.bytes > 100 << 20);
  assert.equal(large.length, 2, "both are in the log, with their sizes");
  assert.deepEqual((await view.frame.evaluate(() => ask("ping"))).result, {});
  const { context } = await (await fetch(`${server.url}/api/console/conversation`)).json();
  assert.deepEqual(context, []);
  await page.context().close();
});

for (const [where, flood] of Object.entries({
  "its host": () => {
    const more = () => {
      for (let at = 0; at < 200; at += 1)
        send({ jsonrpc: "2.0", id: `f${at}`, method: "tools/call", params: { name: "helper", arguments: {} } });
      setTimeout(more, 0);
    };
    more();
  },
  "the page, past its host": () => {
    const more = () => {
      for (let at = 0; at < 200; at += 1) top.postMessage({ jsonrpc: "2.0", id: at, method: "ping" }, "*");
      setTimeout(more, 0);
    };
    more();
  },
  "its host, from a frame": () => {
    const inner = document.createElement("iframe");
    inner.srcdoc =
      '<script>setInterval(() => { for (let at = 0; at < 200; at += 1) parent.parent.postMessage(at, "*"); }, 0)</script>';
    document.body.append(inner);
  },
})) {
  test(`a View that floods ${where} is removed, and neither the page nor another View waits for it`, {
    timeout: 180_000,
  }, async () => {
    const page = await opened();
    const calm = await openRawView(page, server);
    const wild = await openRawView(page, server);
    const before = (await (await fetch(`${server.url}/api/console/state`)).json()).stats.calls;
    await wild.frame.evaluate(flood);
    // A slow machine needs its time: the browser takes every message in the order of its arrival.
    await wild.isGone(90_000);
    assert.deepEqual(await wild.told("error"), ["The View was removed: it sends too many messages."]);
    assert.deepEqual((await calm.frame.evaluate(() => ask("ping"))).result, {});
    const { stats } = await (await fetch(`${server.url}/api/console/state`)).json();
    assert.ok(stats.calls - before < 600, `${stats.calls - before} calls reached tools`);
    await go(page, "#/messages");
    await page.context().close();
  });
}

test("a View that makes its script run for ever is closed like any other", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  await view.frame.evaluate(() => {
    setTimeout(() => {
      for (;;) {
        /* never ends */
      }
    }, 0);
  });
  await page.waitForTimeout(200);
  await view.handle("(it) => it.close()");
  await view.isGone();
  await go(page, "#/calls");
  await page.context().close();
});

test("a View that loads another document ends", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  await view.frame.evaluate(() => {
    setTimeout(() => {
      location.href = 'data:text/html,<script>parent.postMessage({jsonrpc:"2.0",id:1,method:"ping"},"*")</script>';
    }, 0);
  });
  // The policy of its proxy lets no document into the frame, and the View is removed.
  await view.isGone();
  assert.deepEqual(await view.told("error"), ["The View left its document."]);
  assert.equal((await view.audit()).filter((it) => it.direction === "from-view" && it.id === "1").length, 0);
  await page.context().close();
});

test("sizes without measure leave the page as it is", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  for (const params of [
    { height: 1e308, width: 1e308 },
    { height: -5 },
    { height: "calc(100vh)" },
    { height: null },
    { height: 5, width: "10px;position:fixed" },
  ]) {
    await view.frame.evaluate(
      (params) => send({ jsonrpc: "2.0", method: "ui/notifications/size-changed", params }),
      params,
    );
  }
  await view.frame.evaluate(() => ask("ping"));
  const style = await page.locator("main iframe").getAttribute("style");
  const box = await page.locator("main iframe").boundingBox();
  assert.ok(box.height <= 10_001 && box.width <= 1280, `${JSON.stringify(box)} ${style}`);
  assert.doesNotMatch(style ?? "", /fixed|calc/);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  await page.context().close();
});

test("links of a View are opened after consent, and only those of the web", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  const dialog = page.locator("dialog[open]");
  for (const url of [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "blob:null/1",
    "ftp://a/",
    "view-source:http://a/",
    "about:blank",
    "http://",
    "//a",
    "",
    "http://user:word@a/",
    7,
    null,
  ]) {
    const { error } = await view.frame.evaluate((url) => ask("ui/open-link", { url }), url);
    if (error === undefined || (await dialog.count()) > 0) assert.fail(`${url} is not refused`);
  }
  await view.frame.evaluate(() => {
    globalThis.open1 = ask("ui/open-link", { url: "https://example.com/\u202E<b>x</b>" });
  });
  await dialog.waitFor();
  assert.equal(await dialog.locator("b, script").count(), 0);
  await page.keyboard.press("Escape");
  assert.match(JSON.stringify(await view.frame.evaluate(() => globalThis.open1)), /denied/i);
  // Many questions at once do not bury the page: one is shown at a time.
  await view.frame.evaluate(() => {
    globalThis.many = Promise.all(
      Array.from({ length: 20 }, (_, at) => ask("ui/open-link", { url: `https://example.com/${at}` })),
    );
  });
  await dialog.first().waitFor();
  assert.ok((await dialog.count()) <= 1, `${await dialog.count()} dialogs are open`);
  await page.context().close();
});

test("a click that was meant for the View agrees to nothing", { timeout: 60_000 }, async () => {
  const page = await opened();
  const popups = [];
  page.on("popup", (popup) => popups.push(popup.url()));
  const view = await openRawView(page, server);
  const dialog = page.locator("dialog[open]");
  const yes = dialog.getByRole("button", { name: "Open the link" });
  const askToOpen = () =>
    view.frame.evaluate(() => {
      globalThis.open1 = ask("ui/open-link", { url: "https://example.com/" });
    });
  await askToOpen();
  const { x, y, width, height } = await yes.boundingBox();
  await page.keyboard.press("Escape");
  // The View has made the user click again and again where the button appears.
  await askToOpen();
  await dialog.waitFor();
  for (let clicks = 0; clicks < 4; clicks += 1) {
    await page.mouse.click(x + width / 2, y + height / 2);
    assert.equal(await dialog.count(), 1, `the dialog is closed by click ${clicks}`);
    await page.waitForTimeout(300);
  }
  assert.deepEqual(popups, []);
  // A click after the question could be read counts.
  await yes.click();
  await dialog.waitFor({ state: "detached" });
  assert.equal((await view.frame.evaluate(() => globalThis.open1)).error, undefined);
  await page.context().close();
});

// Views and their frames: sizes, what their policy allows and blocks, and the values that they get.

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { findings, go, openPage, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
before(async () => {
  const sizes = {
    command: process.execPath,
    args: [fileURLToPath(new URL("views-sizes-upstream.mjs", import.meta.url))],
  };
  [server, browser] = await Promise.all([startServer({ servers: { sizes } }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Runs a tool from its page, and opens its View. Returns the page and the View's document. */
async function openOwn(tool, options) {
  const page = await openPage(browser, server, `#/tools/sizes__${tool}`, options);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("tab", { name: "View", exact: true }).click();
  const view = page.frameLocator("main iframe").frameLocator("iframe").locator("body");
  await view.filter({ hasText: "ready" }).waitFor({ timeout: 20_000 });
  return { page, view };
}

const heightOf = (page) => page.locator("main iframe").evaluate((it) => it.clientHeight);
const messages = (view, method) =>
  view.evaluate((_, method) => got.filter((it) => it.method === method).map((it) => it.params), method);

for (const [tool, most] of [
  ["margin", 600],
  ["factor", 1_400],
  ["polling", 600],
]) {
  test(`a View whose content follows its frame comes to rest: ${tool}`, { timeout: 60_000 }, async () => {
    const { page } = await openOwn(tool);
    let last;
    for (let same = 0, at = 0; same < 12; at += 1) {
      assert.ok(at < 150, `it has not come to rest: ${last}`);
      await page.waitForTimeout(150);
      const now = await heightOf(page);
      // It stands still, too, before its content has come.
      same = now === last && now >= 320 ? same + 1 : 0;
      last = now;
    }
    assert.ok(last >= 320 && last <= most, String(last));
    await page.context().close();
  });
}

test("a View that grows by itself is followed", { timeout: 60_000 }, async () => {
  const { page, view } = await openOwn("plain");
  await view.evaluate(async () => {
    for (let line = 0; line < 40; line += 1) {
      const added = document.createElement("div");
      added.style.height = "30px";
      document.body.append(added);
      await new Promise((done) => setTimeout(done, 30));
    }
  });
  await page.waitForFunction(
    (wanted) => document.querySelector("main iframe").clientHeight >= wanted,
    await view.evaluate(() => document.documentElement.scrollHeight),
  );
  assert.ok((await heightOf(page)) >= 1_200);
  await page.context().close();
});

for (const width of [1280, 390]) {
  test(`the sizes that a View is told are those of its frame, ${width} px`, { timeout: 60_000 }, async () => {
    const { page, view } = await openOwn("plain", { width });
    const told = async () => {
      const changes = await messages(view, "ui/notifications/host-context-changed");
      const first = await view.evaluate(() => initialized.hostContext);
      return [first, ...changes]
        .map((it) => it.containerDimensions)
        .filter(Boolean)
        .at(-1);
    };
    const isTold = async (what, names) => {
      const inner = () => view.evaluate(() => ({ width: innerWidth, height: innerHeight }));
      for (let at = 0; at < 60; at += 1) {
        const [dimensions, frame] = [await told(), await inner()];
        if (names.every((name) => dimensions[name] === frame[name])) return;
        await page.waitForTimeout(50);
      }
      assert.deepEqual(await told(), await inner(), what);
    };
    await isTold("in the page", ["width"]);
    await view.evaluate(() => ask("ui/request-display-mode", { mode: "fullscreen" }));
    await page.waitForSelector(".view[data-mode=fullscreen]");
    await isTold("in full screen", ["width", "height"]);
    await page.setViewportSize({ width: width - 40, height: 600 });
    await isTold("in a smaller window", ["width", "height"]);
    // A question below the View takes a part of its room.
    await page.evaluate(() => {
      const question = document.createElement("div");
      question.style.height = "150px";
      question.style.flex = "none";
      document.querySelector(".view").append(question);
    });
    await isTold("beside a question", ["width", "height"]);
    await page.keyboard.press("Escape");
    await page.waitForSelector(".view[data-mode=inline]");
    await isTold("back in the page", ["width"]);
    await page.context().close();
  });
}

for (const tool of ["small", "picture", "long", "structured", "failing"]) {
  test(`the View of a call of the page gets its result as the server gave it: ${tool}`, {
    timeout: 60_000,
  }, async () => {
    const { page, view } = await openOwn(tool);
    await view.evaluate(async () => {
      while (!got.some((it) => it.method === "ui/notifications/tool-result"))
        await new Promise((done) => setTimeout(done, 20));
    });
    const [{ structuredContent, content, _meta }] = await messages(view, "ui/notifications/tool-result");
    assert.equal(structuredContent.nextPageToken, "page-2");
    assert.equal(_meta.sessionId, "s-1");
    assert.ok(!JSON.stringify(content).includes("marquetry"), "nothing is cut or saved for a View");
    assert.doesNotMatch(JSON.stringify([content, structuredContent]), /\(hidden\)/);
    // The record of the call, opened by its link, has no secrets.
    const id = (await page.locator(".output a", { hasText: "Its record" }).getAttribute("href")).split("/").at(-1);
    await go(page, `#/calls/${id}?tab=result`);
    assert.doesNotMatch(await page.locator("main").innerText(), /page-2/);
    await page.context().close();
  });
}

test("a font and a worker inside of the document work, under its policy", { timeout: 60_000 }, async () => {
  const { page, view } = await openOwn("plain");
  const outcomes = await view.evaluate(async () => {
    const blocked = [];
    addEventListener("securitypolicyviolation", (event) =>
      blocked.push(`${event.effectiveDirective} ${event.blockedURI}`),
    );
    const face = new FontFace("x", "url(data:font/woff2;base64,AAAA)");
    await face.load().catch(() => {});
    const script = "fetch('http://127.0.0.1:9/x').then(() => postMessage('reached'), () => postMessage('blocked'))";
    const said = {};
    const urls = {
      blob: URL.createObjectURL(new Blob([script], { type: "text/javascript" })),
      data: `data:text/javascript,${encodeURIComponent(script)}`,
    };
    for (const [name, url] of Object.entries(urls))
      said[name] = await new Promise((done) => {
        const worker = new Worker(url);
        worker.onmessage = ({ data }) => done(data);
        worker.onerror = () => done("no worker");
      });
    return { blocked: blocked.filter((it) => !/^connect-src/.test(it)), said };
  });
  assert.deepEqual(outcomes, { blocked: [], said: { blob: "blocked", data: "blocked" } });
  await page.context().close();
});

test("what the policy blocks is listed below the View, with the line to declare", { timeout: 60_000 }, async () => {
  const { page, view } = await openOwn("plain");
  await view.evaluate(async () => {
    for (let times = 0; times < 3; times += 1) await fetch(`http://127.0.0.1:9/a?secret=${times}`).catch(() => {});
    const image = new Image();
    image.src = "http://127.0.0.1:9/picture.png";
    await new Promise((done) => {
      image.onerror = done;
    });
  });
  const list = page.getByRole("status", { name: "Blocked by the policy of the View" });
  await list.locator("li").nth(1).waitFor();
  assert.deepEqual((await list.locator("li").allInnerTexts()).sort(), [
    'The policy blocks http://127.0.0.1:9 (connect-src). To allow it, the server declares in _meta.ui of the View: {"csp":{"connectDomains":["http://127.0.0.1:9"]}}',
    'The policy blocks http://127.0.0.1:9 (img-src). To allow it, the server declares in _meta.ui of the View: {"csp":{"resourceDomains":["http://127.0.0.1:9"]}}',
  ]);
  assert.deepEqual(await findings(page), []);
  await page.context().close();
});

test("the state of a call changes while its View is open, and the View stays", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/");
  const answer = fetch(`${server.url}/mcp/v1/tools/call`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ name: "sizes__slow", arguments: {} }),
  });
  let call;
  while (!call) {
    const { calls } = await (await fetch(`${server.url}/api/console/calls`)).json();
    call = calls.find((it) => it.tool === "sizes__slow" && it.outcome === "running");
  }
  await go(page, `#/calls/${call.id}?tab=view`);
  const view = page.frameLocator("main iframe").frameLocator("iframe").locator("body");
  await view.filter({ hasText: "ready" }).waitFor();
  await view.evaluate(() => {
    globalThis.isSame = true;
  });
  await page.locator("main .badge", { hasText: "running" }).waitFor();
  await answer;
  await page.locator("main .badge.ok").waitFor();
  assert.equal(await page.locator("main .badge", { hasText: "running" }).count(), 0);
  assert.equal(await view.evaluate(() => globalThis.isSame), true);
  await page.getByRole("tab", { name: "Result" }).click();
  await page.locator("main .result", { hasText: "late" }).waitFor();
  await page.context().close();
});

test("a MIME type of a View may be spelled in another way", { timeout: 60_000 }, async () => {
  const { page } = await openOwn("spelled");
  await page.context().close();
});

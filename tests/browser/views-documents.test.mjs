// Documents that no host may show: each is refused with its reason, in the place of the View. And
// metadata that tries to break out of the policy.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { callTool, openPage, shown, startBrowser, startServer } from "./support.mjs";
import { labUpstream, openRawView } from "./views-lab.mjs";

let server;
let browser;
let target;
const reached = [];
before(async () => {
  target = createServer((request, response) => {
    reached.push(request.url);
    response.writeHead(200, { "Access-Control-Allow-Origin": "*" }).end("x");
  });
  await new Promise((done) => target.listen(0, "127.0.0.1", done));
  const lab = labUpstream(`http://127.0.0.1:${target.address().port}`);
  [server, browser] = await Promise.all([startServer({ servers: { lab } }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  target?.close();
});

/** What the page says in the place of the View. */
const REFUSED = {
  missing: /not found/i,
  nothing: /content/i,
  two: /content/i,
  typeless: /type/i,
  othertype: /type/i,
  textless: /text|blob|html/i,
  latin: /utf-?8/i,
  notbase64: /base64/i,
  large: /large|bytes|limit|longer|max/i,
};

test("a document that is missing, unreadable or too large is refused with its reason", {
  timeout: 400_000,
}, async () => {
  const page = await openPage(browser, server);
  for (const [name, reason] of Object.entries(REFUSED)) {
    const { id } = await callTool(server, `lab__${name}`);
    await page.evaluate((hash) => {
      location.hash = hash;
    }, `#/calls/${id}?tab=view`);
    await shown(page, `#/calls/${id}`);
    const said = page.locator("main .bad, main .failure").first();
    await said
      .waitFor({ timeout: 120_000 })
      .catch(async (error) => assert.fail(`${name}: ${error.message}: ${await page.locator("main").innerText()}`));
    assert.match(await said.innerText(), reason, name);
    assert.equal(await page.locator("main iframe").count(), 0, name);
    // The call itself is shown as ever.
    await page.getByRole("tab", { name: "Result" }).click();
    await page.getByText(`${name} was called`).first().waitFor();
  }
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a document in base64 is a View like any other", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server);
  const view = await openRawView(page, server, "lab__blob");
  assert.ok(view.answer.hostInfo);
  await page.context().close();
});

// seed: 001/mcp-apps-sbox-02
test("what a View declares is allowed, and only that", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server);
  const view = await openRawView(page, server, "lab__declared");
  const url = `http://127.0.0.1:${target.address().port}`;
  assert.equal(
    await view.frame.evaluate(
      (url) =>
        fetch(`${url}/declared`).then(
          (it) => it.text(),
          () => "blocked",
        ),
      url,
    ),
    "x",
  );
  assert.equal(
    await view.frame.evaluate(
      (url) =>
        fetch(url.replace("127.0.0.1", "localhost"), { mode: "no-cors" }).then(
          () => "allowed",
          () => "blocked",
        ),
      url,
    ),
    "blocked",
    "another name of the host",
  );
  assert.equal(
    await view.frame.evaluate(
      (url) =>
        new Promise((done) => {
          const it = new Image();
          it.onload = it.onerror = () => done(it.complete);
          it.src = `${url}/picture`;
        }),
      url,
    ),
    true,
  );
  assert.deepEqual(reached, ["/declared"], "a place to connect to is no place of pictures");
  assert.deepEqual(view.answer.hostCapabilities.sandbox.csp.connectDomains, [url]);
  await page.context().close();
});

// seed: 001/mcp-apps-sbox-03
test("entries that try to break out of the policy are left out, and the user is told", {
  timeout: 60_000,
}, async () => {
  reached.length = 0;
  const page = await openPage(browser, server);
  const view = await openRawView(page, server, "lab__breakout");
  const url = `http://127.0.0.1:${target.address().port}`;
  const tried = await view.frame.evaluate(async (url) => {
    const outcomes = {};
    outcomes.fetch = await fetch(`${url}/fetch`, { mode: "no-cors" }).then(
      () => "allowed",
      () => "blocked",
    );
    outcomes.image = await new Promise((done) => {
      const it = new Image();
      it.onload = () => done("allowed");
      it.onerror = () => done("blocked");
      it.src = `${url}/image`;
    });
    outcomes.script = await new Promise((done) => {
      const it = document.createElement("script");
      it.onload = () => done("allowed");
      it.onerror = () => done("blocked");
      it.src = `${url}/script`;
      document.body.append(it);
    });
    outcomes.frame = await new Promise((done) => {
      addEventListener("securitypolicyviolation", () => done("blocked"), { once: true });
      const it = document.createElement("iframe");
      it.src = `${url}/frame`;
      document.body.append(it);
      setTimeout(() => done("allowed"), 1_500);
    });
    const script = document.createElement("script");
    script.textContent =
      'try { globalThis.evaluated = new Function("return 1")(); } catch { globalThis.evaluated = "blocked"; }';
    document.body.append(script);
    outcomes.eval = globalThis.evaluated;
    outcomes.camera =
      (await navigator.mediaDevices?.getUserMedia?.({ video: true }).then(
        () => "allowed",
        () => "blocked",
      )) ?? "blocked";
    return outcomes;
  }, url);
  assert.deepEqual(tried, {
    fetch: "blocked",
    image: "blocked",
    script: "blocked",
    frame: "blocked",
    eval: "blocked",
    camera: "blocked",
  });
  assert.deepEqual(reached, []);
  const { policy, allow } = await page.evaluate(() => {
    const frame = document.querySelector("main iframe");
    return { policy: frame.src, allow: frame.getAttribute("allow") };
  });
  assert.ok(policy);
  // Of what the View asks for, the console grants the clipboard, in both frames.
  const inner = await view.proxy.evaluate(() => document.querySelector("iframe").getAttribute("allow"));
  assert.deepEqual([allow, inner], ["clipboard-write", "clipboard-write"]);
  const notes = await view.told("note");
  assert.ok(notes.length >= 10, notes.join("\n"));
  await page.context().close();
});

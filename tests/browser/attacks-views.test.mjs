// A hostile View in the console: it reaches nothing that it did not declare, and nothing of the page.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { callTool, openCallView, openPage, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
let target;
const reached = [];
before(async () => {
  target = createServer((request, response) => {
    reached.push(request.url);
    response.end("x");
  });
  target.on("upgrade", (_request, socket) => {
    reached.push("socket");
    socket.destroy();
  });
  await new Promise((done) => target.listen(0, "127.0.0.1", done));
  const env = { ATTACK_URL: `http://127.0.0.1:${target.address().port}` };
  const probe = {
    command: process.execPath,
    args: [fileURLToPath(new URL("views-upstream.mjs", import.meta.url))],
    env,
  };
  [server, browser] = await Promise.all([startServer({ servers: { probe } }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  target?.close();
});

/** Opens the hostile View, and returns the page, the View's frame, and what the View wrote down. */
async function attacked() {
  const { id } = await callTool(server, "probe__attack", {});
  const page = await openPage(browser, server, "#/");
  page.popups = [];
  page.on("popup", (popup) => page.popups.push(popup.url()));
  const view = await openCallView(page, id);
  const log = view.locator("#log", { hasText: '"end"' });
  await log.waitFor({ timeout: 40_000 });
  const frame = page.frames().find((it) => it.parentFrame()?.parentFrame());
  return { page, frame, seen: JSON.parse(await log.textContent()) };
}

// X1, X6, X10; `security/iframe-sandboxed`, `sandbox-csp-enforced` seed: 001/mcp-apps-sbox-02
test("a hostile View reaches nothing, and does not leave", { timeout: 90_000 }, async () => {
  for (const how of ["link", "form", "meta"]) {
    const { page, frame, seen } = await attacked();
    const { early, end, ...tried } = seen;
    assert.ok(Object.keys(tried).length >= 29, Object.keys(tried).join());
    for (const [name, outcome] of Object.entries(tried))
      assert.match(String(outcome), /^blocked/, `${name}: ${outcome}`);
    assert.equal(early, -32600, "a request before initialized is refused");
    assert.equal(end, "reached");
    // Then the View navigates itself, which its proxy's policy keeps from loading.
    await frame.evaluate((how) => leave(how), how);
    await page.waitForTimeout(700);
    assert.deepEqual([reached, page.popups], [[], []], how);
    assert.match(page.url(), new RegExp(`^${server.url}/#/calls/`));
    await page.context().close();
  }
  const conversation = await (await fetch(`${server.url}/api/console/conversation`)).json();
  assert.deepEqual(conversation.messages, []);
});

// X2; `sandbox-distinct-origin`
test("a frame is served once, with its policy in the header", { timeout: 60_000 }, async () => {
  const opened = await fetch(`${server.url}/api/console/views`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      tool: "probe__probe",
      contents: { contents: [{ uri: "ui://probe/app.html", mimeType: "text/html;profile=mcp-app", text: "<p>" }] },
    }),
  });
  assert.equal(opened.status, 200);
  const { frame, policy } = await opened.json();
  assert.notEqual(new URL(frame).origin, server.url);
  const first = await fetch(frame);
  assert.equal(first.status, 200);
  const [sent, reports] = first.headers.get("content-security-policy").split("; report-uri ");
  assert.equal(sent, policy);
  assert.match(reports, /^[a-z0-9]+\/blocked$/, "what is blocked is reported to this server");
  assert.match(policy, /frame-ancestors 'none'$/, "no page may have it in a frame, since none asked");
  assert.equal((await fetch(frame)).status, 404);
  assert.equal((await fetch(new URL("/view/guessed", frame))).status, 404);
  const other = await fetch(`${server.url}/api/console/views`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Origin: "http://evil.example" },
    body: "{}",
  });
  assert.equal(other.status, 403);
});

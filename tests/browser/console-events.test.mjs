// What the page shows while things happen: progress, logs of servers, open questions, counts of
// calls, new artifacts, tools of a View.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { callTool, findings, go, openPage, shown, startBrowser, startServer, upstream } from "./support.mjs";
import { ATTACKS } from "./upstream.mjs";
import { labUpstream } from "./views-lab.mjs";

const LIMIT = { timeout: 60_000 };
let server;
let browser;
before(async () => {
  // A small limit, so that an answer becomes an artifact.
  const config = "[artifacts]\nmcp_tool_llm_return_max_bytes = 4096\n";
  [server, browser] = await Promise.all([
    startServer({ config, servers: { lab: upstream, views: labUpstream() } }),
    startBrowser(),
  ]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const seen = (page, text) => page.locator("main").getByText(text).first().waitFor({ timeout: 10_000 });
const gone = (page, text) => page.locator("main").getByText(text).first().waitFor({ state: "hidden", timeout: 10_000 });
const live = (page) => page.waitForFunction(() => document.getElementById("age")?.dataset.state === "live");

/** Calls `lab__works` as an agent that wants progress, without waiting for its end. */
function work(ms) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "agent", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
    progressToken: "p",
  };
  return fetch(`${server.url}/mcp`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": "tools/call",
      "Mcp-Name": "lab__works",
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name: "lab__works", arguments: { ms }, _meta: meta },
    }),
  }).then((response) => response.text());
}

/** Asks the user by `lab__ask`. Returns a function that answers, as an agent of 2026-07-28 does. */
async function askUser() {
  const { result } = await callTool(server, "lab__ask", {}, undefined, { elicitation: { form: {} } });
  assert.equal(result.resultType, "input_required");
  const [[key]] = Object.entries(result.inputRequests);
  const inputResponses = { [key]: { action: "accept", content: { folder: "docs" } } };
  return () =>
    callTool(
      server,
      "lab__ask",
      {},
      undefined,
      { elicitation: { form: {} } },
      { inputResponses, requestState: result.requestState },
    );
}

const isAccessible = async (page) => assert.deepEqual(await findings(page), []);

test("progress of a running call is in the list, on its page and on the page of its tool", LIMIT, async () => {
  const page = await openPage(browser, server, "#/calls");
  await live(page);
  const first = work(4_000);
  await seen(page, /[12] of 4, sheet [12]/);
  await page.locator("[role=list] a").first().click();
  await page.locator("main progress").waitFor();
  await seen(page, /[123] of 4, sheet [123]/);
  await isAccessible(page);
  assert.match(await first, /printed/);
  await seen(page, "printed");
  assert.equal(await page.locator("main progress").count(), 0);
  await go(page, "#/tools/lab__works");
  await page.getByRole("textbox", { name: /^ms/ }).fill("1500");
  await page.keyboard.press("Control+Enter");
  await page.locator(".runbar progress").waitFor();
  await page.locator(".output").getByText("printed").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("progress without a total has a bar without an end, and its text is no markup", LIMIT, async () => {
  const steps = [{ progress: 7, message: ATTACKS.join(" ").replaceAll("\u0000", "") }];
  const page = await openPage(
    browser,
    server,
    `#/tools/lab__works?args=${encodeURIComponent(JSON.stringify({ ms: 4_500, steps }))}`,
  );
  await page.keyboard.press("Control+Enter");
  const bar = await page.waitForFunction(() => {
    const it = document.querySelector(".runbar progress");
    return it && { position: it.position, text: it.closest(".runbar").innerText };
  });
  const { position, text } = await bar.jsonValue();
  assert.equal(position, -1);
  assert.match(text, /7, <img src=x/);
  await page.locator(".output").getByText("printed").waitFor();
  assert.equal(
    await page.evaluate(() => window.hacked ?? document.querySelectorAll("main img, main script, main iframe").length),
    0,
  );
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the log of a server keeps 500 lines", LIMIT, async () => {
  const page = await openPage(browser, server, "#/servers/lab");
  await live(page);
  const { result } = await callTool(server, "lab__works", { ms: 3, lines: 700 });
  assert.equal(result.content[0].text, "printed");
  await seen(page, "line 699");
  assert.equal(await page.locator("ol.audit li").count(), 500);
  await page.context().close();
});

test("the log of a server comes while its page is open, as text", LIMIT, async () => {
  const page = await openPage(browser, server, "#/servers/lab", { width: 320 });
  await live(page);
  await work(100);
  await seen(page, /error press: ink is low <img src=x/);
  await seen(page, /stderr the work begins/);
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
  await isAccessible(page);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test(
  "an open question is shown at home, at its server and at its call, also to a page that is opened later",
  LIMIT,
  async () => {
    const before = await openPage(browser, server, "#/");
    await live(before);
    const answer = await askUser();
    await seen(before, "Where shall the file go?");
    const later = await openPage(browser, server, "#/servers/lab", { theme: "dark" });
    await seen(later, "Where shall the file go?");
    await isAccessible(later);
    await live(later);
    await later.getByRole("link", { name: "lab__ask" }).click();
    await shown(later);
    const done = await answer();
    assert.match(done.result.content[0].text, /docs/);
    for (const page of [before, later]) {
      await gone(page, "Where shall the file go?");
      assert.deepEqual(page.problems, []);
      await page.context().close();
    }
  },
);

test("the counts at home follow the calls", LIMIT, async () => {
  const page = await openPage(browser, server, "#/");
  await live(page);
  const count = () =>
    page.evaluate(() => Number(/(\d+)\s*calls kept/.exec(document.querySelector(".numbers").innerText)[1]));
  const was = await count();
  await callTool(server, "lab__echo", { text: "a" });
  await page.waitForFunction(
    (was) => Number(/(\d+)\s*calls kept/.exec(document.querySelector(".numbers").innerText)[1]) === was + 1,
    was,
  );
  await page.context().close();
});

test("a new artifact comes into the list", LIMIT, async () => {
  const page = await openPage(browser, server, "#/artifacts");
  await live(page);
  const rows = () => page.locator("main tbody tr").count();
  const was = await rows();
  await callTool(server, "lab__large", { kib: 64 });
  await page.waitForFunction((was) => document.querySelectorAll("main tbody tr").length === was + 1, was);
  await page.context().close();
});

test("the tools that a View provides have a form and a result, by keyboard", LIMIT, async () => {
  const { id } = await callTool(server, "views__app", { a: 1 });
  const page = await openPage(browser, server, `#/calls/${id}?tab=view`, { width: 390 });
  const tools = page.getByRole("region", { name: "Tools of the View" });
  await tools.getByText("shout").waitFor({ timeout: 20_000 });
  await tools.locator("summary").first().focus();
  await page.keyboard.press("Enter");
  const add = tools.getByRole("button", { name: /\+ text/ });
  if (await add.count()) await add.press("Enter");
  await tools.getByRole("textbox", { name: /^text/ }).fill("hello");
  await tools.getByRole("button", { name: "Run shout" }).press("Enter");
  await tools.getByText("HELLO").first().waitFor();
  // A tool that does not say that it only reads is called with consent.
  const erase = tools.locator("details").filter({ has: page.locator('summary:text-is("erase")') });
  await erase.locator("summary").first().press("Enter");
  assert.match(await erase.innerText(), /Changes <b>something<\/b>/);
  const dialog = page.locator("dialog[open]");
  for (const [answer, result] of [
    ["No", 0],
    ["Run it", 1],
  ]) {
    await erase.getByRole("button", { name: "Run erase" }).press("Enter");
    // The button to agree works after a moment, in which the question can be read.
    const chosen = dialog.getByRole("button", { name: answer, exact: true, disabled: false });
    await chosen.press("Enter");
    await dialog.waitFor({ state: "detached" });
    if (result) await erase.getByText("UNDEFINED").first().waitFor();
    else assert.doesNotMatch(await erase.innerText(), /UNDEFINED/);
  }
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
  await isAccessible(page);
  assert.deepEqual(
    page.problems.filter((it) => !it.startsWith("foreign request")),
    [],
  );
  await page.context().close();
});

test("a pinned message stays above the log until it is unpinned", LIMIT, async () => {
  await callTool(server, "lab__echo", { text: "keep me" });
  const page = await openPage(browser, server, "#/messages?q=keep%20me");
  await page.locator("[role=list] a").first().click();
  await page.getByRole("button", { name: "Pin", exact: true }).click();
  await page.getByRole("button", { name: "Unpin" }).waitFor();
  await go(page, "#/messages?q=nothing%20has%20this");
  await seen(page, "Pinned");
  await isAccessible(page);
  await page.locator("details a").first().click();
  await seen(page, "All messages");
  await page.getByRole("button", { name: "Unpin" }).click();
  await go(page, "#/messages?q=nothing%20has%20this");
  await seen(page, "No message matches.");
  assert.equal(await page.getByText("Pinned").count(), 0);
  await page.context().close();
});

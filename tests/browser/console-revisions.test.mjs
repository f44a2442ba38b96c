// One call as clients of each revision make it, with their messages and what differs.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { callTool, findings, go, openPage, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const callsKept = async () => (await (await fetch(`${server.url}/api/console/state`)).json()).stats.calls;

/** Opens the inspector with arguments, runs it, and returns the page and the rows of its table as texts. */
async function compared(tool, args) {
  const page = await openPage(browser, server, `#/revisions/${tool}?args=${encodeURIComponent(JSON.stringify(args))}`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("10 calls were made.").waitFor();
  const rows = await page
    .locator("main table tbody tr")
    .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  return { page, rows };
}

/** The heads of the messages of one client, after its part is opened. */
async function messagesOf(page, client) {
  const part = page.locator("details.revision").filter({ hasText: `Messages: ${client}` });
  await part.locator("> summary").click();
  await part.getByText("Gateway and server").waitFor();
  return part.locator("div").first().locator("> details > summary").allTextContents();
}

test("a link fills the arguments, and calls nothing", async () => {
  const before = await callsKept();
  const page = await openPage(browser, server, `#/revisions/lab__echo?args=${encodeURIComponent('{"text":"x"}')}`);
  assert.equal(await page.getByLabel("Arguments as JSON").inputValue(), '{"text":"x"}');
  assert.equal(await callsKept(), before);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a call is made as each revision and set of capabilities, and the answers are compared", async () => {
  const { page, rows } = await compared("lab__echo", { text: "hello" });
  assert.equal(rows.length, 10);
  for (const revision of ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]) {
    const own = rows.filter(([client]) => client.startsWith(revision));
    assert.equal(own.length, 2, revision);
    for (const [client, outcome] of own) {
      assert.equal(outcome, "ok", client);
      assert.doesNotMatch(client, /agreed on/, client);
    }
  }
  assert.match(rows[0][3], /compared with this one/);
  assert.equal(rows[1][3], "the same answer");
  // Clients of sessions get no member of 2026-07-28.
  assert.match(rows[2][3], /resultType is missing/);
  assert.match(await page.locator("main").textContent(), /speaks 2025-11-25/);

  assert.deepEqual(await messagesOf(page, "2026-07-28, no capabilities"), ["→ tools/call", "← result"]);
  assert.deepEqual(await messagesOf(page, "2025-06-18, no capabilities"), [
    "→ initialize",
    "← result",
    "→ notifications/initialized",
    "→ tools/call",
    "← result",
  ]);
  assert.deepEqual(await findings(page), []);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a question goes to clients that can be asked, in the form of their revision", async () => {
  const { page, rows } = await compared("lab__ask", {});
  for (const [client, outcome] of rows) assert.match(outcome, /^(ok|tool_failed|tool failed|rpc.error)$/, client);
  assert.deepEqual(await messagesOf(page, "2026-07-28, questions and Views"), [
    "→ tools/call",
    "← result",
    "→ tools/call",
    "← result",
  ]);
  assert.deepEqual(await messagesOf(page, "2026-07-28, no capabilities"), ["→ tools/call", "← result"]);
  const asked = await messagesOf(page, "2025-11-25, questions and Views");
  assert.ok(asked.includes("← elicitation/create"), asked.join(" "));
  const notAsked = await messagesOf(page, "2025-11-25, no capabilities");
  assert.ok(!notAsked.includes("← elicitation/create"), notAsked.join(" "));
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("arguments that headers repeat are repeated", async () => {
  const { page, rows } = await compared("lab__located", { region: "Köln", options: { limit: 7 } });
  for (const [client, outcome] of rows) assert.equal(outcome, "ok", client);
  await page.context().close();
});

test("arguments that are not JSON are named, and nothing is called", async () => {
  const page = await openPage(browser, server, "#/revisions/lab__echo");
  const before = await callsKept();
  await page.getByLabel("Arguments as JSON").fill('{"text":');
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("The arguments are not JSON").waitFor();
  assert.equal(await callsKept(), before);
  await page.context().close();
});

test("the page of a tool leads to it with the arguments of the form", async () => {
  await callTool(server, "lab__echo", { text: "a" });
  const page = await openPage(
    browser,
    server,
    `#/tools/lab__echo?args=${encodeURIComponent('{"text":"from the form"}')}`,
  );
  await page.getByRole("button", { name: "Compare revisions" }).click();
  await page.getByLabel("Arguments as JSON").waitFor();
  assert.deepEqual(JSON.parse(await page.getByLabel("Arguments as JSON").inputValue()), { text: "from the form" });
  await go(page, "#/");
  await page.context().close();
});

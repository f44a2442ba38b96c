// What changes while a page is open, and what must not: lost events, changed lists, focus, links
// that run nothing, the log of messages.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { callTool, go, openCallView, openPage, shown, startBrowser, startServer, upstream } from "./support.mjs";
import { labUpstream } from "./views-lab.mjs";

const grows = { command: process.execPath, args: [fileURLToPath(new URL("catalog-upstream.mjs", import.meta.url))] };
let server;
let browser;

before(async () => {
  [server, browser] = await Promise.all([
    startServer({
      servers: { lab: upstream, grows },
      config: "[artifacts]\nmcp_tool_response_save_threshold_bytes = 1000\n",
    }),
    startBrowser(),
  ]);
  const text = "Rye needs salt. Sourdough rests for nineteen hours in a cold room. Then it is baked.";
  const { result } = await callTool(server, "am7_create_object", { type: "data.data", name: "Baking", content: text });
  await callTool(server, "am7_vectorize", { uri: result.structuredContent.uri });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Tells the page that events were lost, as the stream does. */
const loseEvents = (page) =>
  page.evaluate(async () => {
    const { live } = await import(new URL("console/api.js", document.baseURI));
    live.dispatchEvent(new CustomEvent("reset", { detail: {} }));
  });
/** Waits until the page hears of events. */
const isLive = (page) => page.waitForSelector(".age[data-state=live]");
const countOfCalls = async () => (await (await fetch(`${server.url}/api/console/state`)).json()).stats.calls;

test("lost events take neither the form nor the running call", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/tools/lab__slow");
  const field = page.getByLabel(/^ms/);
  await field.fill("1500");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForSelector(".runbar .badge.busy");
  await loseEvents(page);
  assert.equal(await field.inputValue(), "1500");
  await page.waitForSelector(".output .badge.ok");
  assert.match(await page.locator(".output").innerText(), /done/);
  assert.equal(await field.inputValue(), "1500");
  await page.context().close();
});

test("lost events leave an open View, and a restart of the server leaves what was typed", {
  timeout: 90_000,
}, async () => {
  let own = await startServer({ servers: { lab: upstream, views: labUpstream() } });
  try {
    const page = await openPage(browser, own, "#/");
    await isLive(page);
    await openCallView(page, (await callTool(own, "views__app", {})).id);
    await page.locator(".view").evaluate((it) => {
      it.dataset.wasThere = "yes";
    });
    await loseEvents(page);
    assert.equal(await page.locator(".view[data-was-there=yes]").count(), 1);
    await go(page, "#/tools/lab__echo");
    await page.getByLabel(/^text/).fill("typed");
    const { port } = new URL(own.url);
    await own.stop();
    await page.waitForSelector(".age[data-state=lost]");
    const anew = page.waitForResponse((it) => it.request().headers()["mcp-method"] === "tools/list" && it.ok());
    own = await startServer({ servers: { lab: upstream, views: labUpstream() }, port });
    // The page hears that events were lost, and fetches its list.
    await anew;
    assert.equal(await page.getByLabel(/^text/).inputValue(), "typed");
    await page.context().close();
  } finally {
    await own.stop();
  }
});

test("lists are fetched anew when events were lost", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/calls");
  await page.evaluate(async () => {
    // No event comes any more.
    const { live } = await import(new URL("console/api.js", document.baseURI));
    for (const name of ["call.started", "call.ended"])
      live.addEventListener(name, (event) => event.stopImmediatePropagation(), { capture: true });
  });
  const before = await page
    .locator("[role=listitem]")
    .first()
    .getAttribute("aria-setsize")
    .catch(() => "0");
  await callTool(server, "lab__echo", { text: "unheard" });
  await loseEvents(page);
  await page.waitForFunction(
    (count) => Number(document.querySelector("[aria-setsize]")?.getAttribute("aria-setsize")) > Number(count),
    before,
  );
  await page.context().close();
});

test("a changed list comes into the page, and an open form stays until its user wants the new one", {
  timeout: 60_000,
}, async () => {
  const page = await openPage(browser, server, "#/tools/grows__changing?q=grows");
  await isLive(page);
  await page.getByLabel(/^first/).fill("typed");
  const item = page.locator(".side a", { hasText: "grows__steady" });
  await item.focus();
  await callTool(server, "grows__grow", {});
  await page.locator(".side a", { hasText: "grows__new_1" }).waitFor();
  await page.getByText("The schema of the tool has changed; this form has the old one.").waitFor();
  assert.equal(await page.getByLabel(/^first/).inputValue(), "typed");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "grows__steady");
  await page.getByRole("button", { name: "Load the new form" }).click();
  await page.getByLabel(/^second/).waitFor();
  await go(page, "#/tools/grows__new_2");
  await page.getByText("No tool is called grows__new_2").waitFor();
  await callTool(server, "grows__grow", {});
  await page.getByText("The tool is available now.").waitFor();
  await page.context().close();
});

test("changes of a server stay until its user has seen them, and say since when", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/servers/grows");
  await isLive(page);
  const changes = page.getByLabel("Changes");
  assert.equal(await changes.count(), 0);
  await callTool(server, "grows__grow", {});
  await changes.waitFor();
  for (let time = 0; time < 2; time += 1) {
    await page.reload();
    await changes.waitFor();
    assert.match(await changes.innerText(), /^\+ .*new_\d+$/m);
    assert.match(await page.locator("main").innerText(), /Changed since .*\d:\d\d/);
  }
  await page.getByRole("button", { name: "Seen" }).click();
  await page.getByText("you have seen all changes").waitFor();
  await page.reload();
  await page.getByText(/unchanged since .*\d:\d\d/).waitFor();
  assert.equal(await changes.count(), 0);
  await page.context().close();
});

test("no event is lost between the data of a page and its stream", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/calls");
  let begin;
  const begins = new Promise((done) => {
    begin = done;
  });
  await page.route("**/api/console/events*", async (route) => {
    await begins;
    await route.continue();
  });
  await page.reload();
  await shown(page, "#/calls");
  const before = await page
    .locator("[role=listitem]")
    .first()
    .getAttribute("aria-setsize")
    .catch(() => "0");
  await callTool(server, "lab__echo", { text: "between" });
  begin();
  await page.waitForFunction(
    (count) => Number(document.querySelector("[aria-setsize]")?.getAttribute("aria-setsize")) > Number(count),
    before,
  );
  await page.context().close();
});

test("a call that ends while its page loads is shown with its end", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/calls");
  await isLive(page);
  const running = callTool(server, "lab__works", { ms: 2_000 });
  const row = page.locator("[role=list] a", { hasText: "lab__works" }).first();
  // The page's second request comes back when the call is over and the page was told so.
  await page.route("**/mcp", async (route) => {
    if (route.request().headers()["mcp-method"] === "tools/list") {
      await running;
      await new Promise((done) => setTimeout(done, 1_000));
    }
    await route.continue();
  });
  await row.click();
  await running;
  await page.locator("main .badge.ok").waitFor();
  await page.getByText("printed").waitFor();
  assert.equal(await page.locator("main progress").count(), 0);
  await page.context().close();
});

test("the log shows each message once", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/");
  await isLive(page);
  for (let visit = 0; visit < 5; visit += 1) {
    await go(page, "#/");
    await callTool(server, "lab__echo", { text: `visit ${visit}` });
    await go(page, "#/messages");
    // The events of what the page has fetched come after it.
    await callTool(server, "lab__echo", { text: `after ${visit}` });
    await page.waitForTimeout(300);
    const rows = await page.locator("main [role=list] a").evaluateAll((all) => all.map((it) => it.href));
    assert.equal(new Set(rows).size, rows.length, "no row is there twice");
  }
  await page.context().close();
});

test("a table that is drawn again keeps the focus", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/");
  await isLive(page);
  const link = page.getByRole("group", { name: "Servers" }).getByRole("link").first();
  await link.focus();
  const row = await link.elementHandle();
  await callTool(server, "lab__echo", { text: "x" });
  await page.waitForFunction((it) => !it.isConnected, row);
  assert.equal(
    await page.evaluate(() => document.activeElement.textContent),
    await row.evaluate((it) => it.textContent),
  );
  await page.context().close();
});

test("the focus goes to the heading of each new page, also with Back", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/");
  const focused = () => page.evaluate(() => `${document.activeElement.tagName} ${document.activeElement.textContent}`);
  assert.match(await focused(), /^BODY/);
  await page.getByRole("link", { name: "Prompts" }).click();
  await page.waitForFunction(() => document.querySelector("main").dataset.ready === "#/prompts");
  assert.equal(await focused(), "H1 Prompts");
  await page.goBack();
  await page.waitForFunction(() => document.querySelector("main").dataset.ready === "#/");
  assert.equal(await focused(), "H1 Home");
  await page.context().close();
});

test("opening a link calls no tool", { timeout: 60_000 }, async () => {
  await callTool(server, "lab__large", { kib: 3 });
  const { structuredContent } = (await callTool(server, "list_artifacts", {})).result;
  const { name } = structuredContent.artifacts[0];
  const before = await countOfCalls();
  const page = await openPage(browser, server, "#/artifacts");
  await page.getByRole("link", { name }).click();
  await page.getByText("0123456789abcde").first().waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download", exact: true }).first().click(),
  ]);
  assert.equal(download.suggestedFilename(), name);
  assert.equal(readFileSync(await download.path(), "utf8"), "0123456789abcde\n".repeat(192));
  await go(page, "#/knowledge?q=sourdough");
  await page.getByText("Press Enter to search.").waitFor();
  assert.equal(await countOfCalls(), before);
  await page.getByLabel("Question").press("Enter");
  await page
    .getByRole("link", { name: /Baking/ })
    .first()
    .click();
  await page.locator("mark").waitFor();
  assert.match(await page.locator("mark").innerText(), /nineteen hours/);
  assert.equal(await countOfCalls(), before + 1);
  await page.context().close();
});

test("the log of messages: calls to make again, whole exports, older ones, and new ones while it is filtered", {
  timeout: 120_000,
}, async () => {
  await callTool(server, "lab__form", { path: "again.txt", mode: "read", password: "xyzzy-1" });
  const page = await openPage(browser, server, "#/messages?q=again.txt");
  await isLive(page);
  await page.locator("[role=listitem]").first().waitFor();
  const count = () => page.locator("[role=listitem]").count();
  const before = await count();
  await callTool(server, "lab__echo", { text: "and again.txt" });
  await page.waitForFunction((was) => document.querySelectorAll("[role=listitem]").length > was, before);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export" }).click(),
  ]);
  const exported = JSON.parse(readFileSync(await download.path(), "utf8"));
  assert.ok(
    exported.length > before && exported.every((it) => typeof it.text === "string" && it.text.includes("again.txt")),
    JSON.stringify(exported[0]),
  );
  const sent = exported.find(
    (it) => it.side === "agent" && !it.sent && it.text.includes("xyzzy") === false && it.text.includes('"path"'),
  );
  await go(page, `#/messages/${sent.id}`);
  await page.getByRole("link", { name: "Call it again" }).click();
  await page.getByLabel(/^path/).waitFor();
  assert.equal(await page.getByLabel(/^path/).inputValue(), "again.txt");
  assert.ok(!(await page.locator("main").innerHTML()).includes("(hidden)"));
  for (let at = 0; at < 120; at += 1) await callTool(server, "lab__echo", { text: `many ${at}` });
  await go(page, "#/messages?q=many");
  // The page asks for the last messages when all have come, and for older ones until there are none.
  const older = page.getByRole("button", { name: "Older messages" });
  const size = () =>
    page.evaluate(() => Number(document.querySelector("[aria-setsize]")?.getAttribute("aria-setsize") ?? 0));
  for (let more = 0; more < 20 && (await older.isVisible()); more += 1)
    await older.click({ timeout: 1000 }).catch(() => {});
  await older.waitFor({ state: "hidden" });
  const all = await size();
  assert.ok(all >= 240, `${all} messages`);
  // What comes later leaves the older ones.
  await callTool(server, "lab__echo", { text: "many more" });
  await page.waitForFunction(
    (was) => Number(document.querySelector("[aria-setsize]").getAttribute("aria-setsize")) > was,
    all,
  );
  await page.context().close();
});

test("Ctrl+K finds prompts, resources, artifacts and calls", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/");
  for (const [words, wanted] of [
    ["greet", "#/prompts/lab__greet"],
    ["notes resource", "#/resources?uri=lab%3Anotes"],
    ["large artifact", "#/artifacts/"],
    ["lab__form call", "#/calls/"],
  ]) {
    await page.keyboard.press("Control+k");
    await page.keyboard.type(words);
    await page.waitForFunction(
      (start) => document.querySelector("[role=option]")?.getAttribute("href")?.startsWith(start),
      wanted,
    );
    await page.keyboard.press("Enter");
    await page.waitForFunction((start) => document.querySelector("main").dataset.ready?.startsWith(start), wanted);
  }
  await page.context().close();
});

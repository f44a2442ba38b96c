// Panes of the console: the handle between them, and lists beside them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { callTool, findings, openPage, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
before(async () => {
  server = await startServer();
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("the handle between panes is moved by keys and by the pointer, and stays where it was put", {
  timeout: 60_000,
}, async () => {
  const page = await openPage(browser, server, "#/tools/lab__form");
  const handle = page.locator(".split > .handle");
  const at = async () => Number(await handle.getAttribute("aria-valuenow"));
  const width = () => page.locator(".split > .side").evaluate((it) => it.getBoundingClientRect().width);
  assert.equal(await at(), 20);
  const before = await width();
  await handle.focus();
  for (let times = 0; times < 5; times += 1) await page.keyboard.press("ArrowRight");
  assert.equal(await at(), 30);
  assert.ok((await width()) > before + 50, `${before} ${await width()}`);
  await page.keyboard.press("End");
  assert.equal(await at(), 80);
  await page.keyboard.press("Home");
  assert.equal(await at(), 10);
  const { x, y, width: wide, height } = await handle.boundingBox();
  await page.mouse.move(x + wide / 2, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(640, y + height / 2, { steps: 4 });
  await page.mouse.up();
  const put = await at();
  assert.ok(put > 40 && put < 60, String(put));
  await page.mouse.move(100, 100);
  assert.equal(await at(), put, "it does not follow a pointer that is up");
  await page.reload();
  await page.waitForSelector(".split > .handle");
  assert.equal(await at(), put);
  assert.deepEqual(await findings(page), []);
  await page.context().close();
});

test("a phone shows one pane and no handle", async () => {
  const page = await openPage(browser, server, "#/tools/lab__form", { width: 320 });
  assert.equal(await page.locator(".handle:visible").count(), 0);
  assert.equal(await page.locator(".side:visible").count(), 0);
  await page.context().close();
});

test("rows are low for a mouse and higher for a finger", async () => {
  for (const [isTouch, wanted] of [
    [false, 28],
    [true, 36],
  ]) {
    const page = await openPage(browser, server, "#/tools");
    // Headless browsers differ in the pointer that they report.
    await page.addInitScript((touch) => {
      const own = window.matchMedia.bind(window);
      window.matchMedia = (query) => (query === "(pointer: fine)" ? { matches: !touch } : own(query));
    }, isTouch);
    await page.reload();
    // A list that loads again replaces its rows: both are measured in one look at the page.
    await page.locator(".row a").nth(1).waitFor();
    const [first, second] = await page
      .locator(".row a")
      .evaluateAll((rows) => rows.slice(0, 2).map((row) => row.getBoundingClientRect().toJSON()));
    assert.equal(first.height, wanted);
    assert.equal(second.top - first.top, wanted);
    await page.context().close();
  }
});

test("a list is one stop of the Tab key, and arrow keys move in it", { timeout: 60_000 }, async () => {
  const first = await openPage(browser, server, "#/tools");
  const names = await first.locator(".side a").allTextContents();
  assert.ok(names.length > 20, `${names.length} tools`);
  const last = names.at(-1);
  await first.context().close();
  const page = await openPage(browser, server, `#/tools/${last}`);
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  await page.locator(".side a[aria-current]").waitFor();
  assert.ok(
    await page.locator(".side a[aria-current]").evaluate((it) => {
      const { top, bottom } = it.getBoundingClientRect();
      const list = it.closest(".virtual").getBoundingClientRect();
      return top >= list.top && bottom <= list.bottom;
    }),
    "the chosen tool is in sight",
  );
  await page.getByLabel("Filter tools").focus();
  await page.keyboard.press("Tab");
  // A list that scrolls may be a stop itself.
  if ((await focused()) !== last) await page.keyboard.press("Tab");
  assert.equal(await focused(), last);
  await page.keyboard.press("ArrowUp");
  assert.equal(await focused(), names.at(-2));
  await page.keyboard.press("Home");
  assert.equal(await focused(), names[0]);
  await page.keyboard.press("End");
  assert.equal(await focused(), last);
  await page.keyboard.press("ArrowDown");
  assert.equal(await focused(), last);
  assert.equal(await page.locator('.side a[tabindex="0"]').count(), 1);
  let tabs = 0;
  while ((await focused()) !== "Run" && tabs < 20) {
    await page.keyboard.press("Tab");
    tabs += 1;
  }
  assert.ok(tabs < 8, `${tabs} times Tab`);
  assert.deepEqual(await findings(page), []);
  await page.context().close();
});

test("a phone shows names of servers and tools whole", { timeout: 60_000 }, async () => {
  await callTool(server, "lab__echo", { text: "x" });
  const page = await openPage(browser, server, "#/servers", { width: 390 });
  const lines = (what) =>
    page
      .locator(what)
      .first()
      .evaluate((it) => it.getClientRects().length);
  for (const [hash, what] of [
    ["#/servers", "td a"],
    ["#/", "section.card td a"],
  ]) {
    await page.goto(new URL(hash, page.url()).href);
    await page.locator(what).first().waitFor();
    assert.equal(await lines(what), 1, hash);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, hash);
  }
  await page.context().close();
});

test("a long list is opened as text, whole and as it is filtered", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/calls");
  const open = page.getByRole("button", { name: "All calls as text" });
  assert.equal(await open.isVisible(), false, "a short list is seen as it is");
  for (let at = 0; at < 120; at += 1) await callTool(server, at % 2 ? "lab__echo" : "lab__fails", { text: "x" });
  await page.reload();
  await open.click();
  const text = page.getByRole("dialog", { name: "Calls as text" }).getByRole("group", { name: "Calls" });
  assert.ok((await text.textContent()).trim().split("\n").length >= 120);
  assert.match(await text.textContent(), /tool failed {2}lab__fails {2}/);
  assert.deepEqual(await findings(page), []);
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "All calls as text");
  await page.getByLabel("Filter calls").fill("echo");
  await page.getByText(/^\d+ calls$/).waitFor();
  await page.waitForFunction(() => !document.querySelector("main [role=list]").textContent.includes("fails"));
  await open.click();
  assert.ok(!(await text.textContent()).includes("lab__fails"));
  await page.context().close();
});

test("the list of artifacts names the tool that made each", async () => {
  await callTool(server, "lab__large");
  const page = await openPage(browser, server, "#/artifacts");
  assert.match(await page.locator("main table").innerText(), /lab__large|large/);
  const origin = await page.locator("main tbody tr").first().locator("td").last().innerText();
  assert.match(origin, /large/);
  await page.context().close();
});

// Views in the console: the official class `App` against our bridge.

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { callTool, openPage, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
before(async () => {
  const probe = { command: process.execPath, args: [fileURLToPath(new URL("views-upstream.mjs", import.meta.url))] };
  server = await startServer({ servers: { probe } });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** What the View has written down, once it wrote `last`. */
async function seenBy(page, last) {
  const frame = page.frameLocator("main iframe").frameLocator("iframe");
  await frame.locator("#log", { hasText: last }).waitFor({ timeout: 15_000 });
  return JSON.parse(await frame.locator("#log").textContent());
}

test("the official App does all that a View does", { timeout: 60_000 }, async () => {
  const { id } = await callTool(server, "probe__probe", { city: "Paris" });
  const page = await openPage(browser, server, "#/");
  const asked = [];
  const answer = async (about, name) => {
    const dialog = page.locator("dialog[open]", { hasText: about });
    await dialog.waitFor();
    asked.push(await dialog.innerText());
    await dialog.getByRole("button", { name }).click();
    await dialog.waitFor({ state: "detached" });
  };
  await page.evaluate((hash) => {
    location.hash = hash;
  }, `#/calls/${id}?tab=view`);
  await answer("open a link", "No");
  await answer("send a message", "Send it");
  const seen = await seenBy(page, '"done"');
  const of = (name) => seen.filter(([it]) => it === name).map(([, value]) => value);
  assert.deepEqual(of("connected"), [{ host: "marquetry-console", theme: "light" }]);
  assert.deepEqual(of("input"), [{ city: "Paris" }]);
  assert.deepEqual(of("result"), [{ given: { city: "Paris" } }]);
  assert.deepEqual(of("call"), ["helper was called"]);
  assert.equal(of("refused")[0].code, -32000);
  assert.match(of("refused")[0].message, /Views may not call the tool 'secret'/);
  assert.match(JSON.stringify(of("link")[0]), /denied/i);
  assert.deepEqual(of("message"), [{}]);
  assert.deepEqual(of("model"), [{}]);
  assert.deepEqual(of("mode"), [{ mode: "fullscreen" }]);
  assert.equal(asked.length, 2, asked.join("\n"));
  await page.getByRole("button", { name: "Leave the full screen" }).click();
  await page.waitForFunction(() => document.querySelector("iframe")?.style.height === "321px");
  await page.close();
});

// Questions before calls, which the page shows and answers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { callTool, findings, openPage, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([startServer({ config: "[ask.servers]\nlab = ['echo']\n" }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("a call that needs a person is allowed on the first page", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/");
  await page.waitForFunction(() => document.getElementById("age")?.dataset.state === "live");
  // An agent without elicitation.
  const refused = await callTool(server, "lab__echo", { text: "<b>hi</b>" });
  assert.match(refused.result.content[0].text, /this client cannot ask/);
  const call = page.getByLabel("Call", { exact: true });
  await call.waitFor();
  assert.match(await call.innerText(), /may the tool "echo" of the server "lab" be called\?[\s\S]*text: <b>hi<\/b>$/);
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Allow once" }).click();
  await call.waitFor({ state: "hidden" });
  const made = await callTool(server, "lab__echo", { text: "<b>hi</b>" });
  assert.equal(made.result.content[0].text, "<b>hi</b>");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
